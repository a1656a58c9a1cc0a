"""The history of a run: frozen observations, and the arrays that decisions are made from."""

from popbandits.basics.records import Assignment, Config, Decision, Event, Key, Observation
from popbandits.basics.settings import Mode
from popbandits.history.history import History
from popbandits.history.rows import Rows

__all__ = ["Assignment", "Config", "Decision", "Event", "History", "Key", "Mode", "Observation", "Rows"]
