"""The last intervals of a lineage."""

from popbandits.history import History, Observation


def last_intervals(history: History, place: int, count: int) -> list[Observation]:
    """The observation at a place and those it descends from, at most `count`, the oldest first."""
    line: list[Observation] = []
    current: Observation | None = history[place]
    while current is not None and len(line) < count:
        line.append(current)
        current = None if current.parent is None else history.find(current.parent)
    return line[::-1]
