"""check_batched finds each fault of a batch, names its rule, and has nothing to say against sound ones."""

import math
import re
from typing import Any

import pytest

from popbandits.errors import AgentError
from popbandits.testing import AgentRule as Rule
from popbandits.testing import BatchRule, Report, check_batched
from popbandits.testing.agent_report import AnyRule
from tests.testing import faulty_batches as batches
from tests.testing.faulty_batches import SPACE, Sound

SOUND = (Sound, batches.TellsWhatItApplied, batches.ReturnsOutcomes, batches.CountsOnBeingTold)
FAULTS: dict[type[Sound], tuple[AnyRule, str]] = {
    batches.SharesAGenerator: (BatchRule.COMPANY, "as number 0 and as number 1.* its own random numbers"),
    batches.NormalisesOverMembers: (BatchRule.COMPANY, "let members share nothing"),
    batches.NumbersItsMembers: (BatchRule.COMPANY, "next to members with other values than before, got the scores"),
    batches.DrawsAsOftenAsTheLongest: (BatchRule.COMPANY, "draw as many whatever the others do"),
    batches.DrawsAsOftenAsTheShortest: (BatchRule.COMPANY, "as number 1 and as number 0"),
    batches.CopiesOneByOne: (BatchRule.COPY, r"after copy\(\[1, 0, 0, ...\]\).*from all sources as they were before"),
    batches.CopiesWeightsOnly: (BatchRule.COPY, "copy weights, optimizer, counters and random states"),
    batches.CopiesTheSameGenerator: (BatchRule.COPY, "each must train as its source would have"),
    batches.LoadClearsEverybody: (BatchRule.APART, "as if no other had been loaded or reset"),
    batches.ResetSeedsEverybody: (BatchRule.APART, "let these change only their member"),
    batches.ResetKeepsTheVelocity: (BatchRule.RESET, "let reset create everything again"),
    batches.ResetHasNoSeed: (BatchRule.RESET, "like a new one of the same seed"),
    batches.GivesUpTogether: (BatchRule.DIVERGED, "next to members that become NaN"),
    batches.SumsTheLosses: (BatchRule.DIVERGED, "let nothing be summed over members"),
    batches.BlendsCopies: (BatchRule.DIVERGED, "overwrite"),
    batches.ResetsByAFactor: (BatchRule.DIVERGED, "NaN and then reset must train like any other"),
    batches.KeepsRatesInMemory: (BatchRule.MEMORY, "let train set all hyperparameters every time"),
    batches.SavesNoVelocity: (Rule.COMPLETE, "something is not saved or not restored"),
    batches.IgnoresThem: (Rule.USED, "lr, momentum: another value must show"),
    batches.LiesAboutThem: (Rule.APPLIED, "lr is 1.0, expected"),
    batches.WritesWhenItLoads: (Rule.UNCHANGED, "load or train changed loaded.txt"),
}


def problems(report: Report) -> list[AnyRule]:
    return [finding.rule for finding in report.problems]


def test_every_rule_of_batches_has_a_fault_that_breaks_it() -> None:
    assert {rule for rule, _ in FAULTS.values()} >= set(BatchRule) - {BatchRule.SIZE}


@pytest.mark.parametrize("batch", SOUND)
@pytest.mark.parametrize("population", [2, 7])
def test_there_is_nothing_to_say_against_a_sound_batch(batch: Any, population: int) -> None:
    report = check_batched(batch, SPACE, population=population)
    assert {finding.status for finding in report.findings} == {"ok"}, str(report)
    assert {finding.rule for finding in report.findings} >= {*Rule, *BatchRule} - {
        Rule.APPLIED,
        Rule.SHARED,
        Rule.EVALUATED,
    }


@pytest.mark.parametrize("batch", FAULTS)
def test_a_fault_is_found_and_its_rule_named(batch: Any) -> None:
    rule, words = FAULTS[batch]
    report = check_batched(batch, SPACE)
    assert problems(report) == [rule], str(report)
    with pytest.raises(AgentError, match=f"(?s){re.escape(rule)}: .*{words}"):
        report.raise_for_problems()


