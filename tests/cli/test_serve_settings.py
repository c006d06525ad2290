"""`obil serve` with settings that cannot be."""

import pytest

pytest.importorskip("fastapi", reason="the service needs obil[service]")
from tests.cli.cases import obil


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OBIL_SERVICE_PORT", "many", "valid integer, unable to parse string as an integer, got 'many'"),
        ("OBIL_SERVICE_ALLOWED_HOSTS", "obil.example.org", "allowed_hosts"),
    ],
)
def test_refuses_a_wrong_variable_in_one_line(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)

    answer = obil("serve", "model")

    assert answer.exit_code == 2
    assert said in answer.stderr
    assert answer.stderr.count("\n") == 1
