"""Remarks on a space that is valid but may not be what the user meant."""

from popbandits.space.encoding import Space


def remarks(space: Space, members: int, explore: str = "replaced") -> list[str]:
    """List points to check before a run with this many members; empty for most runs."""
    found = list(space.doubts)
    if space.fixed and members > 1:
        found.append(
            f"the space has nothing to tune, so {members} members train with the same values; write a range as "
            "(0.1, 1.0) and choices as ['adam', 'sgd']"
        )
    if members == 1 and explore == "replaced" and not space.fixed:
        found.append(
            "a population of 1 has no better member to copy, so nothing is tuned; give more members, or explore='all'"
        )
    return found