def test_a_batch_that_is_not_deterministic_is_warned_with_the_spread_of_its_scores() -> None:
    report = check_batched(batches.HasNoSeed, SPACE)
    assert report.ok, str(report)
    (alike,) = (finding for finding in report.warnings if finding.rule == Rule.ALIKE)
    assert "training is not deterministic" in alike.text
    assert "of 6 loads" in alike.text
    assert "open      a member trains alike at any index" in str(report)


def test_a_batch_whose_size_matters_is_warned() -> None:
    (warning,) = check_batched(batches.AveragesTheLoss, SPACE).warnings
    assert warning.rule == BatchRule.SIZE
    assert "let losses be summed over members, not averaged" in warning.text


def test_when_train_refuses_nan_divergence_cannot_be_tried() -> None:
    class Picky(Sound):
        def train(self, configs: list[dict[str, Any]]) -> Any:
            if any(math.isnan(config["lr"]) for config in configs):
                raise ValueError("lr must be a number")
            return super().train(configs)

    report = check_batched(Picky, SPACE)
    (warning,) = report.warnings
    assert (report.ok, warning.rule) == (True, BatchRule.DIVERGED)
    assert "with hyperparameters that are NaN, train raised" in warning.text
    assert "ValueError: lr must be a number" in warning.text


def test_without_numbers_that_can_be_nan_divergence_stays_open() -> None:
    class Chooses(Sound):
        def rates(self, configs: list[dict[str, Any]]) -> Any:
            return super().rates([{"lr": 0.01 * config["steps"], "momentum": 0.5} for config in configs])

    report = check_batched(Chooses, {"steps": (1, 9)})
    assert report.ok
    assert "open      a member that diverges harms no other and can be replaced" in str(report)


@pytest.mark.parametrize("method", ["__init__", "train", "copy", "reset", "save", "load"])
def test_whatever_a_batch_raises_is_in_the_report(method: str) -> None:
    def breaks(self: Any, *arguments: Any) -> None:
        raise LookupError(f"no luck in {method}")

    report = check_batched(type("Breaks", (Sound,), {method: breaks}), SPACE)
    assert problems(report) == [Rule.RUNS]
    with pytest.raises(AgentError, match=f"(?s)in breaks.*LookupError: no luck in {method}"):
        report.raise_for_problems()


@pytest.mark.parametrize(
    ("changes", "rule", "words"),
    [
        ({"copy": None, "reset": None}, Rule.RUNS, "got .*Sound.* without copy, reset; add them"),
        ({"score": lambda self: 0.5}, Rule.RUNS, "for each of 4 members, got 0.5"),
        ({"score": lambda self: [0.5, 0.1]}, Rule.RUNS, r"for each of 4 members, got \[0.5, 0.1\]"),
        ({"score": lambda self: ["high"] * len(self.x)}, Rule.SCORE, "must return a number or an Outcome, got 'high'"),
        ({"score": lambda self: [math.nan] * len(self.x)}, Rule.SCORE, "must reach a finite score, got none with 3"),
        ({"applied": lambda self: []}, Rule.RUNS, "applied must return a configuration for each of 4"),
    ],
)
def test_what_is_no_batch_is_told_so(changes: dict[str, Any], rule: Rule, words: str) -> None:
    report = check_batched(type("Sound", (Sound,), changes), SPACE)
    assert problems(report) == [rule], str(report)
    with pytest.raises(AgentError, match=f"(?s){words}"):
        report.raise_for_problems()


def test_costs_are_those_of_a_run_of_batches() -> None:
    lines: list[str] = []
    report = check_batched(Sound, SPACE, population=8, rounds=10, progress=lines.append)
    costs = report.costs
    assert costs is not None
    assert costs.intervals == len(lines) == 12 + 8
    assert costs.interval == costs.train + 8 * (costs.save + costs.recording)
    assert "an interval of all members" in str(report)
    assert "8 members x 10 rounds take" in str(report)
