"""Serve a model over HTTP."""

from typing import Annotated, Any

import typer

from obil.cli import common


@common.one_line_errors()
def serve(
    model: common.ModelFolder,
    host: Annotated[str | None, typer.Option(help="Address to listen at; beyond loopback API keys are needed.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen at, 8642 if not given; 0 for any free one.")] = None,
    store: Annotated[
        str | None, typer.Option(help="Where streams are kept: a path, sqlite:///path or postgresql://...")
    ] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="A name the service is called by; may be given more than once.")
    ] = None,
    require_keys: Annotated[bool | None, typer.Option(help="Ask for API keys on loopback too.")] = None,
    store_inputs: Annotated[
        bool | None, typer.Option(help="Keep rows as they were sent, not only their scores.")
    ] = None,
    retain_days: Annotated[float | None, typer.Option(help="Erase decisions that are older.")] = None,
    cost_fp: common.CostFalsePositive = None,
    cost_fn: common.CostFalseNegative = None,
    policy: common.PolicyText = None,
    positive: Annotated[str | None, typer.Option(help="The class to alert on.")] = None,
    trust: common.Trust = None,
) -> None:
    """Serve a model: decisions over HTTP, many streams, a page to look at.

    What is not given here is taken from the environment (OBIL_SERVICE_HOST, OBIL_SERVICE_STORE, ...).
    """
    try:
        import fastapi as _fastapi  # noqa: F401  # only to see that it is there
        import uvicorn as _uvicorn  # noqa: F401  # the same
    except ImportError:
        common.fail("the service is an extra: pip install 'obil[service]'")
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    from obil.service.running import run_service
    from obil.service.service_settings import ServiceSettings
    from obil.service.streams.operations import StreamSettings

    given: dict[str, Any] = {
        "host": host,
        "port": port,
        "store": store,
        "allowed_hosts": tuple(allowed_host) if allowed_host else None,
        "require_keys": require_keys,
        "store_inputs": store_inputs,
        "retain_days": retain_days,
    }
    try:
        settings = ServiceSettings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        common.fail(f"{'.'.join(map(str, first['loc']))}: {first['msg']}, got {first['input']!r:.80}")
    except SettingsError as error:  # what should be JSON in the environment is not
        common.fail(f"{error}: write it as JSON, such as OBIL_SERVICE_ALLOWED_HOSTS='[\"obil.example.org\"]'")
    rule = common.chosen_policy(policy, cost_fp, cost_fn)
    defaults = StreamSettings(policy=dict(rule.to_json()), positive=positive)
    typer.echo(f"obil opens {model}...", err=True)  # compiled code and a large model take seconds
    run_service(model, settings, trusted=trust or (), defaults=defaults, announce=_announce, progress=_show_progress)


def _show_progress(line: str) -> None:
    typer.echo(f"obil is {line}", err=True)


def _announce(address: str) -> None:
    typer.echo(f"obil serves at {address}  (stop with Ctrl-C)", err=True)
