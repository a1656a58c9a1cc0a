import pytest

from popbandits import PBT, History
from popbandits_experiments.speed.decision_cost import MEMBERS, likelihood_reached, play, time_decisions
from popbandits_experiments.speed.made_up import SPACE


def test_the_made_up_run_is_that_of_the_documented_figures() -> None:
    history = History(SPACE, play(50), size=MEMBERS)
    reached = [likelihood_reached(history, use_prior) for use_prior in (False, True)]
    assert reached == pytest.approx([-59.28, -61.65], abs=0.005)  # docs/benchmarks.md


def test_a_decision_is_timed_in_each_of_the_last_rounds_and_after_them() -> None:
    assert len(time_decisions(PBT(), play(50), rounds=5)) == 6
    assert len(time_decisions(PBT(), play(50))) == 1
    assert len(time_decisions(PBT(), play(50), rounds=30)) == 12  # Nothing is known before the first round.
