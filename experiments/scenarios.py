"""Name the prior paths that trackers are compared on."""

from collections.abc import Callable

from obil.arrays import FloatArray
from obil.datasets import prior_paths

SCENARIOS: dict[str, Callable[[int], FloatArray]] = {
    ".001": lambda n: prior_paths.constant(n, 0.001),
    ".01": lambda n: prior_paths.constant(n, 0.01),
    ".1": lambda n: prior_paths.constant(n, 0.1),
    "jump": lambda n: prior_paths.jump_and_decay(n, base=0.03, height=0.09, at=500, decay=1_000.0),
    "drift": lambda n: prior_paths.bounded_walk(
        n, start=0.1, step_size=0.002, flip_probability=0.005, low=0.02, high=0.5, random_state=5
    ),
    "sine": lambda n: prior_paths.sine(n, middle=0.1, amplitude=0.09, period=2_000.0),
    "square": lambda n: prior_paths.square(n, 0.02, 0.2, half_period=1_000),
}
SIX = (".01", ".1", "jump", "drift", "sine", "square")
