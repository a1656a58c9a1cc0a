"""What happened: frozen observations, the arrays decisions are made from, and their storage."""

from popbandits.history.history import History, Mode
from popbandits.history.records import Assignment, Config, Decision, Event, Key, Observation
from popbandits.history.rows import Rows
from popbandits.history.store import Store

__all__ = ["Assignment", "Config", "Decision", "Event", "History", "Key", "Mode", "Observation", "Rows", "Store"]
