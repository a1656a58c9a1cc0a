"""Explorers, which choose the next configuration: one class per published method, and our own."""

from popbandits.explorers.cocabo import CoCaBO
from popbandits.explorers.explorer import Explorer, Proposal, as_explorer
from popbandits.explorers.near_pbt import NearPBT
from popbandits.explorers.pb2_fuse import PB2Fuse
from popbandits.explorers.pb2_mix import PB2Mix
from popbandits.explorers.pb2_mult import PB2Mult
from popbandits.explorers.pb2_rand import PB2Rand
from popbandits.explorers.pbt import PBT
from popbandits.explorers.random_search import RandomSearch

__all__ = [
    "PBT",
    "CoCaBO",
    "Explorer",
    "NearPBT",
    "PB2Fuse",
    "PB2Mix",
    "PB2Mult",
    "PB2Rand",
    "Proposal",
    "RandomSearch",
    "as_explorer",
    "default_explorer",
]


def default_explorer(started: bool) -> Explorer:
    """Make the method of a run that names none; docs/default.md has the reasons."""
    return NearPBT() if started else PBT()
