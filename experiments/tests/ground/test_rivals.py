"""Rivals on the slots of a population: budgets, pauses, and the promotions of the papers and of other packages."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.tests.ground.climbers import Track, ground, space
from experiments.tests.ground.test_ground import Here
from popbandits.models.kernel import Inputs, Kernel
from popbandits.space import Space
from popbandits_experiments.batched.device import DeviceWorld
from popbandits_experiments.batched.ppo import BatchedPPO, Settings
from popbandits_experiments.batched.tasks import TASKS
from popbandits_experiments.ground import deciding
from popbandits_experiments.ground.__main__ import main
from popbandits_experiments.ground.deciding import DEFAULTS, Order, Scheduled, Spec, make_run
from popbandits_experiments.ground.grounds import GROUNDS
from popbandits_experiments.ground.records import Record, read
from popbandits_experiments.ground.rivals.densities import Density, propose
from popbandits_experiments.ground.rivals.dyhpo import DyHPO, expected_improvement
from popbandits_experiments.ground.rivals.halving import Plan, hyperband_plans, levels, most_promotions
from popbandits_experiments.ground.rivals.registry import RIVALS
from popbandits_experiments.ground.rivals.trials import Draws, Scheduler, Trial
from popbandits_experiments.ground.sitting import Batch, sit
from popbandits_experiments.ground.suite import label

NAN = math.nan
Score = Callable[[Trial], float]
NAMES = [name for name in RIVALS if find_spec("smac") or not name.startswith("smac")]
"""Rivals that can be run here."""


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "ProcessPoolExecutor", Here)


def rising(trial: Trial) -> float:
    """A score that rises with age to a height that the number of the trial decides."""
    return float(np.random.default_rng(trial.number).random()) * (1 - 0.8 ** (trial.age + 1))


def play(name: str, slots: int = 4, rounds: int = 9, seed: int = 0, score: Score = rising) -> Scheduler:
    """Play a rival on a toy to its end."""
    scheduler = RIVALS[name].make(space(), slots, rounds, seed)
    while trained := scheduler.next_round():
        assert len(trained) <= slots
        scheduler.tell([score(trial) for trial in trained])
    return scheduler


def failing(trial: Trial) -> float:
    return NAN if (trial.number + trial.age) % 5 == 4 else rising(trial)


@pytest.mark.parametrize("score", [rising, failing])
@pytest.mark.parametrize("name", NAMES)
def test_a_rival_never_trains_more_than_its_budget(name: str, score: Score) -> None:
    for slots, rounds in ((4, 9), (3, 10)):
        played = play(name, slots, rounds, score=score)
        trained = sum(trial.age for trial in played.trials)
        assert trained == played.spent <= slots * rounds
        assert max(trial.age for trial in played.trials) <= played.rounds
        assert played.next_round() == []
        if score is rising:
            assert trained >= 0.8 * slots * rounds


@pytest.mark.parametrize("name", NAMES)
def test_a_rival_is_decided_by_its_seed(name: str) -> None:
    def trace(seed: int) -> list[tuple[dict[str, Any], list[float]]]:
        return [(trial.config, trial.scores) for trial in play(name, seed=seed).trials]

    assert trace(1) == trace(1)
    assert (trace(1) == trace(2)) == name.startswith("defaults")


def test_beliefs_differ_in_where_configurations_come_from() -> None:
    defaults = dict(space().get_default_configuration())
    drawn = {belief: Draws(space(), belief, 0) for belief in ("uniform", "start")}  # type: ignore[arg-type]
    uniform, start = (np.array([math.log10(made.draw()["lr"]) for _ in range(200)]) for made in drawn.values())
    assert start[0] == pytest.approx(math.log10(defaults["lr"]))
    assert uniform.std() > 1.3 * start.std()
    assert start.mean() == pytest.approx(math.log10(defaults["lr"]), abs=0.2)


# Plans


def test_plans_of_halving_fit_their_budgets_and_waste_little() -> None:
    for members, rounds in ((4, 30), (8, 30), (16, 30), (4, 10), (4, 100), (3, 7), (4, 3), (4, 1)):
        for promotions in range(most_promotions(rounds) + 1):
            plan = Plan.within(members * rounds, rounds, promotions)
            assert plan is not None
            assert plan.cost <= members * rounds
            assert plan.levels == levels(rounds, promotions)
            assert list(plan.trials) == sorted(plan.trials, reverse=True)
            assert Plan.of(plan.trials[0] + 3, rounds, promotions).cost > members * rounds
            assert 0 <= members * rounds - plan.filled(members * rounds).cost < plan.levels[0]
        plans = hyperband_plans(members * rounds, rounds)
        assert 0.99 * members * rounds <= sum(plan.cost for plan in plans) <= members * rounds
    assert Plan.within(10, 30, 3) is None


def test_halving_promotes_as_the_plain_algorithm_does() -> None:
    for name, counts, goals in (("sha", (44, 14, 4, 1), (1, 3, 10, 30)), ("sha-mild", (15, 5, 2), (3, 10, 30))):
        played = play(name, 4, 30)
        ages = {trial.number: trial.age for trial in played.trials}
        alive = list(range(counts[0]))
        assert sorted(ages) == alive
        for count, goal in zip((*counts[1:], 0), goals, strict=True):
            score = {n: rising(Trial(n, {}, [0.0] * (goal - 1))) for n in alive}
            best = sorted(alive, key=lambda n: -score[n])[:count]
            assert {n for n in alive if ages[n] == goal} == set(alive) - set(best)
            alive = best
        assert played.incumbent is not None
        assert played.incumbent.age == 30


def test_failed_trials_are_never_promoted() -> None:
    played = play("sha", 4, 9, score=lambda trial: NAN if trial.number % 2 else rising(trial))
    assert all(trial.age == 1 for trial in played.trials if trial.number % 2)
    assert played.incumbent is not None
    assert played.incumbent.number % 2 == 0
    assert play("sha", score=lambda trial: NAN).incumbent is None


# Runs


def run_of(name: str, rounds: int = 9, seed: int = 0) -> Scheduled:
    run = make_run(Spec(name, space(), rounds, seed))
    assert isinstance(run, Scheduled)
    return run


@pytest.mark.parametrize("name", NAMES)
def test_orders_name_states_that_are_still_kept(name: str) -> None:
    run, held, scores, round_ = run_of(name), set[tuple[int, int]](), None, 0
    while True:
        answer = run.answer(scores)
        held &= answer.needed
        if answer.orders is None:
            break
        assert len(answer.orders) == 4
        going_on = [order.parent for order in answer.orders if order and order.parent]
        assert held.issuperset(going_on)
        assert len(set(going_on)) == len(going_on)
        # One in nine of the first intervals fails.
        scores = [
            NAN if round_ < 5 and (round_ * 4 + slot) % 9 == 8 else float(slot * 7 % 4 + round_) for slot in range(4)
        ]
        held |= {(slot, round_) for slot in range(4) if answer.orders[slot] and math.isfinite(scores[slot])}
        round_ += 1
    assert run.summary.final in held or name == "defaults/longer"  # Its only trial has failed.
    assert run.summary.best in held
    assert len(run.curve) == 10


def test_paused_trials_are_forgotten_as_soon_as_they_are_out() -> None:
    run = run_of("sha")
    answer = run.answer(None)
    most = 0
    for _ in range(100):
        if answer.orders is None:
            break
        answer = run.answer([float(slot) for slot in range(4)])
        most = max(most, len(answer.needed))
    first = run.scheduler.brackets[0].plan.trials[0]  # type: ignore[attr-defined]
    assert first - 4 <= most < first
    assert len(answer.needed) <= 2


def records_of(batch: Batch) -> list[Record]:
    found: list[Record] = []
    sit([batch], "cpu", found.extend, lambda text: None, workers=1)
    return found


def tiny(seeds: Sequence[int], updates: int, device: str) -> BatchedPPO:
    settings = Settings(copies=2, rollout=16, updates=updates, episodes=2, hidden=4)
    return BatchedPPO(seeds, DeviceWorld(TASKS["Pendulum-v1"]), settings, device)


def test_a_paused_trial_goes_on_bit_for_bit_from_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Scheduled, list[Order | None]]] = []
    advance = Scheduled.advance

    def remembered(self: Scheduled, scores: Sequence[float] | None) -> list[Order | None] | None:
        orders = advance(self, scores)
        seen.append((self, orders or []))
        return orders

    monkeypatch.setattr(Scheduled, "advance", remembered)
    short = replace(GROUNDS["Pendulum"], updates=3, make=tiny)
    records_of(Batch(short, "narrow", 3, ("sha",), range(7, 8), "development"))
    trials = seen[0][0].scheduler.trials
    assert [trial.age for trial in trials].count(3) == 3
    places = {
        trial: [i for i, (_, orders) in enumerate(seen) if trial.number in {o.trial for o in orders if o}]
        for trial in trials
    }
    assert all(len(rounds) == trial.age for trial, rounds in places.items())
    paused = [trial for trial, rounds in places.items() if rounds[-1] - rounds[0] >= trial.age > 1]
    again, member = divmod(paused[-1].number, 4)
    agents = tiny([4 * 7 + member + 1_000_000 * again], 1, "cpu")
    for age, score in enumerate(paused[-1].scores):  # Alone, without a pause, it gets the same scores.
        agents.assigned([(paused[-1].number, age + 1)])
        assert [outcome.score for outcome in agents.train([paused[-1].config])] == [score]


def test_rivals_and_populations_train_in_one_batch_though_they_end_at_different_rounds() -> None:
    methods = (DEFAULTS, "pbt", *NAMES)
    track = Track()
    together = records_of(Batch(ground(track, 9), "wide", 9, methods, range(2), "development"))
    (agents,) = track.built
    rounds = sum(name == "train" for name, _ in agents.done)
    assert rounds > 9
    for record in together:
        assert record.intervals is not None
        assert record.intervals <= 36
        assert record.kept is not None
        assert record.kept >= record.final - 1e-6 * abs(record.final)
    by_name = {(record.method, record.seed): record for record in together}
    assert by_name["pbt", 0].intervals == by_name[DEFAULTS, 1].intervals == 36
    alone = records_of(Batch(ground(Track(), 9), "wide", 9, ("sha",), range(1), "development"))
    assert replace(alone[0], seconds=0.0) == replace(by_name["sha", 0], seconds=0.0)


def test_more_members_have_more_budget() -> None:
    track = Track()
    methods = ("pbt", "asha", DEFAULTS)
    records = records_of(Batch(ground(track, 9), "wide", 9, methods, range(1), "development", members=8))
    assert {record.population for record in records} == {8}
    assert [record.intervals for record in records] == [72, 72, 72]
    assert len(track.built[0].height) == 8 * 3


def test_a_longer_run_has_the_whole_budget_with_the_defaults() -> None:
    (trial,) = play("defaults/longer", slots=4, rounds=9).trials
    assert trial.age == 36
    assert trial.config == dict(space().get_default_configuration())
    assert play("defaults/longer", score=lambda trial: NAN).spent == 1


def test_sifting_tries_nine_with_one_members_budget_and_trains_the_best_with_the_rest() -> None:
    run = play("sifted/start", slots=4, rounds=30)
    assert [trial.age for trial in run.trials if trial.age > 6] == [96]
    assert sorted(trial.age for trial in run.trials) == [2] * 6 + [6] * 2 + [96]
    assert run.spent == 120
    assert run.trials[0].config == dict(space().get_default_configuration())
    best = max(run.trials, key=lambda trial: trial.scores[1])
    assert best.age >= 6


def test_the_annealed_learning_rate_falls_linearly_to_zero() -> None:
    run = run_of("defaults/annealed", rounds=4)
    rates = []
    orders = run.advance(None)
    while orders:
        assert all(order is not None for order in orders)
        rates.append({order.config["lr"] for order in orders if order})
        orders = run.advance([1.0, 2.0, 3.0, 0.0])
    assert [rate for (rate,) in rates] == pytest.approx([0.01, 0.0075, 0.005, 0.0025])
    assert run.summary.final == (2, 3)


# Models


def quality(trial: Trial) -> float:
    """A curve whose end depends on the configuration: the closer the learning rate is to 0.1, the better."""
    return math.exp(-abs(math.log10(trial.config["lr"]) + 1)) * (1 - 0.7 ** (trial.age + 1))


def test_a_model_of_the_curves_finds_better_configurations_than_chance() -> None:
    ends = {
        name: [best.config["lr"] for seed in range(4) if (best := play(name, 4, 15, seed, quality).incumbent)]
        for name in ("dyhpo/start", "random/start")
    }
    errors = {name: np.mean([abs(math.log10(lr) + 1) for lr in found]) for name, found in ends.items()}
    assert errors["dyhpo/start"] < 0.2 < errors["random/start"]


def test_freeze_thaw_takes_the_largest_expected_improvement() -> None:
    """The same decision written out: every score with what was known before it, a matrix, and its inverse."""
    rounds = 24  # Enough for curves of three scores and more, whose order matters.
    scheduler = RIVALS["dyhpo"].make(space(), 1, rounds, 0)
    assert isinstance(scheduler, DyHPO)
    encoding, kinds = Space(space()), set[bool]()
    while trained := scheduler.next_round():
        (trial,) = trained
        scheduler.tell([quality(trial)])
        if scheduler.spent % 3 or scheduler.spent == scheduler.budget:
            continue
        before = [(t, list(t.scores)) for t in scheduler.trials]
        pool = None if scheduler._pool is None else encoding.decode(scheduler._pool)
        chosen = scheduler.choose([])
        assert chosen is not None
        every = [score for _, scores in before for score in scores]
        low, high, mean, deviation = min(every), max(every), np.mean(every), np.std(every)

        def row(config: dict[str, Any], past: list[float]) -> tuple[dict[str, Any], int, list[float]]:
            curve = [(score - low) / (high - low) for score in past[-2:]][::-1]  # noqa: B023
            return config, len(past) + 1, curve + [0.0] * (2 - len(curve))

        def inputs(rows: list[tuple[dict[str, Any], int, list[float]]]) -> Inputs:
            points = encoding.encode([config for config, _, _ in rows])
            times, curves = np.array([float(j) for _, j, _ in rows]), np.array([curve for _, _, curve in rows])
            return scheduler._structure.inputs(points.x, points.h, times, curves)

        data = inputs([row(t.config, scores[:j]) for t, scores in before for j in range(len(scores))])
        going = [(t.config, scores) for t, scores in before if len(scores) < rounds]
        candidates = [*going, *((config, list[float]()) for config in pool or ())]
        asked = inputs([row(config, past) for config, past in candidates])
        assert scheduler._theta is not None
        kernel = Kernel(scheduler._theta, scheduler._structure.owner)
        inverse = np.linalg.inv(kernel(data, data) + np.exp(scheduler._theta[-1]) * np.eye(len(every)))
        cross = kernel(data, asked)
        means = cross.T @ inverse @ ((np.array(every) - mean) / deviation)
        spreads = np.sqrt(kernel.variance - np.einsum("ij,ik,kj->j", cross, inverse, cross))
        bests = []
        for _, past in candidates:
            reached = [scores[len(past)] for _, scores in before if len(scores) > len(past)]
            bests.append((max(reached or every) - mean) / deviation)
        assert scheduler._posterior is not None
        # What is pending narrows the model and leaves its mean, which no other order of a curve's scores has.
        assert scheduler._posterior.predict(asked)[0] == pytest.approx(means, abs=1e-6)
        gains = expected_improvement(means, spreads, np.array(bests))
        assert candidates[int(gains.argmax())][0] == chosen.config
        kinds.add(chosen.age > 0)
        if chosen.age == 0:  # It was started only to look at it.
            scheduler.trials.pop()
            scheduler._points.pop()
    assert kinds == {True, False}
    assert max(trial.age for trial in scheduler.trials) > 3


def test_the_model_of_freeze_thaw_sees_the_latest_score_first() -> None:
    scheduler = RIVALS["dyhpo"].make(space(), 2, 12, 0)
    assert isinstance(scheduler, DyHPO)
    scheduler.next_round()
    first, second = scheduler.trials
    first.scores, second.scores = [0.0, 0.2, NAN, 0.5], [1.0]
    seen = scheduler._inputs(scheduler._points * 4, [first, second] * 4, [0, 0, 1, 1, 2, 1, 4, 1])
    curves = seen.z[:, -2:].tolist()
    assert curves[::2] == [[0.0, 0.0], [0.0, 0.0], [0.2, 0.0], [0.5, 0.0]]  # A failure counts as the worst score.
    assert curves[1::2] == [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
    assert seen.t.tolist() == [1, 1, 2, 2, 3, 2, 5, 2]
    assert scheduler._inputs(scheduler._points[:1], [first], [3]).z[0, -2:].tolist() == [0.0, 0.2]


def test_freeze_thaw_resumes_trials_and_survives_failures() -> None:
    played = play("dyhpo", 4, 15, score=quality)
    ages = sorted(trial.age for trial in played.trials)
    assert ages[-1] > 4 * ages[0]
    lost = play("dyhpo", 4, 5, score=lambda trial: NAN)
    assert (lost.spent, len(lost.trials), lost.incumbent) == (20, 20, None)


def test_expected_improvement_is_the_mean_of_what_is_better() -> None:
    mean, deviation, best = np.array([0.3, -1.0]), np.array([0.5, 2.0]), np.array([0.5, 0.0])
    draws = mean + deviation * np.random.default_rng(0).normal(size=(200_000, 2))
    sampled = np.maximum(draws - best, 0).mean(axis=0)
    assert expected_improvement(mean, deviation, best) == pytest.approx(sampled, rel=0.02)


def test_a_density_of_numbers_and_labels_is_one() -> None:
    rng = np.random.default_rng(0)
    density = Density(np.column_stack([rng.uniform(0.3, 0.7, 20), rng.integers(3, size=20)]), np.array([0, 3]))
    grid = np.linspace(-3, 4, 4001)
    total = sum(
        np.exp(density.log(np.column_stack([grid, np.full(len(grid), label)]))).sum() * (grid[1] - grid[0])
        for label in range(3)
    )
    assert total == pytest.approx(1, abs=1e-3)
    drawn = density.draw(2000, rng)
    assert drawn[:, 0].min() >= 0
    assert drawn[:, 0].max() <= 1
    assert set(drawn[:, 1]) == {0.0, 1.0, 2.0}


def test_a_density_is_that_of_bohbs_reference_implementation() -> None:
    """The numbers are by KDEMultivariate of statsmodels 0.15.0, with which hpbandster builds its model."""
    rows = [[0.1, 0.9, 1, 1], [0.4, 0.5, 2, 0], [0.35, 0.2, 1, 0], [0.8, 0.7, 0, 1], [0.6, 0.65, 1, 0]]
    density = Density(np.array(rows), np.array([0, 0, 3, 2]))
    assert density.bandwidths == pytest.approx([0.20512974, 0.20217808, 0.54823229, 0.42465891], rel=1e-6)
    asked = np.array([[0.5, 0.5, 2, 0], [0.0, 1.0, 1, 1], [0.9, 0.1, 0, 1]])
    assert np.exp(density.log(asked)) == pytest.approx([0.310261554, 0.157864188, 0.005744157], rel=1e-5)


def test_configurations_are_proposed_where_the_good_ones_are() -> None:
    rng, plain = np.random.default_rng(1), Space(space())
    drawn = plain.decode(plain.sample(60, rng))
    good = [config for config in drawn if config["lr"] > 0.05 and config["epochs"] >= 3]
    bad = [config for config in drawn if config not in good]
    made = [propose(plain, good, bad, rng) for _ in range(20)]
    assert all(config is not None and plain.check(config) == config for config in made)
    assert np.median([config["lr"] for config in made if config]) > 0.05
    assert np.median([config["epochs"] for config in made if config]) >= 3


def test_bohb_begins_with_draws_and_goes_on_with_its_model() -> None:
    bohb, hyperband = play("bohb", 4, 30, 3, quality), play("hyperband", 4, 30, 3, quality)
    same = [a.config == b.config for a, b in zip(bohb.trials, hyperband.trials, strict=True)]
    assert all(same[:8])
    assert not all(same)


# Commands


def test_rivals_are_run_and_labelled_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    track = Track()
    monkeypatch.setitem(GROUNDS, "Pendulum", ground(track, 9))
    methods = ["sha", "dyhpo/start", "defaults/annealed"]
    command = ["run", "--tasks", "Pendulum", "--rounds", "9", "--seeds", "0-1", "--device", "cpu", "--workers", "1"]
    command += ["--results", str(tmp_path), "--methods", *methods, "--members"]
    assert main([*command, "4", "6"]) == 0
    assert {(record.population, record.method) for record in read(tmp_path)} == {
        (members, method) for members in (4, 6) for method in methods
    }
    # Halving lasts longer than the others, so it has batches of its own.
    sizes = [(len(agents.height), sum(name == "train" for name, _ in agents.done)) for agents in track.built]
    assert sorted(size for size, rounds in sizes if rounds == 9) == [4 * 2, 6 * 2]
    assert sorted(size for size, rounds in sizes if rounds > 9) == [4, 6]
    assert label("dyhpo/start") == "Freeze-thaw after DyHPO, started from the defaults"
    assert label("defaults/annealed") == "Defaults, learning rate annealed"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("0", "--members must be at least 1, got 0"),
        ("1", "halving needs 3 trials within the budget, got 1 members x 9"),
    ],
)
def test_what_is_too_small_for_a_rival_is_refused_before_anything_runs(
    members: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    track = Track()
    monkeypatch.setitem(GROUNDS, "Pendulum", ground(track, 9))
    command = ["run", "--tasks", "Pendulum", "--rounds", "9", "--seeds", "0-1", "--device", "cpu"]
    assert main([*command, "--results", str(tmp_path), "--methods", "sha", "--members", members]) == 1
    assert message in capsys.readouterr().err
    assert track.built == []
