"""What a run hands over: its candidates are evaluated at its end, on every engine, also after a kill."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits import PopbanditsWarning, Result, resume, tune
from popbandits.cli import main
from popbandits.engines.making import find_evaluate
from popbandits.errors import ArgumentError, HistoryError
from popbandits.history import Event
from popbandits.reports.report import write_report
from popbandits.selection.choice import Candidate
from popbandits.storage.store import Store
from popbandits.testing import check_agent
from popbandits.testing.agent_report import AgentRule
from tests.engines.agents import space as walkers_space
from tests.engines.batches import Walkers
from tests.processes import contents, in_a_child
from tests.run.evaluated import (
    SPACE,
    Counting,
    Diverging,
    Evaluated,
    Failing,
    Fickle,
    Interrupted,
    Killed,
    Learner,
    OfItsOwn,
    Raising,
    WithOutcome,
)

SETTINGS: dict[str, Any] = {"rounds": 6, "population": 3, "seed": 1, "progress": False}
"""With this seed the best score ever is an early one, by luck."""


def tuned(agent: Any, directory: Path, **settings: Any) -> Result:
    return tune(agent, SPACE, directory=directory, **(SETTINGS | settings))


def said(directory: Path, *kinds: str) -> list[Event]:
    with Store.open(directory, readonly=True) as store:
        return [event for event in store.events() if event.kind in kinds]


def skill_of(result: Result, candidate: Candidate) -> float:
    """Read the true skill of a candidate from its checkpoint."""
    agent = Learner(0)
    agent.load(result.directory / "checkpoints" / "member-{}-round-{}".format(*candidate.observation.key))
    return agent.skill


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return tuned(Evaluated, tmp_path_factory.mktemp("evaluated"))


def test_the_best_mean_of_paired_evaluations_is_handed_over(evaluated: Result) -> None:
    choice = evaluated.choice
    assert (choice.reason, choice.evaluations, len(choice.candidates)) == ("evaluated", 10, 2)
    assert choice.chosen == max(choice.candidates, key=lambda each: each.skill)
    assert evaluated.best in [each.observation for each in choice.candidates]
    assert evaluated.checkpoint.name == f"member-{choice.observation.member}-round-{choice.observation.round}"
    assert evaluated.schedule == evaluated.history.schedule(choice.observation)
    # The same seeds for all: means differ by skills alone, and errors are equal.
    skills = [skill_of(evaluated, each) for each in choice.candidates]
    means = [each.skill for each in choice.candidates]
    assert np.diff(means) == pytest.approx(np.diff(skills))
    assert skill_of(evaluated, choice.chosen) == max(skills) > min(skills)
    assert [each.standard_error for each in choice.candidates] == pytest.approx(
        [choice.candidates[0].standard_error] * len(means)
    )
    assert 0.1 < (choice.chosen.standard_error or 0) < 0.7


def test_the_record_has_the_candidates_their_means_and_errors_and_the_chosen_one(evaluated: Result) -> None:
    begun, ended = said(evaluated.directory, "evaluating", "evaluated")
    choice = evaluated.choice
    assert begun.text == f"{len(choice.candidates)} candidates × 10 evaluations"
    assert ended.text == str(choice)
    assert ended.data == {
        "chosen": list(choice.observation.key),
        "candidates": [[*each.observation.key, each.skill, each.standard_error] for each in choice.candidates],
        "evaluations": 10,
        "observations": 18,
    }


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_every_engine_evaluates_alike(engine: Any, evaluated: Result, tmp_path: Path) -> None:
    there = tuned(Evaluated, tmp_path, engine=engine, workers=2)
    assert there.choice == evaluated.choice
    assert contents(there.directory) == contents(evaluated.directory)


def test_an_outcome_counts_by_its_score(evaluated: Result, tmp_path: Path) -> None:
    assert tuned(WithOutcome, tmp_path).choice == evaluated.choice


def test_another_seed_evaluates_with_other_seeds(evaluated: Result, tmp_path: Path) -> None:
    other = tuned(Evaluated, tmp_path, seed=3)
    assert other.choice.chosen.standard_error != pytest.approx(evaluated.choice.chosen.standard_error)


def test_a_run_that_was_killed_while_it_evaluated_evaluates_when_it_is_resumed(
    evaluated: Result, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    maker = partial(Killed, marks=marks)
    _, status = os.waitpid(in_a_child(partial(tuned, maker, tmp_path / "run")), 0)
    assert os.WIFSIGNALED(status)
    assert Result(tmp_path / "run").done
    assert Result(tmp_path / "run").choice.reason != "evaluated"
    assert not said(tmp_path / "run", "evaluated", "finished")
    result = resume(tmp_path / "run", agent=maker, progress=False)
    assert result.choice == evaluated.choice
    assert [event.kind for event in said(tmp_path / "run", "evaluated", "finished")] == ["evaluated", "finished"]


def test_an_interrupted_evaluation_is_done_again_by_a_resume(evaluated: Result, tmp_path: Path) -> None:
    Interrupted.presses = 1
    tuned(Interrupted, tmp_path)
    assert [event.kind for event in said(tmp_path, "evaluated", "stopped", "finished")] == ["stopped"]
    assert resume(tmp_path, progress=False).choice == evaluated.choice


def test_an_evaluation_that_is_stopped_at_once_did_not_fail(evaluated: Result, tmp_path: Path) -> None:
    Interrupted.presses = 2
    with pytest.raises(KeyboardInterrupt):
        tuned(Interrupted, tmp_path)
    assert [event.kind for event in said(tmp_path, "unevaluated", "stopped", "finished")] == ["stopped"]
    assert resume(tmp_path, progress=False).choice == evaluated.choice


def test_a_finished_run_is_evaluated_once_unless_it_is_asked_to(tmp_path: Path) -> None:
    tuned(Evaluated, tmp_path)
    resume(tmp_path, progress=False)
    assert len(said(tmp_path, "evaluated")) == 1
    assert resume(tmp_path, evaluations=4, progress=False).choice.evaluations == 4
    assert len(said(tmp_path, "evaluated")) == 2


def test_a_run_with_more_rounds_is_evaluated_anew(tmp_path: Path) -> None:
    tuned(Evaluated, tmp_path, rounds=3)
    longer = resume(tmp_path, rounds=6, progress=False)
    assert longer.choice.reason == "evaluated"
    assert longer.choice.observation.round > 2
    assert [event.data["observations"] for event in said(tmp_path, "evaluated")] == [9, 18]


def test_a_record_from_before_the_last_intervals_does_not_count(tmp_path: Path) -> None:
    tuned(Evaluated, tmp_path, rounds=3)
    longer = resume(tmp_path, rounds=6, evaluations=0, progress=False)
    assert longer.choice.reason != "evaluated"


def test_the_control_is_a_candidate(tmp_path: Path) -> None:
    result = tuned(Evaluated, tmp_path, control=True, start={"gain": 0.0}, rounds=8)
    assert (0, 7) in [each.observation.key for each in result.choice.candidates]
    assert result.choice.observation.member != 0


@pytest.mark.parametrize(
    ("agent", "settings"), [(Learner, {}), (OfItsOwn, {}), (Evaluated, {"evaluations": 0})], ids=["none", "other", "0"]
)
def test_without_evaluations_nothing_is_recorded_and_scores_choose(
    agent: Any, settings: Any, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    result = tuned(agent, tmp_path, **settings)
    assert result.choice.reason in ("smoothed", "score")
    assert not said(tmp_path, "evaluating", "evaluated", "unevaluated")
    assert not [each for each in recwarn if issubclass(each.category, PopbanditsWarning)]
    before = (tmp_path / "run.sqlite").read_bytes()
    assert Result(tmp_path).choice == result.choice
    assert (tmp_path / "run.sqlite").read_bytes() == before


def test_a_batch_is_not_evaluated(tmp_path: Path) -> None:
    class Batch(Walkers):
        def evaluate(self, members: Any, seed: int = 0) -> Any:
            raise AssertionError("a batch is not evaluated")

    result = tune(Batch, walkers_space(), engine="batched", directory=tmp_path, **SETTINGS)
    assert result.choice.reason in ("smoothed", "score")


def test_an_evaluate_that_raises_is_a_warning_and_scores_choose(tmp_path: Path) -> None:
    with pytest.warns(PopbanditsWarning, match="hands over by its scores: ValueError: there is no environment"):
        result = tuned(Raising, tmp_path)
    assert result.done
    assert result.choice.reason in ("smoothed", "score")
    (event,) = said(tmp_path, "unevaluated")
    assert "there is no environment" in event.data["traceback"]
    assert said(tmp_path, "finished")


def test_the_terminal_says_that_nothing_could_be_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(PopbanditsWarning, match="there is no environment"):
        tuned(Raising, tmp_path, progress=True)
    assert ". Warning: the candidates of the run could not be evaluated, so it hands over by" in capsys.readouterr().err


def test_a_candidate_without_a_finite_score_is_not_handed_over(tmp_path: Path) -> None:
    plain = tuned(Learner, tmp_path / "plain")
    skills = [skill_of(plain, each) for each in plain.choice.candidates]
    result = tuned(partial(Diverging, limit=max(skills)), tmp_path / "x")
    assert result.choice.reason == "evaluated"
    assert [skill_of(result, each) for each in result.choice.candidates] == [min(skills)] < [max(skills)]


def test_where_no_candidate_has_a_finite_score_scores_choose(tmp_path: Path) -> None:
    with pytest.warns(PopbanditsWarning, match="evaluate returned no finite score"):
        result = tuned(Diverging, tmp_path)
    assert result.choice.reason in ("smoothed", "score")


def test_candidates_whose_checkpoints_are_gone_are_said_to_be(tmp_path: Path) -> None:
    tuned(Evaluated, tmp_path, evaluations=0)
    for manifest in tmp_path.glob("checkpoints/*/*.json"):
        manifest.unlink()
    with pytest.warns(PopbanditsWarning, match=r"it hands over by its scores: the checkpoint .* cannot be read"):
        assert resume(tmp_path, evaluations=2, progress=False).choice.reason in ("smoothed", "score")


def test_a_run_in_which_nothing_completed_hands_nothing_over(tmp_path: Path) -> None:
    tuned(Learner, tmp_path)
    with Store.open(tmp_path) as store:
        store.connection.execute("DELETE FROM observation")
        store.connection.commit()
    with pytest.raises(HistoryError, match="there is nothing to hand over"):
        _ = Result(tmp_path).choice


def test_members_that_fail_at_the_end_are_candidates_by_what_they_completed(tmp_path: Path) -> None:
    result = tuned(Failing, tmp_path)
    assert result.choice.reason == "evaluated"
    assert result.choice.observation.round < 5


def test_a_number_of_evaluations_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="evaluations must be a whole number of at least 0, got -1"):
        tuned(Evaluated, tmp_path, evaluations=-1)


def test_the_terminal_status_report_and_notebook_name_what_was_handed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = tuned(Evaluated, tmp_path / "run", progress=True)
    told, choice = capsys.readouterr().err, str(result.choice)
    assert f"\nEvaluating {len(result.choice.candidates)} candidates × 10 evaluations.\n" in told
    assert f" Handed over: {choice}.\n" in told
    assert main(["status", str(result.directory)]) == 0
    assert f"\n{result.directory} hands over {choice}\n" in capsys.readouterr().out
    assert main(["status", "--json", str(result.directory)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["handed_over"] == choice
    write_report([result.directory], tmp_path / "report.html")
    assert f"It hands over {choice}." in (tmp_path / "report.html").read_text("utf-8").replace("<wbr>", "")
    assert f"Handed over: {choice}" in result._repr_html_()


def test_only_a_method_that_needs_a_seed_alone_is_called() -> None:
    assert find_evaluate(Evaluated(0)) is not None
    assert find_evaluate(OfItsOwn(0)) is find_evaluate(Learner(0)) is find_evaluate(None) is None


def test_the_check_tries_evaluate() -> None:
    def found(agent: Any) -> list[tuple[str, str]]:
        report = check_agent(agent, SPACE)
        return [(each.status, each.text) for each in report.findings if each.rule == AgentRule.EVALUATED]

    assert found(Learner) == []
    assert found(Evaluated) == [("ok", "")]
    [(counting, why)] = found(Counting)
    assert counting == "problem"
    assert "evaluate changed what save writes" in why
    [(fickle, why)] = found(Fickle)
    assert fickle == "warning"
    assert "evaluations with the same seed got" in why
