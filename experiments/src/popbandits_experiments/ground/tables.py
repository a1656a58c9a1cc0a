"""Tables of the stored results in Markdown: `python -m popbandits_experiments.ground table`."""

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from popbandits.basics.wording import counted, duration, number
from popbandits.errors import ArgumentError
from popbandits_experiments.ground.headroom import Admission
from popbandits_experiments.ground.records import Record, Score
from popbandits_experiments.ground.scales import scale_of
from popbandits_experiments.ground.statistics import (
    Estimate,
    FloatArray,
    Improvement,
    Verdict,
    draw,
    estimate,
    improvement,
    iqm,
    mean,
    summarise,
)
from popbandits_experiments.ground.suite import (
    BASELINES,
    IN_WORDS,
    SHOWN,
    Comparison,
    add_selection,
    arrange,
    final,
    grounded,
    label,
    normalised,
    require_some,
    select,
    showing,
)

BEGIN, END = "<!-- begin: python -m popbandits_experiments.ground table -->", "<!-- end -->"
UNKNOWN = "–"
LEGEND = """\
- Score: mean return of fresh episodes. Kept scores are of the checkpoint that `tune` hands over, the one with the best
  score ever; final scores are of the member with the best last score. Over several tasks scores are on a common scale,
  0 random and 1 solved, and every task counts alike.
- IQM: interquartile mean over seeds; in brackets its 95% interval from a bootstrap stratified by task.
- Better than: probability of a higher score than the baseline's with the same seed, ties counted half; its 95% interval
  and the number of pairs. **Bold**: the method is ahead, *italic*: it is behind, by the interval and by a sign test at
  5%. Of methods that are equal, one cell in twenty would be marked by chance.
- Never took off: runs that end below the task's take-off score.
- Late: of the new configurations of the last third of the rounds, those with a number within 1% of a bound, and those
  with a learning rate in the lowest tenth of its range."""

Of = Callable[[Record], float]
Write = Callable[[float], str]


def on_common_scale(value: float) -> str:
    return UNKNOWN if math.isnan(value) else f"{value:.2f}"


def in_own_units(value: float) -> str:
    return number(value, 3)


