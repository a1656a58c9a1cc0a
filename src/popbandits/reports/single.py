"""The page of one run."""

import math
import shlex
from collections.abc import Callable
from html import escape
from itertools import islice
from typing import Any

import numpy as np

from popbandits.advice import advise
from popbandits.history.frame import flat, text
from popbandits.reports.figures.arms import arms
from popbandits.reports.figures.comparison import regrets
from popbandits.reports.figures.deciding import deciding
from popbandits.reports.figures.effects import effects, effects_figure
from popbandits.reports.figures.figure import Figure, require_extra
from popbandits.reports.figures.learning import learning, metric_values
from popbandits.reports.figures.lineage import lineage
from popbandits.reports.figures.model import model_view
from popbandits.reports.figures.schedules import schedules
from popbandits.reports.html import breakable, cards, figure, filled_table, findings, markup, page, show_warnings, table
from popbandits.reports.run import LABEL, Run, shorten
from popbandits.reports.status import selection_name
from popbandits.reports.words import never_explored, not_clear, spans, summary, what_mattered
from popbandits.wording import counted, first_line, number, setting

ROWS = 3_000
"""Maximum intervals in the table of a page."""
SPANS = 60
"""Maximum rows of the table of the winning schedule."""
MISHAPS = 50
"""Maximum failures listed one by one."""
WINNING = '<label><input id="winning" type="checkbox"> winning lineage only</label>'
METRICS = 12
"""Maximum columns of agents' metrics."""


def figures_of(run: Run) -> dict[str, Figure]:
    """Draw every figure of a run that has data, by name."""
    require_extra()
    if not len(run.history):
        return {}
    made = (
        learning(run),
        None if run.space.fixed else schedules({run.method: [run]}),
        lineage(run),
        regrets({"": {run.method: [run]}}),
        arms([run]),
        effects_figure([run], effects([run])),
        model_view(run),
        deciding({run.method: [run]}),
    )
    return {one.name: one for one in made if one is not None}


@np.errstate(over="ignore", invalid="ignore")  # Scores may be near 1e308.
def single(run: Run, libraries: Callable[[], str]) -> tuple[str, list[Figure]]:
    """Return the page of one run, and its figures."""
    drawn = figures_of(run)
    columns, rows, note = intervals(run)
    sections = {
        "In short": _short(run),
        "How it learned": _figures(drawn, "learning", "lineage", "regret"),
        "The schedule": _figures(drawn, "schedules") + _schedule(run),
        "Why": _figures(drawn, "effects", "arms", "model", "deciding"),
        "Failures": _failures(run),
        "All intervals": filled_table("intervals", columns, note, "crop failed", WINNING),
        "Replay it": _replay(run),
    }
    if len(drawn) and run.scores.shape[1] > 1:
        sections["How it learned"] = _member_choice(run.scores.shape[1]) + sections["How it learned"]
    task = f"{shorten(str(run.about['task']), LABEL)} · " if run.about.get("task") else ""
    subtitle = f"{task}{run.method} · seed {run.about.get('seed', '–')} · {run.directory}"
    made = list(drawn.values())
    metrics = {name: metric_values(run, name) for name in run.metrics} if made else {}
    return page(run.name, subtitle, sections, made, libraries, {"columns": columns, "rows": rows}, metrics), made


def _figures(drawn: dict[str, Figure], *names: str) -> str:
    return "".join(figure(drawn[name]) for name in names if name in drawn) or markup(
        "p", "There is nothing to draw yet."
    )


def _member_choice(members: int) -> str:
    options = "".join(markup("option", f"member {m}", value=m) for m in range(min(members, 200)))
    choice = markup("select", markup("option", "all members", value=-1), options, id="member")
    return markup("div", markup("label", "Highlight ", choice), class_="controls")


