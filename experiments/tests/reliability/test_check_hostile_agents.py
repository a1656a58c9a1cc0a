"""`check` blames a hostile agent in its report, whatever the agent does."""

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from popbandits.testing import check_agent
from popbandits_experiments.reliability.failures import report_on
from popbandits_experiments.reliability.hostile import Hostile
from popbandits_experiments.reliability.trials import attempt
from popbandits_experiments.reliability.walker import SPACE


@pytest.mark.parametrize("method", ["init", "train", "save", "load", "close"])
@pytest.mark.parametrize(
    ("act", "named"),
    [
        ("base exception", "BaseException: not even an Exception"),
        ("interrupt", "KeyboardInterrupt"),
        ("cancelled", "CancelledError"),
        ("generator exit", "GeneratorExit"),
    ],
)
def test_what_no_except_clause_expects_is_a_finding(act: str, named: str, method: str) -> None:
    report = check_agent(partial(Hostile, way=(method, act)), SPACE)
    assert named in report.problems[0].text


@pytest.mark.parametrize(
    ("result", "named"),
    [
        ("huge integer", "train must return a number"),
        ("unreadable", "reading what train returned raised"),
        ("long text", "train must return a number"),
    ],
)
def test_a_score_that_is_no_float_is_a_finding_of_bounded_length(result: str, named: str) -> None:
    report = check_agent(partial(Hostile, way=("result", result)), SPACE)
    assert named in report.problems[0].text
    assert len(str(report)) < 10_000


def test_an_error_that_no_terminal_can_show_is_printed_escaped() -> None:
    report = check_agent(partial(Hostile, way=("train", "surrogates")), SPACE)
    assert r"cannot read \ud800caf\udce9" in str(report)
    str(report).encode()


def test_an_agent_that_deletes_its_folder_is_blamed_and_not_the_disk() -> None:
    report = check_agent(partial(Hostile, way=("save", "delete")), SPACE)
    assert "save must leave the folder that it is given" in report.problems[0].text


@pytest.mark.parametrize("method", ["init", "train", "save", "load", "close"])
def test_a_forked_agent_is_checked_once(method: str, tmp_path: Path) -> None:
    (home := tmp_path / "home").mkdir()
    outcome = attempt(partial(report_on, home, (method, "fork")), tmp_path)
    assert (outcome.ended, outcome.result) == ("done", True)
    assert outcome.printed.count("run without errors") == 1
    assert not list(home.iterdir())


def test_ctrl_c_ends_a_check() -> None:
    class Interrupted(Hostile):
        def train(self, config: dict[str, Any]) -> Any:
            os.kill(os.getpid(), signal.SIGINT)
            return super().train(config)

    with pytest.raises(KeyboardInterrupt):
        check_agent(Interrupted, SPACE)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
