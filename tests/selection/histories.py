"""Histories for selections, written as tables of scores."""

from collections.abc import Mapping, Sequence

import numpy as np

from popbandits.history import History, Key, Observation

SPACE = {"x": (0.0, 1.0)}


def history_of(scores: Sequence[Sequence[float]], parents: Mapping[Key, Key | None] | None = None) -> History:
    """Rows are rounds, columns members; NaN fails. Members go on from themselves unless `parents` says otherwise."""
    made = History(SPACE, size=len(scores[0]), rounds=1000)
    drawn = np.random.default_rng(0)
    for round_, row in enumerate(scores):
        for member, score in enumerate(row):
            own = made.last_completed(member)
            usual = None if own is None else own.key
            made.append(
                Observation(
                    member=member,
                    round=round_,
                    config={"x": float(drawn.random())},
                    parent=(parents or {}).get((member, round_), usual),
                    score_before=np.nan,
                    score=score,
                    status="completed" if np.isfinite(score) else "failed",
                )
            )
    return made
