"""Show on standard error how far a fit is: a bar on a terminal and in a notebook, lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Show = Callable[[int, int], None]  # of what was done, and of what there is to do

LINES = 10  # at most, where there is no bar


@contextmanager
def fit_progress(what: str, *, verbose: int) -> Iterator[Show | None]:
    """Give a function that shows progress with its rate and the time that is left; None where nothing is asked for."""
    if not verbose:
        yield None
        return
    from rich.console import Console  # noqa: PLC0415  # only who asks for a bar needs them
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn  # noqa: PLC0415  # likewise

    console, start = Console(stderr=True), time.monotonic()
    if not (console.is_terminal or console.is_jupyter):
        yield _lines(what, start, lambda line: console.print(line, highlight=False, soft_wrap=True))
        return
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}")
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=None, rate="")
        yield lambda done, total: bar.update(
            task, completed=done, total=total, rate=rate_text(done, total, time.monotonic() - start)
        )


def rate_text(done: int, total: int, seconds: float) -> str:
    """Return how fast something is done, and the time that is left.

    >>> rate_text(5, 20, 30.0)
    '5 of 20, 10 per minute, 90 s left'
    >>> rate_text(15, 16, 0.3)
    '15 of 16, 3,000 per minute, 0 s left'
    """
    if not done:
        return f"0 of {total:,}"
    rate, left = 60.0 * done / max(seconds, 1e-9), seconds * (total - done) / done
    return f"{done:,} of {total:,}, {rate:,.{0 if rate >= 10.0 else 1}f} per minute, {left:,.0f} s left"


def counted(show: Show | None, total: int) -> Callable[[], None]:
    """Return what is to be called once for each of so many steps.

    >>> step = counted(print, 2)
    >>> step()
    1 2
    """
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if show is not None:
            show(done, max(done, total))

    return step


def _lines(what: str, start: float, write: Callable[[str], None]) -> Show:
    """Return what writes a line each time another tenth is done."""
    written = 0

    def show(done: int, total: int) -> None:
        nonlocal written
        tenths = LINES * done // max(total, 1)
        if tenths > written:
            written = tenths
            write(f"{what}: {100 * done // total}%, {rate_text(done, total, time.monotonic() - start)}")

    return show
