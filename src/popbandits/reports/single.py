"""The page of one run."""

import shlex
from collections.abc import Callable
from html import escape
from itertools import islice
from typing import Any

import numpy as np

from popbandits.basics.arithmetic import difference, without_rounding
from popbandits.basics.wording import counted, first_line, number, rounded
from popbandits.history.frame import flat, text
from popbandits.reports.figures.costs import costs
from popbandits.reports.figures.effects import effects, effects_figure
from popbandits.reports.figures.figure import Figure
from popbandits.reports.figures.learning import learning, metric_values
from popbandits.reports.figures.schedules import schedules
from popbandits.reports.figures.tried import tried
from popbandits.reports.figures.winner import winner
from popbandits.reports.gained import gain_over_start
from popbandits.reports.html import breakable, cards, figure, filled_table, findings, markup, page
from popbandits.reports.run import MAX_LABEL_CHARS, MAX_TRACEBACK_CHARS, Run, describe_changes, shorten
from popbandits.reports.stats import beside_others
from popbandits.reports.status import rounds_done
from popbandits.reports.words import never_explored, next_steps, summary, told_gain, unclear_effects, what_mattered

MAX_INTERVAL_ROWS = 3_000
"""Maximum intervals in the table of a page."""
MAX_FAILURES_LISTED = 50
"""Maximum failures listed one by one."""
WINNING_FILTER = '<label><input id="winning" type="checkbox"> winning lineage only</label>'
MAX_METRIC_COLUMNS = 12
"""Maximum columns of agents' metrics."""


def figures_of(run: Run) -> dict[str, Figure]:
    """Draw every figure of a run that has data, by name."""
    if not len(run.history):
        return {}
    made = (
        winner(run, gain_over_start(run)) if run.lineage else None,
        learning(run),
        None if run.space.fixed else schedules({run.method: [run]}),
        tried(run),
        costs(run),
        effects_figure(effects([run])),
    )
    return {one.name: one for one in made if one is not None}


@np.errstate(over="ignore", invalid="ignore")  # Scores may be near 1e308.
def report_page(run: Run, libraries: Callable[[], str]) -> tuple[str, list[Figure]]:
    """Return the page of one run, and its figures."""
    drawn = figures_of(run)
    tables = {"intervals": interval_table(run), "copies": copies_table(run)}
    tables = {name: one for name, one in tables.items() if one[1] or name == "intervals"}
    filters = {"intervals": ("crop failed", WINNING_FILTER), "copies": ("member 3", "")}
    filled = {name: filled_table(name, heads, note, *filters[name]) for name, (heads, _, note) in tables.items()}
    sections = {
        "In short": _short(run, drawn),
        "How it learned": _figures(drawn, "learning", "costs"),
        "What was tried": _figures(drawn, "schedules", "tried"),
        "Why": _figures(drawn, "effects"),
        "Copies": filled.get("copies", markup("p", "No member copied another.")),
        "Failures": _failures(run),
        "All intervals": filled["intervals"] + _versions(run),
    }
    if len(drawn) and run.size > 1:
        sections["How it learned"] = _member_choice(run.size) + sections["How it learned"]
    task = f"{shorten(str(run.about['task']), MAX_LABEL_CHARS)} · " if run.about.get("task") else ""
    subtitle = f"{task}{run.method} · seed {run.about.get('seed', '–')} · {run.directory}"
    made = list(drawn.values())
    metrics = {name: metric_values(run, name) for name in run.metrics} if made else {}
    rows = {name: {"columns": heads, "rows": filling} for name, (heads, filling, _) in tables.items()}
    return page(run.name, subtitle, sections, made, libraries, rows, metrics), made


def _versions(run: Run) -> str:
    found = ", ".join(f"{name} {version}" for name, version in run.about.get("versions", {}).items())
    return markup("p", breakable(f"Last started with {found}.")) if found else ""


def _figures(drawn: dict[str, Figure], *names: str) -> str:
    found = "".join(figure(drawn[name]) for name in names if name in drawn)
    return found or markup("p", "There is nothing to draw yet.")


def _member_choice(members: int) -> str:
    options = "".join(markup("option", f"member {m}", value=m) for m in range(min(members, 200)))
    choice = markup("select", markup("option", "all members", value=-1), options, id="member")
    return markup("div", markup("label", "Highlight ", choice), class_="controls")


