"""Add, list and revoke the API keys of a service."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from obil.cli.common import AsJson, fail, one_line_errors, print_json, print_table

if TYPE_CHECKING:
    from obil.service.storage.api_keys import KeyRecord
    from obil.service.storage.store import Store

keys = typer.Typer(help="Add, list and revoke the API keys of a service.", no_args_is_help=True, add_completion=False)

StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="OBIL_SERVICE_STORE",
        help="Where the service keeps its streams: a file, sqlite:///file or postgresql://...",
    ),
]
DEFAULT_STORE = "sqlite:///obil.db"
_SECONDS_A_DAY = 86_400.0


@keys.command()
def add(
    name: Annotated[str, typer.Argument(help="Who will hold the key; stands in logs and in the audit.")],
    scope: Annotated[
        list[str], typer.Option("--scope", help="decide, label, read, admin, upload or activate; may be repeated.")
    ],
    days: Annotated[
        float | None, typer.Option("--days", min=0.001, help="Days until it expires; never if not given.")
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Make a key and print it, once: only its hash is kept."""
    with one_line_errors():
        from obil.service.storage.api_keys import make_key

        now = time.time()
        key, record = make_key(name, scope, now=now, expires=None if days is None else now + days * _SECONDS_A_DAY)
        with _opened(store) as opened:
            opened.add_key(record)
    typer.echo(
        f"The key {record.id} of {record.name!r} may {', '.join(record.scopes)}. It is shown this once:", err=True
    )
    typer.echo(key)


@keys.command("list")
def list_keys(store: StoreUrl = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """List all keys, revoked and expired ones too; no secret is kept that could be shown."""
    with one_line_errors(), _opened(store, must_exist=True) as opened:
        records = opened.list_keys()
    if as_json:
        print_json([_shown(record) for record in records])
        return
    header = ("id", "name", "scopes", "created", "state")
    print_table("", header, [list(_shown(record).values())[:5] for record in records])


@keys.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="The id of the key, as `obil keys list` shows it.")],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Take a key back; running services notice within seconds."""
    with one_line_errors(), _opened(store, must_exist=True) as opened:
        revoked = opened.revoke_key(key_id, time.time())
    if not revoked:
        fail(f"no key that is not revoked yet has the id {key_id!r:.80}")
    typer.echo(f"The key {key_id} is revoked.")


@contextmanager
def _opened(url: str, *, must_exist: bool = False) -> "Iterator[Store]":
    try:
        from obil.service.storage.store import file_of, open_store
    except ImportError as error:
        fail(f"API keys need the service: pip install 'obil[service]' ({error.name} is missing)")
    file = file_of(url)
    if must_exist and file is not None and not file.exists():
        fail(f"there is no store at {file}: give --store, or make a key by `obil keys add`")
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def _shown(record: "KeyRecord") -> dict[str, str]:
    from obil.service.http.responses import time_text

    state = "valid"
    if record.revoked is not None:
        state = f"revoked {time_text(record.revoked)}"
    elif record.expires is not None:
        state = f"{'valid until' if record.is_valid(time.time()) else 'expired'} {time_text(record.expires)}"
    return {
        "id": record.id,
        "name": record.name,
        "scopes": " ".join(record.scopes),
        "created": time_text(record.created),
        "state": state,
    }
