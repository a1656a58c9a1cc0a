"""Rivals beside the packages that users would take: the same promotions on the same scores."""

import math

import numpy as np
import optuna
import pytest
from optuna.pruners import HyperbandPruner, SuccessiveHalvingPruner
from ray.tune.schedulers.async_hyperband import _Bracket as RayRungs
from ray.tune.schedulers.hyperband import _Bracket as RayBracket
from ray.tune.schedulers.median_stopping_rule import MedianStoppingRule

from experiments.tests.ground.climbers import space
from popbandits_experiments.ground.rivals.asha import ASHA
from popbandits_experiments.ground.rivals.halving import ETA, Bracket, Plan, levels, most_promotions, ranked
from popbandits_experiments.ground.rivals.median import SAMPLES, MedianTPE
from popbandits_experiments.ground.rivals.trials import Draws, Trial


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def test_halving_keeps_the_trials_that_ray_keeps() -> None:
    rng = np.random.default_rng(0)
    ours = Bracket(Plan.of(27, 27, 3))
    theirs = RayBracket("age", 27, 1, 27, ETA, 3)
    trials = [Trial(number, {}) for number in range(27)]
    for trial in trials:
        ours.trials.append(trial)
        theirs.add_trial(trial)  # type: ignore[arg-type]
    for level in (1, 3, 9):
        assert ours.level == level == theirs._cumul_r
        for trial in ours.trials:
            trial.scores += rng.random(level - trial.age).tolist()
            theirs.update_trial_stats(trial, {"age": level, "score": trial.last})  # type: ignore[arg-type]
        good, bad = theirs.successive_halving("score", 1.0)
        for trial in bad:
            theirs.cleanup_trial(trial)
        ours.promote()
        assert set(ours.trials) == set(good)  # type: ignore[comparison-overlap]
    assert ours.level == 27


def test_rungs_and_brackets_are_those_of_ray_and_optuna() -> None:
    study = optuna.create_study(direction="maximize")
    for rounds in (3, 9, 10, 27, 30, 81, 100):
        pruner = HyperbandPruner(min_resource=1, max_resource=rounds, reduction_factor=ETA)
        pruner._try_initialization(study)
        if not math.isclose(math.log(rounds, ETA) % 1, 1, abs_tol=1e-9):  # Optuna's logarithm rounds 243 to 4.99.
            assert pruner._n_brackets == most_promotions(rounds) + 1
    for skipped in range(3):
        rungs = RayRungs(1, 27, ETA, skipped)._rungs  # Its last rung is where a trial stops anyway.
        assert tuple(milestone for milestone, _ in reversed(rungs)) == levels(27, 3 - skipped)


def test_asha_promotes_the_trials_that_optuna_does_not_prune() -> None:
    """Optuna asks at once whether a trial goes on, and lets the first ones: ASHA waits for eta of them."""
    rng = np.random.default_rng(1)
    study = optuna.create_study(
        direction="maximize", pruner=SuccessiveHalvingPruner(min_resource=1, reduction_factor=ETA)
    )
    asha = ASHA(Draws(space(), "uniform", 0), 1, 27)
    verdicts: list[bool] = []
    for _ in range(60):
        asked, trial = study.ask(), asha.start()
        for level in asha.levels[:-1]:
            asha.goals[trial] = level
            trial.scores += rng.random(level - trial.age).tolist()
            asked.report(trial.last, level)
            goes_on = not asked.should_prune()
            if asha.size(level) >= ETA:
                assert (trial in asha.promotable(level)) == goes_on
                verdicts.append(goes_on)
            if not goes_on:
                break
        else:
            asha.goals[trial] = asha.levels[-1]
        study.tell(asked, state=optuna.trial.TrialState.PRUNED)
    assert 20 < sum(verdicts) < len(verdicts) - 20


def test_asha_chooses_what_the_papers_algorithm_chooses() -> None:
    rng = np.random.default_rng(2)
    asha = ASHA(Draws(space(), "uniform", 0), 1, 9)
    rungs: dict[int, dict[Trial, float]] = {level: {} for level in asha.levels}
    promoted: dict[int, set[Trial]] = {level: set() for level in asha.levels}
    for _ in range(40):
        expected = None
        for k in reversed(range(len(asha.levels) - 1)):
            rung = rungs[asha.levels[k]]
            top = sorted(rung, key=lambda trial: -rung[trial])[: len(rung) // ETA]
            if left := [trial for trial in top if trial not in promoted[asha.levels[k]]]:
                expected = left[0], asha.levels[k + 1]
                promoted[asha.levels[k]].add(left[0])
                break
        trial = asha.choose([])
        assert trial is not None
        if expected is None:
            assert trial is asha.trials[-1]
            assert trial.age == 0
        else:
            assert (trial, asha.goals[trial]) == expected
        trial.scores += rng.random(asha.goals[trial] - trial.age).tolist()
        rungs[asha.goals[trial]][trial] = trial.last
    assert len(rungs[9]) > 1
    assert [len(ranked(asha.trials, level)) for level in asha.levels] == [len(rung) for rung in rungs.values()]


def test_the_median_stops_what_ray_stops() -> None:
    rng = np.random.default_rng(3)
    rule = MedianStoppingRule(
        "age", "score", "max", grace_period=1, min_samples_required=SAMPLES, min_time_slice=math.inf
    )
    ours = MedianTPE(Draws(space(), "uniform", 0), 1, 40)
    ours.grace = 1
    verdicts: list[bool] = []
    for _ in range(30):
        trial = ours.start()
        vars(trial)["trial_id"] = ""  # Ray's log asks for it.
        for age in range(1, 6):
            trial.scores.append(float(rng.random()) ** age)
            decision = rule.on_trial_result(None, trial, {"age": age, "score": trial.last})  # type: ignore[arg-type]
            verdicts.append(ours.stops(trial))
            assert verdicts[-1] == (decision == MedianStoppingRule.STOP)
            if verdicts[-1]:
                break
    assert 5 < sum(verdicts) < len(verdicts) - 20
