"""Serve a demonstration model, play streams into it, and stop cleanly."""

import contextlib
import tempfile
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from obil.cli.common import console, fail, one_line_errors
from obil.cli.demo import demo_data, demo_model

if TYPE_CHECKING:
    from obil.cli.demo_streams import Player

STOP_SECONDS = 15.0  # in which a service that was told to stop has stopped
SEED = 0  # of the split and the model: a model that is loaded again must not meet rows it was fitted on


def serve_demo(
    folder: Annotated[
        Path | None, typer.Option(help="Keep the model and the streams here; a folder that is gone at the end if not.")
    ] = None,
    rows: Annotated[int, typer.Option(min=100, max=1_000_000, help="Length of each stream.")] = 20_000,
    pace: Annotated[float, typer.Option(min=1.0, max=10_000.0, help="Rows per second, of each stream.")] = 100.0,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen at; 0 for any free one.")] = 8642,
) -> None:
    """Serve a model of real data, play three streams into it, and show where to look."""
    for package in ("fastapi", "uvicorn", "pydantic_settings", "prometheus_client"):
        if find_spec(package) is None:
            fail(f"the service is an extra, and {package} is missing: pip install 'obil[service]'")
    if folder is not None and folder.exists() and not folder.is_dir():
        fail(f"--folder must be a folder, and {folder} is a file")
    with one_line_errors(), _place(folder) as place:
        _serve(place, rows, pace, port)


@contextlib.contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="obil-demo-") as made:
            yield Path(made)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def _serve(folder: Path, rows: int, pace: float, port: int) -> None:
    # imported here so that `obil --help` pays for none of it
    from obil.cli.demo_streams import Player, demo_streams
    from obil.service.running import bound_socket, run_service
    from obil.service.service_settings import ServiceSettings
    from obil.serving.files import load, save

    bound_socket("127.0.0.1", port).close()  # before the model, which takes its time
    screen, home = console(), folder / "model"
    with screen.status("Loading the data...") as status:
        data, (train, test) = demo_data(SEED)
        if not (home / "manifest.json").exists():
            status.update("Fitting and calibrating...")
            save(demo_model(data, train, SEED), home)
        start = float(load(home).prior_[1])
        status.update("Drawing the streams...")
        streams = demo_streams(data.features.iloc[test], data.labels[test], rows, start=start)
    player = Player(streams, pace=pace)
    playing: list[threading.Thread] = []

    def announce(address: str) -> None:
        screen.print(
            f"{data.description}.\nLook at {address}  (stop with Ctrl-C)\n"
            f"  prior-shifts   the odds of a positive quadruple from those of {start:.1%}, then recover; "
            "5 % of the labels come 500 rows late\n"
            "  quiet          nothing happens\n"
            "  sensor-dims    after a fifth of the rows every value comes 15 % too low: no class prior explains "
            "that, and the monitor will say so",
            soft_wrap=True,
            markup=False,
        )
        playing.append(threading.Thread(target=_play, args=(player, address), daemon=True))
        playing[0].start()

    settings = ServiceSettings(
        host="127.0.0.1", port=port, store=f"sqlite:///{folder / 'streams.db'}", log_level="warning"
    )
    # Ctrl-C is uvicorn's until it has stopped; then it is handed on
    with contextlib.suppress(KeyboardInterrupt):
        try:
            run_service(home, settings, announce=announce)
        finally:
            player.stopping.set()
            for thread in playing:
                thread.join(timeout=10.0)
    screen.print("Stopped.")


def _play(player: "Player", address: str) -> None:
    from obil.service import Client, ServiceError

    try:
        with Client(address.rstrip("/"), retries=1) as client:
            if player.play(client):
                console().print("All rows have been played; the service runs until Ctrl-C.", markup=False)
    except ServiceError as error:
        if not player.stopping.wait(STOP_SECONDS):  # else the service is going away, as it was told to
            console().print(f"Playing stopped: {error}", markup=False)
