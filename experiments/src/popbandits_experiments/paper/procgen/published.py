"""Published returns on Procgen, typed from the paper: Parker-Holder et al., NeurIPS 2021, arXiv:2106.15883.

Test and normalised returns are from its main table, training returns from its appendix. Means and standard
deviations over five trials of 25M steps a member (populations of four), as printed; the columns PPO and UCB-DrAC are
from Raileanu et al. (2021), one agent of 25M steps. The printed "5.4 ± 0.0.5" of PB2-Rand's test on Jumper is read as
5.4 ± 0.5.
"""

from collections.abc import Mapping

Figure = tuple[float, float]
"""Mean and standard deviation."""

METHODS = ("PPO", "UCB-DrAC", "PBT", "PB2-Rand", "PB2-Mult", "PB2-Mix")

_TEST: Mapping[str, tuple[Figure, ...]] = {
    "bigfish": ((4.0, 1.2), (9.7, 1.0), (6.6, 2.4), (8.2, 0.1), (9.6, 1.7), (10.6, 1.9)),
    "caveflyer": ((5.1, 0.9), (5.3, 0.9), (4.4, 1.0), (5.8, 1.8), (5.6, 0.8), (6.0, 0.7)),
    "coinrun": ((8.5, 0.5), (8.5, 0.5), (6.8, 1.0), (8.1, 0.1), (8.5, 0.4), (8.1, 0.2)),
    "fruitbot": ((26.7, 0.8), (28.3, 0.9), (25.6, 0.2), (29.5, 1.9), (29.6, 0.8), (29.0, 0.6)),
    "jumper": ((5.8, 0.5), (6.4, 0.6), (6.2, 0.3), (5.4, 0.5), (5.9, 0.1), (6.2, 0.3)),
    "leaper": ((4.9, 0.7), (5.0, 0.3), (3.6, 0.6), (5.0, 2.4), (5.0, 1.4), (6.6, 1.9)),
    "starpilot": ((24.7, 3.4), (30.2, 2.8), (26.9, 7.9), (33.6, 3.1), (35.3, 1.5), (36.3, 2.4)),
}
_TRAIN: Mapping[str, tuple[Figure, ...]] = {
    "bigfish": ((8.9, 1.5), (13.2, 2.2), (12.0, 3.3), (20.8, 1.8), (18.2, 2.0), (17.1, 2.9)),
    "caveflyer": ((6.8, 0.6), (5.7, 0.6), (7.2, 0.4), (7.3, 1.7), (7.0, 1.3), (7.5, 0.9)),
    "coinrun": ((9.3, 0.3), (9.5, 0.3), (8.2, 0.8), (10.0, 0.0), (9.9, 0.2), (9.6, 0.2)),
    "fruitbot": ((29.1, 1.1), (29.5, 1.2), (27.4, 0.2), (32.2, 0.7), (30.5, 1.4), (30.9, 1.2)),
    "jumper": ((8.3, 0.4), (8.1, 0.7), (8.3, 0.2), (9.0, 0.2), (8.9, 0.1), (9.2, 0.5)),
    "leaper": ((5.5, 0.4), (5.3, 0.5), (4.1, 0.5), (6.9, 2.0), (5.6, 2.1), (7.1, 2.3)),
    "starpilot": ((29.8, 2.3), (35.3, 2.2), (33.6, 7.4), (44.1, 2.7), (40.3, 1.3), (41.8, 2.7)),
}

RETURNS: Mapping[str, Mapping[str, Mapping[str, Figure]]] = {
    levels: {game: dict(zip(METHODS, row, strict=True)) for game, row in rows.items()}
    for levels, rows in {"test": _TEST, "train": _TRAIN}.items()
}
"""Returns by levels, game and method."""

BASELINE = "PB2-Rand"
"""Method whose mean returns are 100 % in the normalised returns."""

NORMALISED: Mapping[str, Figure] = {
    "PBT": (85.6, 22.4),
    "PB2-Rand": (100.0, 23.8),
    "PB2-Mult": (105.3, 14.6),
    "PB2-Mix": (112.1, 20.4),
}
"""Test returns in percent of PB2-Rand's mean on the same game, over all seven games; training returns have none."""
