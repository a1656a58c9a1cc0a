"""The history of a run: frozen observations, and the arrays that decisions are made from."""

from popbandits.history.history import History
from popbandits.history.rows import Rows
from popbandits.records import Assignment, Config, Decision, Event, Key, Observation
from popbandits.settings import Mode

__all__ = ["Assignment", "Config", "Decision", "Event", "History", "Key", "Mode", "Observation", "Rows"]
