"""The training side of the real benchmark: populations in a batch, what is counted of them, and sittings."""

import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from experiments.tests.ground.climbers import STEPS, Climbers, Track, ground, space
from popbandits.errors import ArgumentError
from popbandits.history import Assignment
from popbandits.population import Population
from popbandits_experiments.ground import deciding, run
from popbandits_experiments.ground.__main__ import main
from popbandits_experiments.ground.deciding import ALONE, DEFAULTS, MEMBERS, Choices, Order, Spec, Tuned
from popbandits_experiments.ground.grounds import GROUNDS, Agents, Ground
from popbandits_experiments.ground.methods import METHODS
from popbandits_experiments.ground.records import Record, read
from popbandits_experiments.ground.run import COMPARED
from popbandits_experiments.ground.scales import scale_of
from popbandits_experiments.ground.sitting import TEST_SEED, Batch, Clock, sit
from popbandits_experiments.ground.states import Kept
from tests.processes import until

ROUNDS = 15
SEEDS = range(2)
NAN = math.nan


def play(batch: Batch) -> list[Record]:
    found: list[Record] = []
    sit([batch], "cpu", found.extend, lambda text: None, workers=1)
    return found


@pytest.fixture(scope="module")
def sitting() -> tuple[list[Record], Climbers]:
    """Every method with three seeds, in one batch."""
    track = Track()
    records = play(Batch(ground(track), "wide", ROUNDS, COMPARED, SEEDS, "development"))
    (agents,) = track.built
    return records, agents


def orders_of(agents: Climbers) -> list[list[dict[str, Any]]]:
    return [what for name, what in agents.done if name == "train"]


def alone(place: Ground, method: str, seed: int, rounds: int) -> tuple[Population, Agents]:
    """Play one population by ask and tell, with a checkpoint of every interval."""
    seeds = [MEMBERS * seed + member for member in range(MEMBERS)]
    agents = place.make(seeds, place.updates_in(rounds), "cpu")
    way = METHODS[method]
    space, selection = place.spaces["narrow"](), way.make_selection()
    population = Population(
        space, way.make(), MEMBERS, rounds, seed, explore=way.explore, selection=selection, start="random"
    )
    saved: dict[tuple[int, int], dict[str, torch.Tensor]] = {}
    while not population.done:
        asked = sorted(population.ask(), key=lambda a: a.member)
        for a in asked:
            if a.parent is not None:
                for name, tensor in agents.state.items():
                    tensor[a.member] = saved[a.parent][name]
            elif a.round:
                agents.reset(a.member, seeds[a.member] + 1_000_000 * (a.round + 1))
        agents.assigned([(a.member, a.round + 1) for a in asked])
        for a, outcome in zip(asked, agents.train([a.config for a in asked]), strict=True):
            saved[a.key] = {name: tensor[a.member].clone() for name, tensor in agents.state.items()}
            population.tell(a, outcome.score)
    return population, agents


def last_score(population: Population, member: int) -> float:
    observation = population.history.latest(member)
    assert observation is not None
    return observation.score


# Populations in company


def test_populations_of_one_seed_begin_alike(sitting: tuple[list[Record], Climbers]) -> None:
    _, agents = sitting
    first = orders_of(agents)[0]
    blocks = [first[i : i + MEMBERS] for i in range(0, len(first), MEMBERS)]
    fresh = Climbers([MEMBERS * s + m for s in SEEDS for _ in COMPARED for m in range(MEMBERS)], 1).height
    for seed in SEEDS:
        own = blocks[len(COMPARED) * seed : len(COMPARED) * (seed + 1)]
        alike = [block for method, block in zip(COMPARED, own, strict=True) if method != DEFAULTS]
        assert all(block == alike[0] for block in alike)
        assert own[0] == [dict(space().get_default_configuration())] * MEMBERS
        heights = fresh.view(-1, len(COMPARED), MEMBERS)[seed]
        assert (heights == heights[0]).all()
        assert len(set(heights[0].tolist())) == MEMBERS
    assert blocks[1] != blocks[len(COMPARED) + 1]


