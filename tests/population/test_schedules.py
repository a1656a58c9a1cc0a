"""A start may be a schedule: members follow it, and what is tuned is the deviation from it."""

from pathlib import Path
from typing import Any

import ConfigSpace as cs
import numpy as np
import pytest

from popbandits import (
    ArgumentError,
    History,
    HistoryError,
    Population,
    Space,
    SpaceError,
    StopWhen,
    constant,
    cosine,
    linear,
    log,
    resume,
    tune,
    warm_up,
)
from popbandits.reports.export import export
from popbandits.run.replay import replay
from popbandits.space.schedules import tabulate
from popbandits.storage import Store
from tests.climber import Climber

SPACE = {"lr": log(1e-5, 1e-1), "batch": (8, 512), "act": ["relu", "tanh"]}
ROUNDS = 6


def play(population: Population) -> History:
    while not population.done:
        for assignment in population.ask():
            population.tell(assignment, -abs(np.log(assignment.config["lr"] / 1e-4)) - assignment.member)
    return population.history


def test_the_first_member_follows_the_schedule_to_the_last_bit() -> None:
    schedule, batch = cosine(3e-4, 3e-5), linear(16, 64)
    start = {"lr": schedule, "batch": batch, "act": "tanh"}
    population = Population(SPACE, "pbt", rounds=ROUNDS, start=start, control=True)
    for round_ in range(ROUNDS):
        assignments = population.ask()
        progress = round_ / (ROUNDS - 1)
        assert assignments[0].config == {"lr": schedule(progress), "batch": round(batch(progress)), "act": "tanh"}
        for assignment in assignments:
            population.tell(assignment, float(assignment.member))


def test_a_value_that_reaches_zero_is_zero_and_not_what_rounding_leaves() -> None:
    assert tabulate("weight", linear(0.3, -0.1), rounds=9)[6] == 0.0  # not -5.6e-17
    following = Space({"weight": (0.0, 0.1)}).with_schedules({"weight": (0.1, 0.03)})
    assert following.applied({"weight": 0.07}, 1) == {"weight": 0.0}
    through = Space({"weight": (-0.1, 0.7)})
    assert through.decode(through.encode([{"weight": 0.0}])) == [{"weight": 0.0}]


def test_members_keep_their_factor_on_a_log_scale_and_their_difference_on_another() -> None:
    space = Space(SPACE).with_schedules({"lr": (1e-3, 1e-4), "batch": (100, 50)})
    assert space.applied({"lr": 5e-3, "batch": 130, "act": "relu"}, 1) == {
        "lr": pytest.approx(5e-4),
        "batch": 80,
        "act": "relu",
    }
    assert space.applied({"lr": 2e-5, "batch": 40, "act": "relu"}, 1) == {
        "lr": pytest.approx(1e-5),  # clipped
        "batch": 8,
        "act": "relu",
    }
    configs = [{"lr": lr, "batch": batch, "act": "relu"} for lr, batch in ((5e-3, 130), (2e-5, 40), (1e-3, 100))]
    for rounds in ([0, 1, 1], [1, 0, 5]):
        applied = [space.applied(config, round_) for config, round_ in zip(configs, rounds, strict=True)]
        along = space.along(space.encode(configs).x, np.array(rounds))
        assert space.codes(along).tolist() == [pytest.approx([each["batch"], each["lr"]]) for each in applied]


def test_the_history_has_what_was_tuned_and_the_schedule_what_was_trained_with() -> None:
    history = play(Population(SPACE, "pbt", rounds=ROUNDS, start={"lr": cosine(3e-4, 3e-5)}, seed=1))
    carried = [o for o in history if o.parent == (o.member, o.round - 1)]
    assert carried
    assert all(o.config == history[history.index_of((o.member, o.round - 1))].config for o in carried if not o.decision)
    assert history.schedule() == [history.applied(o) for o in history.lineage()]
    assert [o.config["lr"] for o in history.lineage()] != [config["lr"] for config in history.schedule()]


@pytest.mark.parametrize("synchronous", [True, False])
def test_a_population_continues_from_any_history(synchronous: bool) -> None:
    def population(history: Any = ()) -> Population:
        start = {"lr": warm_up(1e-5, cosine(3e-4, 3e-5), share=0.3)}
        return Population(SPACE, "pbt", rounds=ROUNDS, start=start, synchronous=synchronous, history=history)

    whole = list(play(population()))
    for length in range(0, len(whole), 5):
        assert list(play(population(whole[:length]))) == whole


def test_a_run_records_its_schedules_resumes_and_replays(tmp_path: Path) -> None:
    space = {"step": (0.0, 1.0), "way": ["up", "down"]}
    start = {"step": linear(0.7, 0.3), "way": "up"}
    settings: dict[str, Any] = {"rounds": 5, "start": start, "control": True, "progress": False}
    whole = tune(Climber, space, directory=tmp_path / "whole", **settings)
    end = StopWhen(lambda history: len(history) >= 8)
    tune(Climber, space, directory=tmp_path / "cut", callbacks=[end], **settings)
    assert len(History.load(tmp_path / "cut")) == 8
    again = resume(tmp_path / "cut", progress=False)
    assert list(again.history) == list(whole.history)
    assert again.history.space.schedules == {"step": pytest.approx((0.7, 0.6, 0.5, 0.4, 0.3))}
    assert replay(tmp_path / "cut").score == whole.best.score
    frame = again.history.to_pandas()
    assert frame["applied.step"][frame["member"] == 0].tolist() == pytest.approx([0.7, 0.6, 0.5, 0.4, 0.3])
    with (tmp_path / "cut.csv").open("wb") as file:
        export(tmp_path / "cut", "csv", file)
    header, *rows = (tmp_path / "cut.csv").read_text().splitlines()
    assert header.endswith(",config.step,config.way,applied.step,metrics.loss.policy")
    assert rows[-4].split(",")[-4:-1] == ["0.7", "up", "0.3"]
    longer = resume(tmp_path / "cut", rounds=7, progress=False).history
    control = [longer.applied(o)["step"] for o in longer if o.member == 0]
    assert control == [pytest.approx(step) for step in (0.7, 0.6, 0.5, 0.4, 0.3, 0.3, 0.3)], "the last value is kept"


