"""Remarks on a space that is valid but may not be what the user meant."""

from popbandits.space.encoding import Space


def remarks(space: Space, members: int) -> list[str]:
    """List points to check before a run with this many members; empty for most spaces."""
    found = [
        f"{name}: ({low}, {high}) means the whole numbers {', '.join(map(str, range(low, high + 1)))}; write "
        f"({low}.0, {high}.0) for all numbers between"
        for name, (low, high) in space.few_integers.items()
    ]
    if space.fixed and members > 1:
        found.append(
            f"the space has nothing to tune, so {members} members train with the same values; write a range as "
            "(0.1, 1.0) and choices as ['adam', 'sgd']"
        )
    return found
