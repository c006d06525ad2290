"""Data to try things on: named sets, splits, prior paths, simulated streams."""

from typing import TYPE_CHECKING

from obil.lazy import lazy_names

if TYPE_CHECKING:
    from obil.datasets import prior_paths as prior_paths
    from obil.datasets.gaussian_stream import GaussianClasses as GaussianClasses
    from obil.datasets.gaussian_stream import Stream as Stream
    from obil.datasets.named_set import NamedSet as NamedSet
    from obil.datasets.named_set import load_named as load_named
    from obil.datasets.named_set import named_sets as named_sets
    from obil.datasets.shift_protocol import ShiftedStream as ShiftedStream
    from obil.datasets.shift_protocol import shifted_streams as shifted_streams
    from obil.datasets.shift_protocol import thinned_rows as thinned_rows
    from obil.datasets.splits import Split as Split
    from obil.datasets.splits import duplicate_groups as duplicate_groups
    from obil.datasets.splits import stratified_split as stratified_split
    from obil.datasets.splits import time_split as time_split
    from obil.datasets.tables import read_table as read_table
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