def test_a_population_in_a_batch_makes_the_history_that_it_makes_alone_with_checkpoints(
    sitting: tuple[list[Record], Climbers],
) -> None:
    records, agents = sitting
    orders = orders_of(agents)
    failed: set[str] = set()
    old: set[bool] = set()
    for index, record in enumerate(records):
        if record.method == DEFAULTS:
            continue
        population, _ = alone(ground(Track()), record.method, record.seed, ROUNDS)
        for o in population.history:
            assert orders[o.round][MEMBERS * index + o.member] == o.config
            if o.failed:
                failed.add(record.method)
            if o.parent is not None and o.parent[1] < o.round - 1:
                old.add(o.parent[0] == o.member)
        last = [last_score(population, member) for member in range(MEMBERS)]
        best = max((score for score in last if not math.isnan(score)), default=scale_of("Pendulum").random)
        assert record.final == pytest.approx(best, rel=1e-5)
        assert record.curve[-1] == pytest.approx(best, rel=1e-5)
    assert failed == set(COMPARED) - {DEFAULTS}  # Members diverged,
    assert old == {True, False}  # and went back to states, their own and others', that nobody had any more.


def test_a_population_of_real_agents_makes_the_history_that_it_makes_alone() -> None:
    short = replace(GROUNDS["CartPole"], updates=2)
    built: list[Agents] = []

    def make(seeds: Sequence[int], updates: int, device: str) -> Agents:
        built.append(short.make(seeds, updates, device))
        return built[-1]

    (record,) = play(Batch(replace(short, make=make), "narrow", 2, ("pbt",), range(5, 6), "development"))
    population, agents = alone(short, "pbt", 5, 2)
    assert any(o.parent is not None and o.parent[0] != o.member for o in population.history)
    for name, tensor in built[0].state.items():
        assert torch.equal(tensor, agents.state[name]), name
    member = max(range(MEMBERS), key=lambda member: last_score(population, member))
    assert record.curve[-1] == last_score(population, member)
    again = agents.evaluate([member], 100, [TEST_SEED + 5])
    assert record.final == pytest.approx(float(again.mean()))
    assert record.final_error == pytest.approx(float(again.std()) / 10)