def _short(run: Run, drawn: dict[str, Figure]) -> str:
    best, how, gain = run.history.best, run.status, gain_over_start(run)
    over = f"gained over {gain.over if gain else 'the start'}"
    facts = {over: "–" if gain is None else str(gain)} if run.tuned else {}
    facts |= {
        "best score": number(best.score if best else None),
        "state": how.state,
        "rounds": rounds_done(how.round, how.rounds),
        "failed intervals": f"{how.failures:,}",
    }
    steps = [
        markup(
            "li", markup("strong", f"{what}."), " ", breakable(why), markup("pre", escape(command)) if command else ""
        )
        for what, why, command in next_steps(run, gain)
    ]
    todo = markup("div", markup("h3", "What to do next"), markup("ul", *steps), class_="warned") if steps else ""
    told = "".join(markup("p", breakable(sentence)) for sentence in summary(run))
    found = effects([run])
    mattered = findings(what_mattered(found), unclear_effects([run], found), never_explored([run]))
    shown = figure(drawn["winner"]) if "winner" in drawn else ""
    return cards(facts) + markup("p", breakable(told_gain(gain))) + shown + todo + told + mattered


def _failures(run: Run) -> str:
    total = run.status.failures
    if not total:
        return markup("p", "None.")
    intro = f"{counted(total, 'interval')} of {len(run.history):,} did not complete."
    intro += "" if total <= MAX_FAILURES_LISTED else f" The first {MAX_FAILURES_LISTED}:"
    parts = []
    for event in islice(run.failures, MAX_FAILURES_LISTED):
        title = f"Member {event.member}, round {event.round}, {event.kind}: {first_line(event.text)}"
        parts_on_record = event.text, str(event.data.get("traceback", ""))
        more = "\n".join(shorten(part, MAX_TRACEBACK_CHARS) for part in parts_on_record if part)
        parts.append(markup("details", markup("summary", breakable(title)), markup("pre", escape(more))))
    return markup("p", escape(intro)) + "".join(parts)


def interval_table(run: Run) -> tuple[list[str], list[list[Any]], str]:
    """Return the table of intervals: columns, rows, and a note on which intervals it has."""
    history = run.history
    indices = range(len(history))
    note = "Winning: on the lineage of what is handed over. Click a heading to sort."
    if len(history) > MAX_INTERVAL_ROWS:
        won = sorted(history.index_of(key) for key in run.winning)[-MAX_INTERVAL_ROWS // 2 :]
        latest = range(len(history) - (MAX_INTERVAL_ROWS - len(won)), len(history))
        indices = sorted({*won, *latest})  # type: ignore[assignment]
        folder = shlex.quote(str(run.directory))
        note = (
            f"{len(indices):,} of {len(history):,} intervals: the latest, and the winning lineage. All of them: "
            f"popbandits export {folder}. {note}"
        )
    kept = [history[i] for i in indices]
    metrics = [flat(o.metrics, "") for o in kept]
    extra = sorted({name for one in metrics for name in one})[:MAX_METRIC_COLUMNS]
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


def copies_table(run: Run) -> tuple[list[str], list[list[Any]], str]:
    """Return the table of copies, the latest first: columns, rows, and a note that explains them."""
    after, before = run.numbers["score"], run.numbers["score_before"]
    beside = beside_others(run.sign * difference(after, before), run.column("round"))
    beside = without_rounding(beside, np.maximum(abs(after), abs(before)))
    rows: list[list[Any]] = []
    for i in reversed(range(len(run.history))):
        o = run.history[i]
        if o.parent is None or o.parent[0] == o.member or len(rows) == MAX_INTERVAL_ROWS:
            continue
        source = run.history.find(o.parent)
        assert source is not None, f"{o.parent} is not in {run.directory}"
        what = describe_changes(run.space, source.config, o.config)
        numbers = (_plain(value) for value in (o.score, o.change, float(beside[i])))
        rows.append([o.round, o.member, f"{o.parent[0]}, round {o.parent[1]}", *numbers, what, o.key in run.winning])
    note = (
        "A row for each time a member went on from another's weights, with the values that differ from that parent's. "
        "Beside its round: the change in score minus the median change of the others in the same round, so that more "
        "is better. Click a heading to sort."
    )
    return ["round", "member", "from", "score", "change", "beside its round", "changed", "winning"], rows, note


def _plain(value: Any) -> Any:
    """Convert a value to short JSON."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return rounded(value)
    return value if isinstance(value, int) and abs(value) < 2**53 else shorten(text(value), 150)
