"""Studies of headroom: who trains how long with what, what is stored, and the rule, from made-up scores."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.tests.ground.climbers import STEPS, Track, ground
from popbandits_experiments.batched.brains import Brains
from popbandits_experiments.ground import headroom
from popbandits_experiments.ground.__main__ import main
from popbandits_experiments.ground.grounds import GROUNDS
from popbandits_experiments.ground.headroom import BEST_OF, CHOOSING, JUDGING, TOP, Entry, Judgement, Key, Study, What
from popbandits_experiments.ground.scales import scale_of
from popbandits_experiments.ground.study import configuration, table

SAMPLES, SEEDS, ROUNDS = 6, 2, 3
STUDY = ["headroom", "run", "--tasks", "Pendulum", "--samples", str(SAMPLES), "--seeds", f"0-{SEEDS}"]
STUDY += ["--rounds", str(ROUNDS), "--device", "cpu"]


@pytest.fixture
def track(monkeypatch: pytest.MonkeyPatch) -> Track:
    made = Track()
    monkeypatch.setitem(GROUNDS, "Pendulum", ground(made))
    return made


def test_a_study_trains_everybody_to_the_end_of_its_budget(tmp_path: Path, track: Track) -> None:
    assert main([*STUDY, "--results", str(tmp_path)]) == 0
    stored = headroom.read(tmp_path)
    counts: dict[What, int] = {}
    for entry in stored.values():
        counts[entry.what] = counts.get(entry.what, 0) + 1
        budget = {"untrained": 0, "longer": BEST_OF * 30 * STEPS}
        assert entry.steps == budget.get(entry.what, 30 * STEPS)
    again = 2 * TOP * (CHOOSING + JUDGING)
    assert counts == {
        "untrained": SEEDS,
        "longer": SEEDS,
        "usual": SEEDS * BEST_OF,
        "sample": 2 * SAMPLES,
        "again": again,
    }
    _, first, second, longer = track.built
    trained = [configs for name, configs in first.done if name == "train"]
    assert [len(configs) for configs in trained] == [SEEDS * BEST_OF + 2 * SAMPLES] * ROUNDS
    usual = dict(ground(track).spaces["wide"]().get_default_configuration())
    assert trained[0][: SEEDS * BEST_OF] == [usual] * (SEEDS * BEST_OF)
    assert usual not in trained[0][SEEDS * BEST_OF :]
    assert [name for name, _ in longer.done].count("train") == BEST_OF * ROUNDS
    # The best ones trained again, with the same configurations and new seeds.
    (study, _) = headroom.studies(stored.values())
    assert study.early
    ranked = sorted(study._of("sample"), key=lambda entry: -(entry.kept or 0.0))
    assert study.top == [entry.index for entry in ranked[:TOP]]
    repeated = next(configs for name, configs in second.done if name == "train")
    key = Key("Pendulum", "sample", "wide", study.top[0], 0)
    assert repeated[: CHOOSING + JUDGING] == [configuration(ground(track), key)] * (CHOOSING + JUDGING)
    assert len(set(second._keys[: again // 2].tolist())) == again // 2  # of the wide space


def test_longer_runs_can_be_left_out_and_made_up_for(tmp_path: Path, track: Track) -> None:
    assert main([*STUDY, "--results", str(tmp_path), "--without", "longer"]) == 0
    short = headroom.read(tmp_path)
    assert "longer" not in {key.what for key in short}
    assert max(sum(name == "train" for name, _ in agents.done) for agents in track.built) == ROUNDS
    judged = headroom.judge(tmp_path)
    assert {judgement.verdict for judgement in judged.values()} <= {"headroom", "saturated", "unlearnable"}
    assert main([*STUDY, "--results", str(tmp_path)]) == 0
    assert {key.what for key in headroom.read(tmp_path).keys() - short.keys()} == {"longer"}
    with pytest.raises(SystemExit):
        main([*STUDY, "--results", str(tmp_path), "--without", "usual"])


def test_a_study_goes_on_where_it_stopped(tmp_path: Path, track: Track) -> None:
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    assert main([*STUDY, "--results", str(whole)]) == 0
    assert main([*STUDY, "--results", str(pieces), "--seconds", "0"]) == 0
    assert headroom.read(pieces) == {}
    assert main([*STUDY, "--results", str(pieces), "--spaces", "narrow"]) == 0
    with (pieces / "Pendulum.jsonl").open("ab") as file:
        file.write(b'{"task": "Pend')  # A killed writer's last line.
    assert main([*STUDY, "--results", str(pieces), "--at-once", "5"]) == 0
    built = len(track.built)
    assert main([*STUDY, "--results", str(pieces)]) == 0
    assert len(track.built) == built
    same = [{key: (e.steps, e.score, e.final) for key, e in headroom.read(at).items()} for at in (whole, pieces)]
    assert same[0] == same[1]


def test_who_diverged_has_the_random_score(tmp_path: Path, track: Track) -> None:
    assert main([*STUDY, "--results", str(tmp_path)]) == 0
    finals = [entry.final for entry in headroom.read(tmp_path).values()]
    assert all(map(math.isfinite, finals))
    assert scale_of("Pendulum").random in finals


def test_what_counts_is_the_state_with_the_best_score_ever(tmp_path: Path, track: Track) -> None:
    """Climbers climb until they diverge: the best score is the last one before, and the state that had it is tested."""
    assert main([*STUDY, "--results", str(tmp_path)]) == 0
    diverged = scale_of("Pendulum").random
    trained = [entry for entry in headroom.read(tmp_path).values() if entry.what in headroom.TRAINED]
    fell = [entry for entry in trained if entry.final == diverged and entry.best != diverged]
    assert fell
    for entry in trained:
        assert entry.best is not None
        assert entry.kept == pytest.approx(entry.best, rel=1e-4)
        if entry not in fell:
            assert entry.kept == pytest.approx(entry.final, rel=1e-4)


def test_a_study_without_early_states_counts_the_last_ones() -> None:
    made = entries("usual", [1.0], score=5.0, best=6.0, kept=2.0) + entries("sample", [3.0], best=9.0, kept=4.0)
    early = Study("Pendulum", "wide", tuple(made))
    assert (early.one.tolist(), early.finals("sample").tolist()) == ([2.0], [4.0])
    mixed = Study("Pendulum", "wide", (*made, *entries("again", [7.0])))
    assert (mixed.one.tolist(), mixed.finals("sample").tolist(), mixed.finals("again").tolist()) == (
        [1.0],
        [3.0],
        [7.0],
    )


def test_a_policy_can_be_made_to_stand_still_or_to_act_at_random() -> None:
    brains = Brains(3, 5, 4, discrete=True, hidden=8, device=torch.device("cpu"))
    brains.fix_outputs([0.0, 100.0, 0.0, 0.0])
    noise = torch.rand(3, 200, 1)
    assert (brains.act(brains.policy(torch.randn(3, 200, 5)), noise) == 1).all()
    brains.fix_outputs([0.0] * 4)
    assert torch.equal(brains.act(brains.policy(torch.randn(3, 200, 5)), noise), (4 * noise[..., 0]).long())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--samples", "3"], "--samples must be at least 4, got 3"),
        (["--at-once", "0"], "--at-once must be at least 1, got 0"),
        (["--rounds", "7"], "rounds must divide the 30 updates of Pendulum, got 7"),
    ],
)
def test_what_cannot_be_studied_is_refused(
    arguments: list[str], message: str, tmp_path: Path, track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*STUDY, *arguments, "--results", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
    assert track.built == []


# The rule


def entries(what: What, finals: list[float], **given: Any) -> list[Entry]:
    space = "wide" if what in ("sample", "again") else None
    return [
        Entry(**{"task": "Pendulum", "what": what, "space": space, "index": 0, "seed": seed, "steps": 1,
                 "score": final, "final": final, "device": "", "seconds": 0.0, **given})
        for seed, final in enumerate(finals)
    ]  # fmt: skip


def study(usual: float, tuned: float, noise: float = 0.0, still: float = -1500.0, lucky: float = 0.0) -> Study:
    """Make a study in which every run of a kind has the same score up to noise."""
    finals = [-noise, noise] * 8
    found = entries("untrained", [-1225.0] * 8) + entries("still", [still] * 8)
    for run in range(BEST_OF):
        found += entries("usual", [usual + one for one in finals], index=run)
    for index in range(TOP):
        level = tuned if index == 1 else -1300.0
        own = [level + one for one in finals[: CHOOSING + JUDGING]]
        if index == 2:
            own[:CHOOSING] = [level + lucky] * CHOOSING
        found += entries("again", own, index=index) + entries("sample", [level], index=index)
    return Study("Pendulum", "wide", tuple(found))


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (study(-400, -200), "headroom"),
        (study(-400, -200, noise=400.0), "saturated"),  # 200 more, with a standard error of 176.
        (study(-200, -190), "saturated"),  # Surely better, by 1% of the way from -1225.
        (study(-200, -400), "saturated"),
        (study(-1225, -1225), "unlearnable"),
        (study(-1225, -200), "headroom"),  # What the usual settings cannot learn others may.
        (study(-600, -500, still=-400.0), "unlearnable"),  # Standing still is better.
        (study(-400, -200, lucky=1200.0), "saturated"),  # The one chosen was lucky, and is judged on other seeds.
    ],
)
def test_the_verdict_follows_from_the_rule(given: Study, verdict: str) -> None:
    assert given.judgement.verdict == verdict


def test_the_table_has_every_score_and_the_verdict() -> None:
    (_, _, row) = table([study(-400, -200)]).splitlines()
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells[:7] == ["Pendulum", "wide", "no", "1", "-1,225", "-1,225 ± 0", "-1,500 ± 0"]
    assert cells[7:10] == ["-400 ± 0", "-400 ± 0", "–"]
    assert cells[-3:] == ["25% of 4", "-200 ± 0", "headroom"]


def test_a_study_that_is_not_complete_says_nothing() -> None:
    whole = study(-400, -200)
    assert Study("Pendulum", "wide", whole.entries[:-2]).judgement == Judgement("unknown", "not studied")


def test_the_best_of_four_has_the_best_last_score_while_training() -> None:
    found = [Entry("Pendulum", "usual", None, run, 7, 1, 10.0 * (run == 2), -1.0 * run, "", 0.0) for run in range(4)]
    whole = Study("Pendulum", "wide", tuple(found))
    assert whole.best.tolist() == [-2.0]
    assert whole.one.tolist() == [0.0]
    assert Study("Pendulum", "wide", tuple(found[:3])).best.size == 0


@pytest.mark.parametrize("name", GROUNDS)
def test_every_task_has_a_scale_and_a_budget_that_thirty_and_ten_rounds_divide(name: str) -> None:
    place, scale = GROUNDS[name], scale_of(name)
    assert scale.random < scale.take_off < scale.solved
    assert [place.updates_in(rounds) * rounds for rounds in (10, 30)] == [place.updates] * 2
    defaults = [dict(make().get_default_configuration()) for make in place.spaces.values()]
    assert all(config == defaults[0] for config in defaults)
