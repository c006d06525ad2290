import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("fastapi", reason="the service needs obil[service]")
from obil.cli.keys import keys
from obil.cli.main import app
from obil.service.storage.api_keys import is_right, split_key
from obil.service.storage.store import open_store


def test_is_a_command_of_obil(store: Path) -> None:
    open_store(str(store)).close()
    answer = CliRunner().invoke(app, ["keys", "list", "--store", str(store), "--json"])

    assert (answer.exit_code, answer.stdout) == (0, "[]\n")


@pytest.mark.parametrize("arguments", [["list"], ["revoke", "a1"]])
def test_a_store_that_is_not_there_is_not_made_by_looking(store: Path, arguments: list[str]) -> None:
    answer = run(store, *arguments)

    assert (answer.exit_code, store.exists()) == (2, False)
    assert "there is no store" in answer.output


def run(store: Path, *arguments: str) -> Result:
    return CliRunner().invoke(keys, [*arguments, "--store", str(store)])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "streams.db"


def test_prints_a_key_once_and_keeps_only_its_hash(store: Path) -> None:
    answer = run(store, "add", "till 7", "--scope", "decide", "--scope", "label")

    assert answer.exit_code == 0, answer.output
    key = answer.stdout.strip()
    key_id, secret = split_key(key) or ("", "")
    assert secret not in answer.stderr
    opened = open_store(str(store))
    record = opened.find_key(key_id)
    opened.close()
    assert is_right(record, secret)
    assert record is not None
    assert record.scopes == ("decide", "label")
    assert secret.encode() not in store.read_bytes()


def test_lists_keys_with_what_became_of_them(store: Path) -> None:
    run(store, "add", "short", "--scope", "read", "--days", "1")
    key = run(store, "add", "gone", "--scope", "admin").stdout.strip()
    assert run(store, "revoke", key.split("_")[1]).exit_code == 0

    listed = json.loads(run(store, "list", "--json").stdout)

    assert [one["name"] for one in listed] == ["short", "gone"]
    assert listed[0]["state"].startswith("valid until")
    assert listed[1]["state"].startswith("revoked")
    assert key.split("_")[2] not in json.dumps(listed)
    assert "short" in run(store, "list").stdout


def test_revokes_a_key_only_once(store: Path) -> None:
    key_id = run(store, "add", "till", "--scope", "decide").stdout.split("_")[1]

    assert run(store, "revoke", key_id).exit_code == 0
    again = run(store, "revoke", key_id)

    assert again.exit_code == 2
    assert key_id in again.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "till", "--scope", "everything"), "scopes must be some of"),
        (("add", " ", "--scope", "read"), "printable"),
        (("revoke", "nobody"), "nobody"),
    ],
)
def test_refuses_in_one_line(store: Path, arguments: tuple[str, ...], said: str) -> None:
    open_store(str(store)).close()
    answer = run(store, *arguments)

    assert answer.exit_code == 2
    assert said in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_refuses_a_store_of_another_kind(tmp_path: Path) -> None:
    answer = CliRunner().invoke(keys, ["list", "--store", "mysql://localhost/db"])

    assert answer.exit_code == 2
    assert "postgresql" in answer.stderr


def test_finds_the_store_where_the_service_does(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(store, "add", "till 7", "--scope", "decide")
    monkeypatch.setenv("OBIL_SERVICE_STORE", str(store))

    assert "till 7" in CliRunner().invoke(keys, ["list", "--json"]).stdout
