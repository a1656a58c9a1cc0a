"""Observations as a table, for pandas, notebooks and spreadsheets."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from popbandits.basics.extras import require
from popbandits.basics.records import Key, Observation
from popbandits.basics.wording import number, setting, visible
from popbandits.space import Space

if TYPE_CHECKING:
    import pandas

NUMBERS = ("score_before", "score", "change", "steps", "seconds")
COMMON_COLUMNS: dict[str, type] = {
    **dict.fromkeys(("member", "round", "parent_member", "parent_round", "stage"), int),
    "winning": bool,
    "status": str,
    **dict.fromkeys(NUMBERS, float),
    "fallback": str,
}
"""Columns that every run has, with the types of their values."""
MAX_SHOWN = 10
"""Number of intervals of a lineage shown in a notebook."""


def frame(
    space: Space,
    observations: Iterable[Observation],
    stage: Callable[[Key | None], int],
    winning: Iterable[Observation],
) -> "pandas.DataFrame":
    """Return a table with a row for each observation, in order, and the columns of `popbandits export`.

    A hyperparameter that is not active is missing (NaN); one whose label is None is None.

    Args:
        space: The search space.
        observations: The observations, in order.
        stage: Function that counts the intervals that a parent's weights have been trained for.
        winning: The winning lineage.
    """
    require("pandas", extra="report", user="a history as a table")
    import pandas

    won = {step.key for step in winning}
    rows = [table_row(o, space, stage(o.parent), o.key in won) for o in observations]
    names = [*COMMON_COLUMNS, *(f"config.{name}" for name in space.names)]
    names += [f"applied.{name}" for name in space.schedules]
    found = dict.fromkeys(name for row in rows for name in row)
    table = pandas.DataFrame(rows, columns=[*names, *sorted(name for name in found if name not in names)])
    whole = {"parent_member": "Int64", "parent_round": "Int64"}  # Int64 holds missing values without becoming float.
    return table.astype({**whole, **dict.fromkeys(NUMBERS, "float64")})


def history_html(space: Space, lineage: Sequence[Observation], summary: str, caption: str) -> str:
    """Return the HTML for notebooks: a summary, and the end of the schedule along a lineage with a caption."""
    names = list(space.names)
    head = "".join(f"<th>{escape(name)}</th>" for name in ("member", "round", "score", *names))
    body = "".join(
        "<tr>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in (str(o.member), str(o.round), number(o.score), *cells))
        + "</tr>"
        for o in lineage[-MAX_SHOWN:]
        for config in [space.flatten(space.applied(o.config, o.round))]
        for cells in [[setting(config[name])[:80] if name in config else "" for name in names]]
    )
    part = "" if len(lineage) <= MAX_SHOWN else f", its last {MAX_SHOWN} of {len(lineage)} intervals"
    table = (
        f"<table><caption>{escape(caption)}{part}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
    return f"<p>{escape(summary)}</p>" + (table if lineage else "")


def table_row(o: Observation, space: Space, stage: int, winning: bool) -> dict[str, Any]:
    """Map COMMON_COLUMNS, `config.`, `applied.` (of schedules) and `metrics.` to an observation's values."""
    parent_member, parent_round = o.parent or (None, None)
    applied = space.flatten(space.applied(o.config, o.round)) if space.schedules else {}
    values = (o.member, o.round, parent_member, parent_round, stage, winning, o.status, o.score_before, o.score)
    return (
        dict(zip(COMMON_COLUMNS, (*values, o.change, o.steps, o.seconds, o.fallback), strict=True))
        | {f"config.{name}": value for name, value in space.flatten(o.config).items()}
        | {f"applied.{name}": value for name, value in applied.items() if name in space.schedules}
        | flat(o.metrics, "metrics.")
    )


def flat(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Flatten nested dicts into one with dotted names.

    >>> flat({"loss": {"policy": 0.5}, "episodes": 3}, "metrics.")
    {'metrics.loss.policy': 0.5, 'metrics.episodes': 3}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def text(value: Any) -> str:
    """Convert a value to text; characters that UTF-8 cannot encode are escaped.

    >>> text("crop"), text(None), text(0.1), text(True), text((3, 3))
    ('crop', 'None', '0.1', 'true', '[3, 3]')
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return "None" if value is None else json.dumps(value)


def cell(value: Any) -> str:
    """Convert a value to text that is safe in a spreadsheet and on a terminal.

    An apostrophe precedes a formula, and control characters are escaped.

    >>> cell("=1+1"), cell("-1"), cell(-1.0), cell("a\\x1b[2J")
    ("'=1+1", '-1', '-1.0', 'a\\\\x1b[2J')
    """
    shown = visible(text(value))
    if not (isinstance(value, str) and shown.lstrip().startswith(("=", "+", "-", "@"))):
        return shown
    try:
        float(shown)
    except ValueError:
        return f"'{shown}"
    return shown
