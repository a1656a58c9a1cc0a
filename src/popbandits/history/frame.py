"""A history as a table: for pandas, and as notebooks show it. `History` calls it, so it does not import it."""

import importlib.util
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from popbandits.errors import MissingExtraError
from popbandits.wording import number, setting

if TYPE_CHECKING:
    import pandas

SHOWN = 10
"""Intervals of the winning lineage that a notebook shows."""


def frame(history: Any) -> "pandas.DataFrame":
    """A row for each observation, in order; the columns are those of `popbandits export`.

    A hyperparameter that is not active is missing (NaN); one whose label is None is None.
    """
    if importlib.util.find_spec("pandas") is None:
        raise MissingExtraError(
            "a history becomes a table with pandas, which is not installed; run: pip install 'popbandits[report]'"
        )
    import pandas

    winning = {step.key for step in history.lineage()}
    rows = []
    for o in history:
        parent_member, parent_round = o.parent or (None, None)
        rows.append(
            {
                "member": o.member,
                "round": o.round,
                "parent_member": parent_member,
                "parent_round": parent_round,
                "stage": history.stage(o.parent),
                "winning": o.key in winning,
                "status": o.status,
                "score_before": o.score_before,
                "score": o.score,
                "change": o.change,
                "steps": o.steps,
                "seconds": o.seconds,
                "fallback": o.fallback,
            }
            | {f"config.{name}": value for name, value in history.space.flatten(o.config).items()}
            | _flat(o.metrics, "metrics.")
        )
    names = ["member", "round", "parent_member", "parent_round", "stage", "winning", "status", "score_before", "score"]
    names += ["change", "steps", "seconds", "fallback", *(f"config.{name}" for name in history.space.names)]
    found = dict.fromkeys(name for row in rows for name in row)
    table = pandas.DataFrame(rows, columns=[*names, *sorted(name for name in found if name not in names)])
    whole = {
        "parent_member": "Int64",
        "parent_round": "Int64",
    }  # Int64 holds what is missing without turning to floats.
    numbers = dict.fromkeys(("score_before", "score", "change", "steps", "seconds"), "float64")
    return table.astype({**whole, **numbers})


def history_html(history: Any) -> str:
    """What a notebook shows: how it stands, and the end of the winning schedule."""
    names = list(history.space.names)
    lineage = history.lineage()
    head = "".join(f"<th>{escape(name)}</th>" for name in ("member", "round", "score", *names))
    body = "".join(
        "<tr>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in (str(o.member), str(o.round), number(o.score), *cells))
        + "</tr>"
        for o in lineage[-SHOWN:]
        for flat in [history.space.flatten(o.config)]
        for cells in [[setting(flat[name])[:80] if name in flat else "" for name in names]]
    )
    part = "" if len(lineage) <= SHOWN else f", its last {SHOWN} of {len(lineage)} intervals"
    caption = f"The winning lineage{part}"
    table = f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<p>{escape(repr(history))}</p>" + (table if lineage else "")


def _flat(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found