def test_nobody_is_copied_from_another_population(sitting: tuple[list[Record], Climbers]) -> None:
    records, agents = sitting
    copies = [what for name, what in agents.done if name == "copy"]
    assert len(copies) == ROUNDS
    moved: set[str] = set()
    for sources in copies:
        for index, source in enumerate(sources):
            assert source // MEMBERS == index // MEMBERS
            if source != index:
                moved.add(records[index // MEMBERS].method)
    assert moved == set(COMPARED) - {DEFAULTS, "random"}


def test_every_method_has_the_same_steps(sitting: tuple[list[Record], Climbers]) -> None:
    records, agents = sitting
    assert {len(configs) for configs in orders_of(agents)} == {MEMBERS * len(records)}
    assert {record.steps for record in records} == {len(orders_of(agents)) * agents.updates * STEPS} == {30 * STEPS}
    assert [(record.seed, record.method) for record in records] == [(s, m) for s in SEEDS for m in COMPARED]


def test_who_is_handed_over_is_tested_with_seeds_that_training_never_had(
    sitting: tuple[list[Record], Climbers],
) -> None:
    records, agents = sitting
    (last, last_seeds), (best, best_seeds) = [what for name, what in agents.done if name == "evaluate"]
    assert len(last) > 8
    for members, seeds in ((last, last_seeds), (best, best_seeds)):
        assert seeds == [TEST_SEED + records[member // MEMBERS].seed for member in members]
    for member in best:  # Those whose best state was not their last one.
        record = records[member // MEMBERS]
        assert record.kept == pytest.approx(float(agents.height[member]), rel=1e-5)
        assert record.kept > record.final or member // MEMBERS not in {index // MEMBERS for index in last}
    others = {member // MEMBERS for member in last} - {member // MEMBERS for member in best}
    assert others
    assert all(records[index].kept == records[index].final for index in others)


def test_populations_that_fail_altogether_start_afresh_and_get_the_random_score() -> None:
    class Hopeless(Climbers):
        doomed = True

    built: list[Hopeless] = []

    def make(seeds: Sequence[int], updates: int, device: str) -> Hopeless:
        built.append(Hopeless(seeds, updates))
        return built[-1]

    doomed = replace(ground(Track(), 3), make=make)
    records = play(Batch(doomed, "wide", 3, ("pbt", DEFAULTS), range(1), "development"))
    assert [(record.final, record.final_error) for record in records] == [(scale_of("Pendulum").random, 0.0)] * 2
    assert {score for record in records for score in record.curve} == {scale_of("Pendulum").random}
    # Nobody has anything to go on from, so those who are tuned are reset; without tuning a failure is the end.
    assert [what for name, what in built[0].done if name == "reset"] == [0, 1, 2, 3] * 2


def test_the_best_state_of_a_population_is_kept_though_its_member_went_on_to_a_worse_one() -> None:
    population = tuned(DEFAULTS, rounds=3)
    population.advance(None)
    assert population.answer([1.0, 9.0, 2.0, NAN]).needed == {(0, 0), (1, 0), (2, 0)}
    assert population.answer([2.0, 3.0, NAN, NAN]).needed == {(0, 1), (1, 1), (1, 0), (2, 0)}
    assert population.answer([9.0, NAN, NAN, 4.0]).needed == {(0, 2), (1, 1), (2, 0), (3, 2)}  # The last wins a tie.
    assert (population.summary.final, population.summary.best) == ((0, 2), (0, 2))
    alone = tuned(ALONE, rounds=1)
    alone.advance(None)
    alone.advance([1.0, 9.0, 9.0, 9.0])
    assert (alone.summary.final, alone.summary.best) == ((0, 0), (0, 0))  # The others are no candidates.


def test_states_that_are_not_needed_make_room_for_others() -> None:
    agents = Climbers(range(2 * MEMBERS), 1)
    kept = Kept(agents, MEMBERS)
    for round_ in range(20):
        agents.height[:] = torch.arange(2.0 * MEMBERS) + 100 * round_
        kept.keep(round_, [0, 1, 6])
        kept.forget(0, {(1, round_), (0, 3)})
    assert len(kept) == 2 + 20  # The second population forgot nothing.
    agents.height[:] = NAN
    kept.restore({0: (1, 19), 2: (0, 3), 4: (2, 0), 5: (2, 19)})
    assert agents.height[[0, 2, 4, 5]].tolist() == [1901.0, 300.0, 6.0, 1906.0]
    assert agents.height[[1, 3, 6, 7]].isnan().all()
    with pytest.raises(KeyError):
        kept.restore({0: (0, 4)})


# Of one population


def tuned(method: str = "pbt", rounds: int = 3, seed: int = 0) -> Tuned:
    return Tuned(Spec(method, space(), rounds, seed))


def test_a_member_that_diverges_is_told_as_a_failure_and_the_others_go_on() -> None:
    population = tuned()
    first = population.advance(None)
    second = population.advance([-4.0, NAN, -3.0, -2.0])
    assert first is not None
    assert second is not None
    assert [order.parent for order in second] == [(0, 0), (3, 0), (2, 0), (3, 0)] or [
        order.parent for order in second
    ] == [(3, 0), (3, 0), (2, 0), (3, 0)]
    assert [second[i].config == first[i].config for i in (2, 3)] == [True, True]
    assert population._population is not None
    assert [o.key for o in population._population.history if o.failed] == [(1, 0)]


def test_members_start_afresh_if_the_whole_first_round_failed() -> None:
    population = tuned()
    first, second = population.advance(None), population.advance([NAN] * 4)
    assert first is not None
    assert second is not None
    assert [order.parent for order in second] == [None] * 4
    assert not any(new.config == old.config for new, old in zip(second, first, strict=True))


@pytest.mark.parametrize(
    ("scores", "member"), [([1.0, 3.0, 2.0, -1.0], 1), ([NAN, -3.0, NAN, -1.0], 3), ([NAN] * 4, None)]
)
def test_the_member_with_the_best_last_score_is_handed_over(scores: list[float], member: int | None) -> None:
    population = tuned(DEFAULTS, rounds=2)
    population.advance(None)
    population.advance([9.0, 9.0, 9.0, 9.5])
    assert population.advance(scores) is None
    assert population.handed_over == member


@pytest.mark.parametrize(
    ("rounds", "after"),
    [
        (10, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (30, [3, 6, 9, 12, 15, 18, 21, 24, 27, 30]),
        (100, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]),
        (7, [1, 2, 3, 3, 4, 5, 5, 6, 7, 7]),
    ],
)
def test_the_curve_has_the_best_last_score_after_each_tenth(rounds: int, after: list[int]) -> None:
    population = tuned(DEFAULTS, rounds)
    population.advance(None)
    for round_ in range(1, rounds + 1):
        population.advance([-50.0, NAN, round_, round_ - 1])
    assert population.curve == after


def test_the_curve_has_no_score_while_nobody_has_one() -> None:
    population = tuned(DEFAULTS, rounds=10)
    population.advance(None)
    for round_ in range(10):
        population.advance([NAN] * 4 if round_ in (0, 4) else [1.0] * 4)
    assert [i for i, score in enumerate(population.curve) if math.isnan(score)] == [0, 4]


@pytest.mark.parametrize(("rounds", "first"), [(30, 20), (3, 2), (10, 7)])
def test_late_choices_are_those_of_the_last_third(rounds: int, first: int) -> None:
    population = tuned(rounds=rounds)
    for round_ in range(rounds):
        config = {"lr": 0.01, "decay": 0.05, "epochs": 1 + round_ % 2, "kind": "plain"}
        population._count(Assignment(0, round_, config, (0, round_ - 1) if round_ else None))
        assert population.late.made == max(0, round_ - first + 1)


def test_what_is_carried_on_or_copied_is_no_choice_and_a_fresh_start_is_one() -> None:
    population = tuned(rounds=3)
    config = {"lr": 0.01, "decay": 0.05, "epochs": 1, "kind": "plain"}
    for member in range(4):
        population._count(Assignment(member, 1, config, (member, 0)))
    population._count(Assignment(0, 2, config, (0, 1)))
    population._count(Assignment(1, 2, config, (0, 1)))
    assert population.late.made == 0
    population._count(Assignment(2, 2, {**config, "kind": "heavy", "momentum": 0.5}, (0, 1)))
    population._count(Assignment(3, 2, config, None))
    assert population.late.made == 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, Choices(1, 0, 0)),
        ({"decay": 0.0}, Choices(1, 1, 0)),
        ({"decay": 0.0011}, Choices(1, 0, 0)),
        ({"decay": 0.0995}, Choices(1, 1, 0)),
        ({"decay": 0.0, "lr": 1.0}, Choices(1, 1, 0)),  # It counts configurations, not numbers.
        ({"epochs": 5}, Choices(1, 0, 0)),  # An end of a few levels is an ordinary value.
        ({"kind": "heavy", "momentum": 0.5}, Choices(1, 0, 0)),
        ({"kind": "heavy", "momentum": 0.9}, Choices(1, 1, 0)),
        ({"lr": 1e-4}, Choices(1, 1, 1)),
        ({"lr": 2.5e-4}, Choices(1, 0, 1)),  # The lowest tenth of four decades ends at 10^-3.6 = 2.51e-4.
        ({"lr": 2.6e-4}, Choices(1, 0, 0)),
        ({"lr": 0.99}, Choices(1, 1, 0)),
    ],
)
def test_choices_on_a_bound_and_low_learning_rates_are_counted(change: dict[str, Any], expected: Choices) -> None:
    population = tuned(rounds=3)
    config = {"lr": 0.01, "decay": 0.05, "epochs": 3, "kind": "plain"}
    population._count(Assignment(0, 1, config, (0, 0)))
    population._count(Assignment(1, 2, config | {"epochs": 2} | change, (0, 1)))
    assert population.late == expected


def test_without_tuning_everybody_keeps_the_defaults_and_its_weights() -> None:
    population = tuned(DEFAULTS)
    assert population.advance(None) == [Order(dict(space().get_default_configuration()), None)] * 4
    going_on = population.advance([1.0, NAN, 3.0, 4.0])
    assert going_on == [Order(dict(space().get_default_configuration()), (m, 0)) for m in range(4)]


# Sittings

SITTING = ["run", "--tasks", "Pendulum", "--rounds", "3", "--methods", "pbt", "random", "--workers", "1"]
SITTING += ["--seeds-at-once", "1", "--device", "cpu", "--at-once", "1"]


class Here(ThreadPoolExecutor):
    """Stands for a worker process, which takes seconds to start; other tests have real ones."""

    def __init__(self, count: int, *_: Any):
        super().__init__(count)


@pytest.fixture
def track(monkeypatch: pytest.MonkeyPatch) -> Track:
    monkeypatch.setattr(deciding, "ProcessPoolExecutor", Here)
    made = Track()
    monkeypatch.setitem(GROUNDS, "Pendulum", ground(made))
    return made


def stored(folder: Path) -> list[Record]:
    """Read results in the order of their keys, without what differs from sitting to sitting."""
    return sorted((replace(record, seconds=0.0) for record in read(folder)), key=lambda record: record.key)


def gone(pid: int) -> bool:
    """Tell whether a process has ended, though its parent may not have noticed."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def test_a_killed_sitting_loses_what_was_running_and_goes_on_to_the_same_results(tmp_path: Path, track: Track) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    arguments = [*SITTING, "--seeds", "0-3"]
    command = [sys.executable, "-m", "experiments.tests.ground.climbers", "2", *arguments, "--results", str(killed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("waiting"))
        workers = [int(pid) for pid in line.split()[1:]]
        os.kill(process.pid, signal.SIGKILL)
    assert [(record.seed, record.method) for record in stored(killed)] == [
        (seed, method) for method in ("pbt", "random") for seed in range(2)
    ]
    assert len(workers) == 1
    assert main([*arguments, "--results", str(killed)]) == 0
    assert len(track.built) == 1  # Only the third seed was played again.
    assert main([*arguments, "--results", str(whole)]) == 0
    assert stored(killed) == stored(whole)
    until(lambda: all(map(gone, workers)))  # They end with the sitting, whatever ends it.


def test_what_is_stored_is_not_run_again_whichever_part_of_a_batch_it_is(
    tmp_path: Path, track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*SITTING, "--results", str(tmp_path)]
    assert main([*arguments, "--seeds", "1-2", "--methods", "pbt"]) == 0
    assert main([*arguments, "--seeds", "0-4", "--seeds-at-once", "4"]) == 0
    assert len(track.built) == 4
    before = stored(tmp_path)
    assert [record.key[3:5] for record in before] == [(m, s) for m in ("pbt", "random") for s in range(4)]
    assert main([*arguments, "--seeds", "0-4"]) == 0
    assert len(track.built) == 4
    assert stored(tmp_path) == before


class Part:
    """Stands for the process of a part of the seeds, which takes seconds to start."""

    exitcode = 0

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...]):
        self._target, self._args = target, args

    def start(self) -> None:
        """Run the target to its end; note whether it failed."""
        try:
            self._target(*self._args)
        except ArgumentError:
            self.exitcode = 1

    def join(self) -> None:
        """Do nothing: it has ended."""


@pytest.fixture
def parts_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "get_context", {"spawn": SimpleNamespace(Process=Part)}.__getitem__)


@pytest.mark.usefixtures("parts_in_turn")
def test_parts_of_the_seeds_store_what_one_process_stores(tmp_path: Path, track: Track) -> None:
    one, several = tmp_path / "one", tmp_path / "several"
    assert main([*SITTING, "--seeds", "0-5", "--results", str(one)]) == 0
    assert main([*SITTING, "--seeds", "0-5", "--results", str(several), "--processes", "3"]) == 0
    assert stored(several) == stored(one)


@pytest.mark.usefixtures("parts_in_turn")
def test_a_part_that_fails_is_named_when_all_have_ended(
    tmp_path: Path, track: Track, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sit(batches: Iterable[Batch], *rest: Any) -> Clock:
        if any(2 in batch.seeds for batch in batches):
            raise ArgumentError("not with seed 2")
        return Clock()

    monkeypatch.setattr(run, "sit", sit)
    with pytest.raises(SystemExit, match="the processes of seeds 2-4 failed; the others have stored their runs"):
        main([*SITTING, "--seeds", "0-5", "--results", str(tmp_path), "--processes", "3"])


def test_nothing_begins_after_the_time(tmp_path: Path, track: Track) -> None:
    assert main([*SITTING, "--seeds", "0-3", "--results", str(tmp_path), "--seconds", "0"]) == 0
    assert track.built == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "0:3"], "--seeds must be .* such as 0-64, got '0:3'"),
        (["--seeds", "5"], "got '5'"),
        (["--seeds", "0-3-5"], "got '0-3-5'"),
        (["--seeds", "3-3"], "got '3-3'"),
        (["--seeds", "64-0"], "got '64-0'"),
        (["--processes", "0"], "--processes must be at least 1, got 0"),
        (["--seeds-at-once", "0"], "--seeds-at-once must be at least 1, got 0"),
        (["--rounds", "3", "7"], "rounds must divide the 30 updates of Pendulum, got 7"),
        (["--rounds", "0"], "rounds must divide the 30 updates of Pendulum, got 0"),
    ],
)
def test_what_cannot_be_played_is_refused_before_anything_is(
    arguments: list[str], message: str, tmp_path: Path, track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SITTING, "--seeds", "0-3", *arguments, "--results", str(tmp_path)]) == 1
    assert re.search(message, capsys.readouterr().err)
    assert track.built == []
