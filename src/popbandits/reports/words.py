"""Sentences about a run: its course, what tuning gained, what to do next, what mattered, what was never tried."""

import shlex
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from popbandits.advice import advise, failures, outlook
from popbandits.basics.wording import counted, duration, number
from popbandits.reports.figures.effects import NEITHER, Effect
from popbandits.reports.gained import MIN_APART, Gain
from popbandits.reports.run import Run, label_names
from popbandits.reports.stats import MIN_POINTS, MIN_POINTS_APART
from popbandits.reports.status import rounds_done

STEPS = {
    "failed": "Mend what fails",
    "bounds": "Widen a range",
    "standstill": "More rounds promise little",
    "noise": "Measure better",
    "rising": "Train for more rounds",
}
"""What each kind of advice asks for."""

STATE_PHRASES = {"running": "is running", "finished": "is finished", "stopped": "was stopped", "killed": "was killed"}


def configurations(run: Run) -> int:
    """Count the configurations of the winning lineage, one after the other."""
    return sum(1 for _ in groupby(run.winner, key=run.history.applied))


def summary(run: Run) -> list[str]:
    """Summarise the course of a run."""
    how = run.status
    rounds, members = rounds_done(how.round, how.rounds), counted(run.size, "member")
    told = f"The run {STATE_PHRASES[how.state]}: {run.method} trained {members} for {rounds} rounds"
    cost = [o.seconds for o in run.history if o.seconds is not None]
    told += f", {duration(sum(cost))} of training in all." if cost else "."
    if run.deciding:
        spent, fell = list(run.deciding.values()), sum(o.fallback is not None for o in run.history)
        explored = counted(len(spent), "configuration was", "configurations were")
        told += f" {explored} explored, in {duration(sum(spent))} altogether; {fell or 'none'} fell back to sampling."
    best = run.history.best
    if best is None:
        return [told]
    carriers = len({step.member for step in run.winner})
    return [
        told,
        f"The best score is {number(best.score)} (member {best.member}, round {best.round}); "
        f"{'more' if run.sign > 0 else 'less'} is better.",
        f"It hands over {run.choice}.",
        f"Its lineage went through {counted(configurations(run), 'configuration')} and {counted(carriers, 'member')}.",
    ]


def told_gain(gain: Gain | None) -> str:
    """Say what tuning gained over the start, and how sure that is."""
    if gain is None:
        return "No interval has completed, so there is nothing to compare yet."
    if not gain.tuned:
        return "Every interval trained with the same configuration: nothing was tuned, so there is no gain to tell."
    over = f"{gain.over} ({gain.where})"
    # A control trains on; it may only be behind, where a run is read in the middle of a round.
    alone = "" if gain.whole or gain.over == "the control" else " Nobody trained that to the end."
    if gain.early:
        beside = f"{MIN_APART} rounds of training beside {over}"
        there = f"there {'is' if gain.seen == 1 else 'are'} {gain.seen}."
        return f"It takes {beside} to say what tuning gained; {there}{alone}"
    if gain.none and gain.kept:
        return f"At the end no member is ahead of {over}: tuning gained nothing."
    if gain.none:
        return f"At the end no member's score is ahead of {over}, but the run hands over {gain.choice}."
    first, last = gain.rounds[0], gain.rounds[-1]
    rounds = f"In rounds {first} to {last}" if first < last else f"In round {first}"
    lead = f"{number(abs(gain.lead), 3)} ± {number(gain.error, 2)} on average (two standard errors)"
    way = "ahead of" if gain.lead > 0 else "behind"
    stood = f"{way} {over}, by {lead}" if gain.lead else f"level with {over}: {lead}"
    told = f"{rounds} the member that is best in the end was {stood}.{alone}"
    return f"{told} But the run hands over an interval of {gain.over}: {gain.choice}." if gain.kept else told


def next_steps(run: Run, gain: Gain | None) -> list[tuple[str, str, str]]:
    """List what to do next, why, and how: the judgements of `advice`, the gain over the start, the schedule."""
    folder, way = shlex.quote(str(run.directory)), configurations(run)
    errors = [event.text for event in run.failures]
    judged = [failures(len(errors), len(run.history), *errors[-1:]), *advise(run.history)]
    steps = [(STEPS[one.kind], one.text, "") for one in judged if one is not None]
    if (rising := outlook(run.history)) is not None:
        how = run.status
        options = f" --rounds {3 * (how.rounds or len(run.scores)) // 2}"
        if limit := run.about.get("max_cost"):
            options += f" --max-cost {2 * limit:g}"
        # While it trains it cannot be resumed, and its own rounds come first.
        more = "" if how.state == "running" else f"popbandits resume {folder}{options}"
        steps.append((STEPS[rising.kind], rising.text, more))
    if gain is None or not gain.tuned:
        return steps
    if not gain.clear and not gain.early:
        none = f"At the end no member is ahead of {gain.over}"
        why = none if gain.none else f"The lead over {gain.over} is not more than its noise"
        why += ": try other ranges, or keep the values it has."
        steps.append(("Doubt the gain", why, ""))
    if gain.over != "the control" and run.size > 1:
        why = "It trains with the start to the end, and shows there what tuning gained:"
        steps.append(("Keep a control", why, "tune(..., start={...}, control=True)"))
    if way == 1:
        why = "They never changed along its lineage: there is no schedule to follow."
        return [*steps, ("Use the winner's values", why, "")]
    why = f"The winner went through {way} configurations in turn. Train one agent along them, with other seeds:"
    return [*steps, ("Replay the schedule", why, f"popbandits replay {folder}")]


def what_mattered(effects: Sequence[Effect], most: int = 8) -> list[str]:
    """Name the hyperparameters whose effect is clear, the strongest first."""
    clear = [(e, e.found) for e in effects if e.found is not None and e.direction != NEITHER]
    clear.sort(key=lambda one: -abs(one[1].z))
    return [
        f"{e.parameter}: {e.direction} {e.where} "
        f"(rank correlation {found.tau:+.2f}, {counted(found.count, 'configuration')})"
        for e, found in clear[:most]
    ]


def unclear_effects(runs: Sequence[Run], effects: Sequence[Effect]) -> list[str]:
    """Say if nothing had a clear effect, and for which hyperparameters the data are too few."""
    judged = {e.parameter for e in effects if e.gains is None}
    names = [parameter.name for parameter in runs[0].space.numerical]
    left = [name for name in names if name not in judged]
    if not names:
        return ["There is no numerical hyperparameter to judge."]
    said = []
    if judged and all(e.direction == NEITHER for e in effects):
        whose = f"None of {', '.join(name for name in names if name in judged)}" if left else "No hyperparameter"
        said.append(f"{whose} had a clear effect on the gain beside others.")
    if left:
        who = "This run" if len(runs) == 1 else f"These {len(runs)} runs"
        said.append(
            f"{who} cannot tell what {', '.join(left) if judged else 'the hyperparameters'} did: that takes "
            f"{MIN_POINTS} configurations whose gain can be compared, {MIN_POINTS_APART} of them with a value, and "
            "with a gain, other than the commonest."
        )
    return said


def never_explored(runs: Sequence[Run]) -> list[str] | None:
    """List the labels that no member trained with; None in a space of numbers alone, which a figure shows."""
    if not runs[0].space.categorical:
        return None
    found = []
    for v, variable in enumerate(runs[0].space.categorical):
        played = {int(label) for run in runs for label in np.unique(run.rows.points.h[:, v])}
        missing = [name for i, name in enumerate(label_names(variable.labels)) if i not in played]
        found += [f"{variable.name}: {', '.join(missing)}"] if missing else []
    return found