def _short(run: Run) -> str:
    best, how = run.history.best, run.status
    facts = {
        "best score": "–" if best is None else number(best.score),
        "state": how.state,
        "rounds": str(how.round) if how.rounds is None else f"{how.round} of {how.rounds}",
        "members": str(run.scores.shape[1]),
        "failed intervals": f"{how.failures:,}",
    }
    told = "".join(markup("p", breakable(sentence)) for sentence in summary(run))
    worth = show_warnings([one.text for one in advise(run.history, selection_name(run.about))])
    found = effects([run])
    mattered = findings(what_mattered(found), not_clear([run], found), never_explored([run]))
    return cards(facts) + worth + told + mattered


def _schedule(run: Run) -> str:
    way = spans(run)
    if not way:
        return ""
    names = [name for name in run.space.names if any(name in run.space.flatten(span.config) for span in way)]
    note = "The winning lineage, round by round; a cell is empty where the hyperparameter was inactive."
    if len(way) > SPANS:
        note += f" The last {SPANS} of {len(way):,} configurations."
    rows = []
    for span in way[-SPANS:]:
        config = run.space.flatten(span.config)
        rounds = str(span.first) if span.first == span.last else f"{span.first}–{span.last}"
        values = [shorten(setting(config[name]), 60) if name in config else "" for name in names]
        rows.append([rounds, ", ".join(map(str, span.members)), *values, number(span.score)])
    return table(note, ["rounds", "member", *names, "score after"], rows)


def _failures(run: Run) -> str:
    total = run.status.failures
    if not total:
        return markup("p", "None.")
    intro = f"{counted(total, 'interval')} of {len(run.history):,} did not complete."
    intro += "" if total <= MISHAPS else f" The first {MISHAPS}:"
    parts = []
    for one in islice(run.mishaps, MISHAPS):
        title = f"Member {one.member}, round {one.round}, {one.kind}: {first_line(one.text)}"
        more = "\n".join(part for part in (one.text, one.traceback) if part)
        parts.append(markup("details", markup("summary", breakable(title)), markup("pre", escape(more))))
    return markup("p", escape(intro)) + "".join(parts)


def _replay(run: Run) -> str:
    folder = str(run.directory)
    command = f"popbandits replay {shlex.quote(folder)}"
    program = f"from popbandits import History\n\nHistory.load({folder!r}).schedule()  # one configuration per interval"
    return (
        markup("p", "Train one agent from scratch along the winning schedule, with the run's seed or with others:")
        + markup("pre", markup("code", escape(command)))
        + markup("p", "Or use the schedule in your own program:")
        + markup("pre", markup("code", escape(program)))
    )


def intervals(run: Run) -> tuple[list[str], list[list[Any]], str]:
    """Return the table of intervals: columns, rows, and a note on which intervals it has."""
    history = run.history
    indices = range(len(history))
    note = "Click a heading to sort."
    if len(history) > ROWS:
        won = sorted(history.index_of(key) for key in run.winning)[-ROWS // 2 :]
        latest = range(len(history) - (ROWS - len(won)), len(history))
        indices = sorted({*won, *latest})  # type: ignore[assignment]
        folder = shlex.quote(str(run.directory))
        note = (
            f"{len(indices):,} of {len(history):,} intervals: the latest, and the winning lineage. All of them: "
            f"popbandits export {folder}. {note}"
        )
    kept = [history[i] for i in indices]
    metrics = [flat(o.metrics, "") for o in kept]
    extra = sorted({name for one in metrics for name in one})[:METRICS]
    names = list(run.space.names)
    columns = ["member", "round", "status", "winning", "parent", "score", "change", "seconds"]
    rows = []
    for o, reported in zip(kept, metrics, strict=True):
        config = run.space.flatten(o.config)
        parent = None if o.parent is None else f"{o.parent[0]}, round {o.parent[1]}"
        fixed = [o.member, o.round, o.status, o.key in run.winning, parent, o.score, o.change, o.seconds]
        chosen = [text(config[name]) if config.get(name, 0) is None else config.get(name) for name in names]
        rows.append([_plain(value) for value in (*fixed, *chosen, *(reported.get(name) for name in extra))])
    heads = [shorten(name, 60) for name in (*names, *extra)]
    return [*columns, *heads], rows, note


def _plain(value: Any) -> Any:
    """Convert a value to short JSON."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value if isinstance(value, int) and abs(value) < 2**53 else shorten(text(value), 150)
