"""Remarks on a space that is valid but may not be what was meant."""

from popbandits.space.encoding import Space


def remarks(space: Space, members: int, explore: str = "replaced") -> list[str]:
    """List what to look at before a run with so many members, of which these explore; nothing for most runs."""
    said = [
        f"{name}: ({low}, {high}) stands for the whole numbers {', '.join(map(str, range(low, high + 1)))}; write "
        f"({low}.0, {high}.0) if all numbers between are meant"
        for name, (low, high) in space.few_integers.items()
    ]
    said += [
        f"{name}: [{low}, {high}] is a choice of two values; write ({low}, {high}) if all numbers between are meant"
        for name, (low, high) in space.float_pairs.items()
    ]
    if space.fixed and members > 1:
        said.append(
            f"the space has nothing to tune, so {members} members train with the same values; write a range as "
            "(0.1, 1.0) and choices as ['adam', 'sgd']"
        )
    if members == 1 and explore == "replaced" and not space.fixed:
        said.append(
            "a population of 1 has no better member to copy, so nothing is tuned; give more members, or explore='all'"
        )
    return said