def share(value: float) -> str:
    return UNKNOWN if math.isnan(value) else f"{value:.0%}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], align: str = "---:") -> str:
    """Lay out a table; columns after the first are right-aligned by default."""
    lines = [head, ["---", *[align] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def with_interval(found: Estimate, write: Write) -> str:
    if math.isnan(found.low):
        return write(found.value)
    return f"{write(found.value)} [{write(found.low)}, {write(found.high)}]"


def marked(found: Improvement) -> str:
    mark = {"ahead": "**", "behind": "*", "undecided": ""}[found.verdict]
    return f"{mark}{with_interval(found, on_common_scale)}{mark} ({found.count})"


def methods_table(part: Comparison, of: Of, write: Write) -> str:
    """Build a table with a row for each method: scores, comparison to the baselines, failed runs and late choices."""
    several = len(part.tasks) > 1
    head = ["method", *(["tasks"] if several else []), "runs", "IQM [95%]", "mean"]
    head += [f"better than {IN_WORDS[baseline]}" for baseline in BASELINES]
    head += ["never took off", "late on a bound", "late low lr"]
    rows = []
    for method in part.methods:
        scores = part.values(method, of)
        row = [label(method), *([f"{len(scores)} of {len(part.tasks)}"] if several else [])]
        row += [str(sum(map(len, scores))), with_interval(estimate(iqm, scores), write)]
        row.append(write(estimate(mean, scores).value))
        for baseline in BASELINES:
            pairs = part.pairs(method, baseline) if method != baseline else []
            row.append(marked(improvement(pairs)) if pairs else UNKNOWN)
        row.append(share(estimate(mean, part.values(method, grounded)).value))
        row.append(share(part.late_share(method, lambda record: record.late_on_bound)))
        row.append(share(part.late_share(method, lambda record: record.late_low_lr)))
        rows.append(row)
    return markdown(head, rows)


def verdicts_table(part: Comparison) -> str:
    """Build a table with a row for each method: tasks on which it is clearly ahead of a baseline or behind it."""
    sides: tuple[Verdict, ...] = ("ahead", "behind")
    words = {"ahead": "ahead of", "behind": "behind"}
    columns = [(side, baseline) for baseline in BASELINES for side in sides]
    rows = []
    for method in part.methods:
        found: dict[tuple[str, str], list[str]] = {}
        for task in part.runs[method]:
            for baseline in BASELINES:
                if method != baseline and (pairs := part.on(task).pairs(method, baseline)):
                    found.setdefault((improvement(pairs).verdict, baseline), []).append(task)
        rows.append([label(method), *(", ".join(found.get(column, [])) or UNKNOWN for column in columns)])
    return markdown(["method", *(f"{words[side]} {IN_WORDS[baseline]} on" for side, baseline in columns)], rows, "---")


def intervals_table(parts: Sequence[Comparison], development: Sequence[Comparison], of: Of, write: Write) -> str:
    """Build a table with a row for each method run at several interval lengths: each, their average, and the best.

    The best is chosen on the development seeds if these were run at every length, else on the seeds shown.
    """
    rounds = [part.rounds for part in parts]
    if len(rounds) < 2:
        return ""
    before = [part for part in development if part.rounds in rounds]
    rows, flattered = [], False
    for method in dict.fromkeys(method for part in parts for method in part.methods):
        cells = common_scores(parts, method, of)
        if not cells:
            continue
        draws = {length: draw(iqm, scores) for length, scores in zip(rounds, cells, strict=True)}
        average = summarise(np.mean(list(draws.values()), axis=0), cells[0])
        earlier = common_scores(before, method, of) if len(before) == len(parts) else []
        judged = [estimate(iqm, scores).value for scores in earlier] or [float(found[0]) for found in draws.values()]
        best = rounds[int(np.argmax(judged))]
        flattered |= not earlier
        row = [label(method), str(len(cells[0])), str(average.count)]
        row += [write(float(draws[length][0])) for length in rounds]
        row += [with_interval(average, write), with_interval(summarise(draws[best], cells[0]), write)]
        rows.append([*row, str(best) if earlier else f"{best} \\*"])
    if not rows:
        return ""
    head = ["method", "tasks", "runs at each length", *(f"{length} rounds" for length in rounds)]
    table = markdown([*head, "average [95%]", "best [95%]", "rounds of the best"], rows)
    note = "\n\n\\* Chosen on the very seeds that are shown, so the best looks better than it is."
    return table + (note if flattered else "")


def common_scores(parts: Sequence[Comparison], method: str, of: Of) -> list[list[FloatArray]]:
    """Return a method's scores by part and task, for the tasks and seeds that are in every part."""
    runs = [part.runs.get(method, {}) for part in parts]
    found: list[list[FloatArray]] = [[] for _ in parts]
    for task in runs[0] if runs else ():
        seeds = [seed for seed in runs[0][task] if all(seed in one.get(task, {}) for one in runs)]
        for scores, one in zip(found, runs, strict=True):
            if seeds:
                scores.append(np.array([of(one[task][seed]) for seed in seeds]))
    return found if found and found[0] else []


def tasks_table(parts: Sequence[Comparison], score: Score | None = None) -> str:
    """Build a table with a row for each task and space: scale, size and cost of a run."""
    head = ["task", "space", "rounds", "members", "steps a member", "random", "solved", "took off above", "seeds"]
    head += ["a score's own error", "seconds a run", "device"]
    rows = []
    for same in grouped(parts):
        for task in sorted({task for part in same for task in part.tasks}):
            here = showing([part.on(task) for part in same if task in part.tasks], score)
            by_rounds = [part.records for part in here]
            records, scale = [record for part in by_rounds for record in part], scale_of(task)
            seeds = sorted({record.seed for record in records})
            row = [task, same[0].space, listed(str(part[0].rounds) for part in by_rounds), str(same[0].members)]
            row += [listed(f"{part[0].steps:,}" for part in by_rounds)]
            row += [number(value) for value in (scale.random, scale.solved, scale.take_off)]
            row += [f"{len(seeds)} ({seeds[0]} to {seeds[-1]})" if len(seeds) > 1 else f"1 ({seeds[0]})"]
            row += [number(float(np.median([record.final_error for record in records])), 2)]
            row += [listed(number(float(np.mean([one.seconds for one in part])), 2) for part in by_rounds)]
            row += [", ".join(sorted({record.device for record in records}))]
            rows.append(row)
    return markdown(head, rows)


def listed(values: Iterable[str]) -> str:
    """Join values that may differ with the number of rounds, without duplicates."""
    return " / ".join(dict.fromkeys(values))


def without_table(part: Comparison, baseline: str) -> str:
    """Build a table with a row for each method: the mean probability of improvement over all tasks, and without each.

    Empty if no method shares seeds with the baseline on two tasks.
    """
    columns = {"all tasks": part} | {f"without {task}": part.without(task) for task in part.tasks}
    rows = []
    for method in part.methods:
        if method != baseline and len(part.pairs(method, baseline)) > 1:
            pairs = [one.pairs(method, baseline) for one in columns.values()]
            rows.append([label(method), *(marked(improvement(found)) if found else UNKNOWN for found in pairs)])
    return markdown(["method", *columns], rows) if rows else ""


def page(
    records: Sequence[Record],
    admission: Admission,
    development: Sequence[Record] = (),
    score: Score | None = None,
) -> Iterator[str]:
    """Yield every table: task by task, then means over the tasks that are admitted.

    The best intervals are chosen by the runs in `development`.
    """
    parts = arrange(records)
    total = sum(record.seconds for record in records)
    yield f"{counted(len(records), 'population-run')}, {duration(total)} of training and deciding.\n\n{LEGEND}"
    yield "## Task by task"
    yield from _by_task(parts, arrange(development), score)
    yield "## Over tasks"
    if words := admission.words(records):
        yield words
    yield from _over_tasks(admission, arrange(admission.of(records)), arrange(admission.of(development)), score)
    yield "## Tasks and costs"
    yield tasks_table(parts, score)


def _by_task(parts: Sequence[Comparison], before: Sequence[Comparison], score: Score | None) -> Iterator[str]:
    for same in grouped(parts):
        for task in sorted({task for part in same for task in part.tasks}):
            here = [part.on(task) for part in same if task in part.tasks]
            for one in here:
                (part,) = showing([one], score)
                yield f"### {task}, {part.space} space, {part.setting}"
                yield methods_table(part, final, in_own_units)
            earlier = [part.on(task) for part in matching(before, same[0]) if task in part.tasks]
            if lengths := _lengths(here, earlier, score, final, in_own_units):
                yield f"{task}, {same[0].space} space, {lengths}"


def _over_tasks(
    admission: Admission, parts: Sequence[Comparison], before: Sequence[Comparison], score: Score | None
) -> Iterator[str]:
    for one in parts:
        (part,) = showing([one], score)
        yield f"### {part.title}: {counted(len(part.tasks), 'task')} {admission.tasks}, {part.setting}"
        yield methods_table(part, normalised, on_common_scale)
        if len(part.tasks) > 1:
            yield "On which tasks a method is ahead or behind by the same rule; on the others it is undecided:"
            yield verdicts_table(part)
        for baseline in BASELINES:
            if found := without_table(part, baseline):
                yield f"Better than {IN_WORDS[baseline]}, with and without each single task:"
                yield found
    for same in grouped(parts):
        if lengths := _lengths(same, matching(before, same[0]), score, normalised, on_common_scale):
            yield f"### {same[0].title} {admission.tasks}, {lengths}"


def _lengths(
    parts: Sequence[Comparison], before: Sequence[Comparison], score: Score | None, of: Of, write: Write
) -> str:
    """Build the table of interval lengths below the rest of its heading; empty if there is none."""
    shown = showing(parts, score)
    # Runs that only choose the best length need not have the score that is shown.
    table = intervals_table(shown, showing(before, None if score == "kept" else score), of, write)
    members = counted(shown[0].members, "member")
    return table and f"{members}, {SHOWN[shown[0].score]}, the same budget at several interval lengths\n\n{table}"


def grouped(parts: Sequence[Comparison]) -> list[list[Comparison]]:
    """Group the comparisons that differ only in the number of rounds."""
    found: dict[object, list[Comparison]] = {}
    for part in parts:
        found.setdefault(part.place, []).append(part)
    return list(found.values())


def matching(parts: Sequence[Comparison], like: Comparison) -> list[Comparison]:
    """Return the comparisons of the same space, group and members."""
    return [part for part in parts if part.place == like.place]


def insert(text: str, path: Path) -> None:
    """Replace the text between the markers of a docs page."""
    old = path.read_text("utf-8") if path.exists() else ""
    if old.count(BEGIN) != 1 or END not in old.partition(BEGIN)[2]:
        raise ArgumentError(f"{path} must have one line {BEGIN!r} and after it one {END!r}; add them where tables go")
    before, _, rest = old.partition(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", "utf-8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `table`."""
    add_selection(parser)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write between the markers of this docs page")


def main(options: argparse.Namespace) -> None:
    """Print the tables, or write them into a docs page."""
    records = select(options)
    require_some(records, options)
    development = select(options, "development") if options.split != "development" else []
    text = "\n\n".join(page(records, Admission.asked(options), development, options.score))
    if options.markdown:
        insert(text, options.markdown)
    else:
        print(text)
