"""Tunes the hyperparameters of training runs while they train.

>>> import popbandits
>>> "PB2Mix" in dir(popbandits)
True
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

# Every public name, by the module it lives in; `testing` is a package of its own. A module is imported when one of its
# names is first used: ConfigSpace alone takes most of a second, and `import popbandits` should not wait for it.
_HOMES = {
    "popbandits.errors": (
        "AgentError",
        "ArgumentError",
        "CheckpointError",
        "HistoryError",
        "MissingExtraError",
        "PopbanditsError",
        "RunError",
        "SpaceError",
    ),
    "popbandits.agent": ("Agent", "BatchedAgents", "Outcome"),
    "popbandits.space": ("Space",),
    "popbandits.history": ("Assignment", "Decision", "Event", "History", "Observation"),
    "popbandits.storage": ("Store",),
    "popbandits.explorers": (
        "BGPBT",
        "CoCaBO",
        "Explorer",
        "PB2Fuse",
        "PB2Mix",
        "PB2Mult",
        "PB2Rand",
        "PBT",
        "PatientPBT",
        "Proposal",
        "RandomSearch",
    ),
    "popbandits.selection": (
        "MFPBT",
        "Patient",
        "Picks",
        "Restarts",
        "Selection",
        "Smoothed",
        "TTest",
        "Truncation",
    ),
    "popbandits.population": ("Population",),
    "popbandits.run": ("Experiment", "Result", "View", "resume", "tune"),
    "popbandits": ("testing",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME_OF]

if TYPE_CHECKING:  # The table again, as type checkers and editors read it; a test compares the two.
    from popbandits import testing as testing
    from popbandits.agent import Agent as Agent
    from popbandits.agent import BatchedAgents as BatchedAgents
    from popbandits.agent import Outcome as Outcome
    from popbandits.errors import AgentError as AgentError
    from popbandits.errors import ArgumentError as ArgumentError
    from popbandits.errors import CheckpointError as CheckpointError
    from popbandits.errors import HistoryError as HistoryError
    from popbandits.errors import MissingExtraError as MissingExtraError
    from popbandits.errors import PopbanditsError as PopbanditsError
    from popbandits.errors import RunError as RunError
    from popbandits.errors import SpaceError as SpaceError
    from popbandits.explorers import BGPBT as BGPBT
    from popbandits.explorers import PBT as PBT
    from popbandits.explorers import CoCaBO as CoCaBO
    from popbandits.explorers import Explorer as Explorer
    from popbandits.explorers import PatientPBT as PatientPBT
    from popbandits.explorers import PB2Fuse as PB2Fuse
    from popbandits.explorers import PB2Mix as PB2Mix
    from popbandits.explorers import PB2Mult as PB2Mult
    from popbandits.explorers import PB2Rand as PB2Rand
    from popbandits.explorers import Proposal as Proposal
    from popbandits.explorers import RandomSearch as RandomSearch
    from popbandits.history import Assignment as Assignment
    from popbandits.history import Decision as Decision
    from popbandits.history import Event as Event
    from popbandits.history import History as History
    from popbandits.history import Observation as Observation
    from popbandits.population import Population as Population
    from popbandits.run import Experiment as Experiment
    from popbandits.run import Result as Result
    from popbandits.run import View as View
    from popbandits.run import resume as resume
    from popbandits.run import tune as tune
    from popbandits.selection import MFPBT as MFPBT
    from popbandits.selection import Patient as Patient
    from popbandits.selection import Picks as Picks
    from popbandits.selection import Restarts as Restarts
    from popbandits.selection import Selection as Selection
    from popbandits.selection import Smoothed as Smoothed
    from popbandits.selection import Truncation as Truncation
    from popbandits.selection import TTest as TTest
    from popbandits.space import Space as Space
    from popbandits.storage import Store as Store
else:  # Out of a type checker's sight, or it would believe that every name exists.

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used (PEP 562)."""
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        home = _HOME_OF[name]
        value = import_module(f"{home}.{name}") if home == __name__ else getattr(import_module(home), name)
        globals()[name] = value  # The next use does not come here.
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
