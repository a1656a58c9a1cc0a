"""What happened: frozen observations, the arrays decisions are made from, and their storage."""

from popbandits.history.history import History, Mode, Rows
from popbandits.history.records import Assignment, Config, Key, Observation

__all__ = ["Assignment", "Config", "History", "Key", "Mode", "Observation", "Rows"]
