"""What happened: frozen observations, the arrays decisions are made from, and their storage."""

from popbandits.history.history import History, Mode
from popbandits.history.records import Assignment, Config, Key, Observation
from popbandits.history.rows import Rows

__all__ = ["Assignment", "Config", "History", "Key", "Mode", "Observation", "Rows"]
