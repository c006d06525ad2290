"""Hold every library to one thread, so that times can be compared and sums come out alike."""

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit linear algebra, OpenMP and torch to one thread, and give torch its own back afterwards."""
    import torch  # an experiment can be listed and drawn without it

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)
