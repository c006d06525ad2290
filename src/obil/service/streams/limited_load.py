"""Load a model that nobody vouches for in a process with little time and memory, before the service does."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from obil.errors import ModelFileError, ObilError

SECONDS = 60.0
MEMORY, MEMORY_PER_BYTE = 2_000_000_000, 10  # bytes of addresses for libraries and machine code, and per byte of files
LARGEST_FILE = 50_000_000  # bytes that it may write: the cache of machine code
_REFUSED = 3  # the exit status with which it gives a reason
# of the environment it gets no more: the rest may hold the password of a database
_PASSED_ON = ("PATH", "PYTHONPATH", "HOME", "TMPDIR", "NUMBA_CACHE_DIR", "LD_LIBRARY_PATH", "SYSTEMROOT")


def require_loadable(folder: Path, *, seconds: float = SECONDS, memory: int = MEMORY) -> None:
    """Refuse a model folder that cannot be loaded, judged and asked to score within the limits, trusting nothing."""
    memory += MEMORY_PER_BYTE * sum(path.stat().st_size for path in folder.iterdir())
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-m", __name__, str(folder), str(seconds), str(memory)]
    try:
        ran = subprocess.run(  # noqa: S603  # our own command
            command, env=environment, timeout=seconds, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ModelFileError(f"the model took more than {seconds:g} s to load: nothing of it was kept") from None
    if ran.returncode == _REFUSED:
        raise ModelFileError(ran.stdout[:2_000].decode(errors="replace").replace(str(folder), "the model"))
    if ran.returncode != 0:
        raise ModelFileError(
            f"the process that loaded the model ended with status {ran.returncode}: it may need more than "
            f"{memory:,} bytes of memory or {seconds:g} s"
        )


def _load(folder: Path) -> None:
    from obil.service.streams.model_registry import card_of  # noqa: PLC0415  # after the limits are set
    from obil.serving.files import listed_files, load  # noqa: PLC0415  # the same
    from obil.serving.ratio_model import as_ratio_model  # noqa: PLC0415  # the same

    listed = listed_files(folder)
    unlisted = sorted({path.name for path in folder.iterdir()} - set(listed))
    if unlisted:
        raise ModelFileError(f"the model has {unlisted[0]!r:.60}, which its manifest does not list: save it again")
    model = as_ratio_model(load(folder))
    card_of("", model)
    if model.n_features is not None:
        with contextlib.suppress(ObilError, ArithmeticError, LookupError, TypeError, ValueError):
            model.score(np.zeros((1, model.n_features)))  # what it answers is of no interest here


def _limit(seconds: float, memory: int) -> None:
    try:
        import resource  # noqa: PLC0415  # not on every platform
    except ImportError:
        return
    limits = {"AS": memory, "CPU": int(seconds) + 1, "FSIZE": LARGEST_FILE, "CORE": 0}
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))


def _main(folder: str, seconds: str, memory: str) -> int:
    _limit(float(seconds), int(memory))
    try:
        _load(Path(folder))
    except MemoryError:
        return 1
    except Exception as error:
        reason = str(error) if isinstance(error, ObilError) else f"it cannot be loaded: {type(error).__name__}"
        sys.stdout.buffer.write(reason.encode(errors="replace"))
        return _REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