@pytest.mark.parametrize(
    ("start", "rounds", "error", "message"),
    [
        ({"lr": cosine(3e-4, 0.0)}, 3, SpaceError, r"^'lr': the value must be in \[1e-05, 0.1\], got 0.0; clip it"),
        (
            {"lr": cosine(3e-4, 3e-5)},
            None,
            ArgumentError,
            "^'lr': a schedule needs a run with a set end, got rounds=None",
        ),
        ({"lr": lambda progress: "relu"}, 3, ArgumentError, "^'lr': a schedule must return numbers, got 'relu' from"),
        ({"act": constant(1.0)}, 3, SpaceError, "^'act': only a number with a range has a schedule, got one for act: "),
        (
            {"x": constant(1.0)},
            3,
            SpaceError,
            "^'x': only a number with a range has a schedule, got one for an unknown",
        ),
        (
            [{"lr": constant(1e-3)}, {"lr": constant(1e-2)}],
            3,
            ArgumentError,
            "^'lr': all members follow one schedule, got two; give the others a value",
        ),
    ],
)
def test_a_schedule_that_cannot_be_followed_is_refused(start: Any, rounds: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        Population(SPACE, rounds=rounds, start=start)


def test_a_number_that_decides_what_is_legal_follows_no_schedule() -> None:
    lr, steps, momentum = cs.Float("lr", (0.0, 1.0)), cs.Integer("steps", (1, 9)), cs.Float("momentum", (0.0, 1.0))
    space = cs.ConfigurationSpace(space=[lr, steps, momentum, cs.Categorical("opt", ["adam", "sgd"])])
    space.add(cs.GreaterThanCondition(momentum, steps, 3))
    sgd = cs.ForbiddenEqualsClause(space["opt"], "sgd")
    space.add(cs.ForbiddenAndConjunction(cs.ForbiddenLessThanClause(lr, 0.1), sgd))
    with pytest.raises(
        SpaceError, match=r"^'lr': a number that decides .* got one with \"never \(lr < 0.1 && opt == 's"
    ):
        Population(space, rounds=3, start={"lr": cosine(0.5, 0.01), "opt": "sgd"})
    with pytest.raises(
        SpaceError, match=r"^'steps': a number that decides .* got one with 'momentum only if steps > 3'"
    ):
        Population(space, rounds=3, start={"steps": linear(8, 2)})
    start = {"lr": constant(0.5), "momentum": linear(0.9, 0.1)}
    assert Population(space, rounds=3, start=start).ask()[0].config["momentum"] == 0.9


def test_more_rounds_do_not_change_what_the_first_ones_trained_with(tmp_path: Path) -> None:
    start = {"lr": cosine(3e-4, 3e-5)}
    play(Population(SPACE, rounds=3, start=start)).save(tmp_path)
    past = History.load(tmp_path)
    with pytest.raises(HistoryError, match=r"^'lr': its schedule must be the history's in the rounds that were done"):
        Population(SPACE, rounds=6, start=start, history=past)  # It would be stretched over six rounds.
    with pytest.raises(HistoryError, match=r"^'lr': its schedule must be the history's"):
        Population(SPACE, rounds=6, history=past)
    with (
        Store.open(tmp_path) as store,
        pytest.raises(HistoryError, match=r"^'lr': its schedule must be the history's"),
    ):
        Population(SPACE, rounds=6, start=start, history=store)
    longer = Population(past.space, rounds=6, history=past)
    assert [longer.history.applied(o) for o in past] == [past.applied(o) for o in past]
    assert Population(SPACE, rounds=3, start=start, history=past).done


def test_a_history_goes_on_where_a_cosine_differs_in_its_last_bit() -> None:
    start = {"lr": cosine(3e-4, 3e-5)}
    past = play(Population(SPACE, rounds=3, start=start))

    def elsewhere(progress: float) -> float:
        return float(np.nextafter(start["lr"](progress), 1.0))

    longer = Population(SPACE, rounds=3, start={"lr": elsewhere}, history=list(past)[:8])
    assert longer.space.schedules != past.space.schedules
    assert Population(SPACE, rounds=3, start={"lr": elsewhere}, history=past).done
    with pytest.raises(HistoryError, match=r"^'lr': its schedule must be the history's"):
        Population(SPACE, rounds=3, start={"lr": cosine(3e-4, 3.0001e-5)}, history=past)


def test_a_warm_up_takes_a_share() -> None:
    with pytest.raises(ArgumentError, match=r"^share must be above 0 and below 1, got 1\.5"):
        warm_up(0.0, constant(1.0), share=1.5)
    assert repr(warm_up(0.0, cosine(1.0, 0.1), share=0.2)) == "warm_up(0.0, cosine(1.0, 0.1), 0.2)"
