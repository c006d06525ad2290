"""Peers from the literature, one a file, written from their papers' mathematics and run as obil trackers."""

from experiments.peers.flh_ftl import FLHFTL
from experiments.peers.ftfwh import FTFWH
from experiments.peers.fth import FTH
from experiments.peers.rlls import RLLS
from experiments.peers.rogd import ROGD

__all__ = ["FLHFTL", "FTFWH", "FTH", "RLLS", "ROGD"]
