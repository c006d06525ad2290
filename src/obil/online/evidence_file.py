"""Write what the rows of a site tell of their priors as counts in a file, and read the files of many sites."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from obil.arrays import FloatArray, IntArray, require_in
from obil.errors import InvalidInputError
from obil.online.evidence_bins import EvidenceBins
from obil.online.noisy_counts import BINS_PER_CLASS, NoisyCounts
from obil.online.row_counts import LOWEST, RowCounts
from obil.online.weighted_rows import WeightedRows
from obil.serving.ratio_model import RatioModel

FORMAT, VERSION = "obil evidence", 1
LARGEST_FILE = 1_000_000_000  # bytes
LARGEST_COUNT = 2**53
LEAST_EPSILON, LARGEST_EPSILON = 1e-3, 100.0


@dataclass(frozen=True, slots=True, eq=False)
class PooledEvidence:
    """The evidence of one file, or of several: of all rows, by the name None, or of each value of a column."""

    by: str | None
    segments: Mapping[str | None, WeightedRows]
    epsilons: tuple[float | None, ...]  # of each file; None of counts without noise

    def __add__(self, other: "PooledEvidence") -> "PooledEvidence":
        if not isinstance(other, PooledEvidence):
            return NotImplemented
        if self.by != other.by:
            raise InvalidInputError(
                f"evidence by {self.by!r:.60} and by {other.by!r:.60} cannot be pooled: write both with the same --by"
            )
        segments = dict(self.segments)
        for name, rows in other.segments.items():
            segments[name] = segments[name] + rows if name in segments else rows
        return PooledEvidence(self.by, segments, self.epsilons + other.epsilons)


def noisy_bins(model: RatioModel) -> EvidenceBins:
    """Return the bins that noise is added to: few, and the same wherever the model is."""
    return EvidenceBins.of(model.evidence_holdout, most=BINS_PER_CLASS * model.n_classes)


def evidence_record(
    model: RatioModel,
    fingerprint: str,
    segments: Mapping[str | None, FloatArray],
    *,
    by: str | None = None,
    epsilon: float | None = None,
    rng: np.random.Generator | None = None,
) -> dict[str, Any]:
    """Return a file's content: counts of each segment's rows of log ratios, (n, F, K), and what they are valid for.

    With `epsilon` the counts are differentially private. The names of the segments are not: they are published as they
    are, and that there is a segment says that it has rows.
    """
    record: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "model": fingerprint,
        "classes": model.n_classes,
        "folds": model.n_own_folds,
        "by": by,
        "epsilon": epsilon,
        "bins": None,
    }
    if epsilon is None:
        counted = {name: RowCounts.of(rows) for name, rows in segments.items()}
        lines = [
            {"name": name, "steps": own.steps.tolist(), "counts": own.counts.tolist()} for name, own in counted.items()
        ]
    else:
        require_in("--noise", epsilon, LEAST_EPSILON, LARGEST_EPSILON)
        bins, random = noisy_bins(model), rng or np.random.default_rng()
        record["bins"] = bins.digest
        noisy = {name: NoisyCounts.of(rows, bins, epsilon=epsilon, rng=random) for name, rows in segments.items()}
        lines = [{"name": name, "counts": own.counts.tolist()} for name, own in noisy.items()]
    record["segments"] = lines
    return record | {"digest": _digest(record)}


def write_evidence(record: Mapping[str, Any], path: Path) -> None:
    """Write a file's content as JSON."""
    path.write_text(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def read_evidence(path: Path, model: RatioModel, fingerprint: str) -> PooledEvidence:
    """Return the evidence in a file, or say why it is not evidence by this model."""
    if path.stat().st_size > LARGEST_FILE:
        raise InvalidInputError(f"{path} has {path.stat().st_size:,} bytes: an evidence file has at most a billion")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InvalidInputError(f"{path} is not an evidence file: name one that `obil prior --evidence-out` wrote")
    if record.get("version") != VERSION:
        raise InvalidInputError(
            f"{path} has version {record.get('version')!r:.20} of the format, this obil reads {VERSION}: write it again"
        )
    stated = record.pop("digest", None)
    if stated != _digest(record):
        raise InvalidInputError(f"{path} is damaged, its digest does not match: get it from its site again")
    if record.get("model") != fingerprint:
        raise InvalidInputError(
            f"{path} was written with another model ({record.get('model')!r:.20}): all sites need the same model folder"
        )
    try:
        return _pooled(record, model)
    except KeyError as error:
        raise InvalidInputError(f"{path} is damaged: it has no {error}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{path} is damaged: {error}") from None


def _pooled(record: Mapping[str, Any], model: RatioModel) -> PooledEvidence:
    epsilon: Any = record["epsilon"]
    by, n_folds = record["by"], record["folds"]
    if (record["classes"], n_folds) != (model.n_classes, model.n_own_folds):
        raise InvalidInputError("its classes and folds must be those of the model")
    if epsilon is not None:
        require_in(
            "its epsilon", epsilon if isinstance(epsilon, int | float) else np.nan, LEAST_EPSILON, LARGEST_EPSILON
        )
    if not (by is None or isinstance(by, str)):
        raise InvalidInputError(f"`by` must be a column or null, got {by!r:.40}")
    segments: dict[str | None, WeightedRows] = {}
    bins = None if epsilon is None else noisy_bins(model)
    if bins is not None and record["bins"] != bins.digest:
        raise InvalidInputError("its bins must be those that this obil makes: write it again with this version")
    for line in record["segments"]:
        name, counts = line["name"], _integers(line["counts"], 1)
        if name in segments or not (name is None if by is None else isinstance(name, str)):
            raise InvalidInputError(f"each segment has one name, of `by`, got {name!r:.40}")
        if bins is None:
            steps = _integers(line["steps"], 2)
            fits = steps.shape == (len(counts), model.n_classes) and bool((counts > 0).all())
            if not fits or (steps.max(axis=1) != 0).any() or (steps < LOWEST).any():
                raise InvalidInputError(
                    f"the counts of segment {name!r:.40} must be positive, of log-likelihoods up to 0"
                )
            segments[name] = RowCounts.merged(steps, counts, n_folds).weighted()
        else:
            if counts.shape != (bins.n_bins,):
                raise InvalidInputError(f"segment {name!r:.40} must have {bins.n_bins} counts, got {len(counts)}")
            segments[name] = NoisyCounts(counts, n_folds, float(epsilon)).weighted(bins)
    return PooledEvidence(by, segments, (epsilon,))


def _integers(values: Any, n_axes: int) -> IntArray:
    found = np.array(values)
    if found.size == 0:
        return np.zeros((0,) * n_axes, dtype=np.int64)
    if found.dtype.kind != "i" or found.ndim != n_axes or (np.abs(found) > LARGEST_COUNT).any():
        raise InvalidInputError("counts must be integers")
    return found.astype(np.int64)


def _digest(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
