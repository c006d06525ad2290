"""Compute once per model what monitoring compares with: bins, the null hull, warps and the first bets."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from obil.arrays import FloatArray, as_integer, require_in
from obil.monitor.bets import MEMORIES, propose, warped_histograms
from obil.monitor.monitor_memory import MonitorMemory, place_stakes, start_wealths
from obil.monitor.null_hull import SETTLED, STEPS, NullHull, bet_against
from obil.monitor.score_bins import ScoreBins
from obil.serving.holdout import Holdout
from obil.serving.measured_once import MeasuredOnce
from obil.serving.ratio_model import LARGEST_BLOCK, RatioModel
from obil.trackers.calibration_spread import thinned_rows

REFRESH_EVERY = 50  # rows
MONITOR_ROWS = 50_000  # held-out rows of a class: more make a monitor slow to start, and hardly sharper
WORK_PER_REFRESH = 2_000  # many classes place bets less often, so that a row costs about the same


@dataclass(frozen=True, slots=True, eq=False)
class MonitorReference:
    """Everything of a monitor that follows from the held-out rows and its settings. Immutable."""

    holdout: Holdout
    settings: Mapping[str, float]  # alpha, delta, tolerance, block
    held_out: str  # sha256 of the held-out rows
    bins: ScoreBins
    hull: NullHull
    warped: FloatArray  # (1 + J, K, B) histograms, as they are and under each warp
    start_prior: FloatArray  # (K,)
    every: int  # rows between two times that bets are placed
    kept: FloatArray  # (M,) of each running histogram, from one time to the next
    start_wealths: FloatArray  # (1 + 2N,) fractions of the evidence
    start: MonitorMemory  # before the first row, the bets placed

    @classmethod
    def of(
        cls, holdout: Holdout, *, alpha: float = 0.005, delta: float = 0.005, tolerance: float = 0.0, block: int = 1
    ) -> "MonitorReference":
        """Compute the reference from held-out rows of every class."""
        settings = {
            "alpha": require_in("alpha", alpha, 1e-12, 0.5),
            "delta": require_in("delta", delta, 1e-12, 0.5),
            "tolerance": require_in("tolerance", tolerance, 0.0, 10.0),
            "block": as_integer("block", block, 1, LARGEST_BLOCK),
        }
        bins = ScoreBins.of(holdout)
        hull = NullHull.of(holdout, bins, delta=settings["delta"], tolerance=settings["tolerance"])
        warped = warped_histograms(holdout, bins)
        n_alternatives = len(warped) - 1 + len(MEMORIES)
        n_classes, n_bins = hull.histograms.shape
        every = REFRESH_EVERY * math.ceil(n_alternatives * STEPS * n_classes * n_bins / WORK_PER_REFRESH)
        every = block * math.ceil(every / block)  # the bets of a block stay the same
        wealths = start_wealths(n_alternatives)
        mixing, parts = hull.start(n_alternatives)
        start = MonitorMemory(
            fresh=np.zeros(n_bins),
            counts=np.zeros((len(MEMORIES), n_bins)),
            priors=np.tile(holdout.prior, (len(warped), 1)),
            mixing=mixing,
            parts=parts,
            pays=np.ones((1 + 2 * n_alternatives, n_bins)),
            wealths=wealths.copy(),
            paid=np.zeros(len(wealths)),
            evidence=np.zeros(2),
            seen=np.zeros(4, dtype=np.int64),
        )
        kept = np.exp(-every / np.array(MEMORIES))
        reference = cls(
            holdout, settings, fingerprint_of(holdout), bins, hull, warped, holdout.prior, every, kept, wealths, start
        )
        alternatives, bets = np.empty((2, n_alternatives, n_bins))
        for _ in range(SETTLED):  # the first bets are as good as the later ones, which start from them
            place_bets(reference, start, alternatives, bets)
        return reference

    def fresh_memory(self) -> MonitorMemory:
        """Return the memory of a monitoring run before its first row."""
        return MonitorMemory(**{name: values.copy() for name, values in self.start._asdict().items()})

    def with_settings(self, settings: Mapping[str, Any]) -> "MonitorReference":
        """Return the reference for the same rows with these settings: this one, if they are its own."""
        return self if dict(settings) == self.settings else MonitorReference.of(self.holdout, **settings)


def place_bets(reference: MonitorReference, memory: MonitorMemory, alternatives: FloatArray, bets: FloatArray) -> None:
    """Propose what the next rows may be, (N, B), and bet on it against the hull, (N, B), in the memory."""
    kept, warped, start, hull = reference.kept, reference.warped, reference.start_prior, reference.hull
    propose(memory.fresh, memory.counts, kept, warped, start, memory.priors, alternatives)
    bet_against(hull.histograms, hull.radii, alternatives, memory.mixing, memory.parts, bets)
    place_stakes(bets, memory.pays)


def fingerprint_of(holdout: Holdout) -> str:
    """Name held-out rows by what they hold: the bins, the sets and the warps all follow from them."""
    digest = hashlib.sha256()
    for values in (holdout.log_ratios, holdout.labels, holdout.weights):
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def allowances_of(model: RatioModel) -> dict[str, Any]:
    """Return what a monitor of a model's streams allows for: its tolerance, and the rows of a block."""
    if model.evidence is None:
        return {"tolerance": 0.0, "block": 1}
    return {"tolerance": model.evidence.tolerance, "block": model.evidence.block}


def monitor_reference(model: RatioModel) -> MonitorReference:
    """Return the common reference of all streams of a model, computed once."""
    return _REFERENCES.of(model)


def _computed(model: RatioModel) -> MonitorReference:
    whole = model.evidence_holdout
    rows = thinned_rows(whole.labels, n_classes=model.n_classes, most=MONITOR_ROWS)
    sample = Holdout(whole.log_ratios[rows], whole.labels[rows], whole.weights[rows])
    return MonitorReference.of(sample, **allowances_of(model))


_REFERENCES = MeasuredOnce(_computed)
