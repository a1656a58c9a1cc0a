"""One list of settings: what is added to it is everywhere, without another edit."""

import inspect
import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import popbandits
from docs.make_settings import PAGE, page
from popbandits import ArgumentError, Experiment, HistoryError
from popbandits.rules import whole
from popbandits.settings import SETTINGS, TEXTS, Settings
from popbandits.storage.about import check_about

MADE_UP = """
    pace: int = setting(whole(1), (int, "N"), default=3, resumes=True)
    loud: bool = setting(FLAG, (bool, ""), default=False)
"""
TEXT = """
        pace: Set the pace: 100% made up. Default 3.
        loud: Say everything aloud. Default False.
"""
USE = """
import inspect, json
from popbandits import Experiment, History, HistoryError, resume, tune
from popbandits.cli import main
from popbandits.docstrings import read_args
from popbandits.storage import Store
from docs.make_settings import page

class Agent:
    def __init__(self, seed): self.score = 0.0
    def train(self, config):
        self.score += config["x"]
        return self.score
    def save(self, directory): (directory / "score").write_text(str(self.score))
    def load(self, directory): self.score = float((directory / "score").read_text())

experiment = Experiment(Agent, {"x": (0.0, 1.0)}, population=2, rounds=1)

def ends(*words):
    try:
        return main(words)
    except SystemExit as end:
        return end.code

def about():
    with Store.open("there", readonly=True) as store:
        return {name: store.about[name] for name in ("pace", "loud")}

if __name__ == "__main__":
    seen = {name: str(inspect.signature(tune).parameters[name]) for name in ("pace", "loud")}
    seen["text"] = read_args(tune)["pace"]
    ends("run", "--help")
    seen["wrong"] = ends("run", "use.py", "-o", "nowhere", "--pace", "0")
    seen["ran"] = ends("run", "use.py", "-o", "there", "--pace", "7", "--loud")
    seen["planned"] = ends("run", "use.py", "--dry-run", "--pace", "6")
    seen["recorded"] = about()
    seen["resumed"] = ends("resume", "there", "--rounds", "2", "--pace", "8")
    seen["changed"] = about()
    resume("there", rounds=3, pace=9, progress=False)
    seen["again"] = about()
    try:
        resume("there", loud=False, progress=False)
    except ValueError as error:
        seen["refused"] = str(error)
    with Store.open("there") as store:
        store.describe(pace="fast")
    try:
        History.load("there")
    except HistoryError as error:
        seen["absurd"] = str(error)
    seen["documented"] = [row for row in page().splitlines() if row.startswith(("| `pace`", "| `loud`"))]
    print(json.dumps(seen))
"""


def test_a_setting_added_to_the_list_is_everywhere_without_another_edit(tmp_path: Path) -> None:
    root = Path(popbandits.__file__).parent
    shutil.copytree(root, tmp_path / "popbandits", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PAGE.parent, tmp_path / "docs", ignore=shutil.ignore_patterns("*.png"))
    settings = tmp_path / "popbandits" / "settings.py"
    source = settings.read_text("utf-8")
    for before, added in (("        progress: ", TEXT), ("    progress: Any", MADE_UP)):
        assert source.count(f"\n{before}") == 1
        source = source.replace(f"\n{before}", f"{added}{before}")
    settings.write_text(source, "utf-8")
    (tmp_path / "use.py").write_text(USE)
    done = subprocess.run(
        [sys.executable, "use.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert (seen["pace"], seen["loud"]) == ("pace: int = 3", "loud: bool = False")
    assert seen["text"] == "Set the pace: 100% made up. Default 3."
    shown = " ".join(done.stdout.split())
    assert "--pace N set the pace" in shown
    assert "--loud say everything aloud --no-loud the opposite of --loud" in shown
    assert seen["wrong"] == 2
    assert "popbandits run: pace must be a whole number of at least 1, got 0\n" in done.stderr
    assert "\n  pace        6\n  loud        False\n" in done.stdout
    assert (seen["ran"], seen["recorded"]) == (0, {"pace": 7, "loud": True})
    assert (seen["resumed"], seen["changed"]) == (0, {"pace": 8, "loud": True})
    assert seen["again"] == {"pace": 9, "loud": True}
    assert seen["refused"].startswith("a resumed run keeps its loud, got another; agent, method, rounds, ")
    assert seen["refused"].endswith(", pace may change")
    assert "pace must be a whole number of at least 1, got 'fast'" in seen["absurd"]
    text = "Set the pace: 100% made up. Default 3."
    assert seen["documented"][0] == f"| `pace` | `3` | a whole number of at least 1 | `--pace N` | yes | {text} |"
    assert len(seen["documented"]) == 2


def test_the_page_of_settings_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python docs/make_settings.py"


def test_the_list_the_texts_and_an_experiment_agree() -> None:
    assert list(TEXTS) == list(SETTINGS) == [field.name for field in fields(Experiment)]
    assert [f.default for f in fields(Settings)] == [f.default for f in fields(Experiment)]
    assert [f.kw_only for f in fields(Settings)] == [f.kw_only for f in fields(Experiment)]


def test_a_rule_refuses_in_its_own_words() -> None:
    rule = whole(1, 5, fix="3 is usual").or_none("for all")
    rule.check("workers", None)
    rule.check("workers", 5)
    with pytest.raises(
        ArgumentError, match=r"^workers must be a whole number from 1 to 5, or None for all, got 6; 3 is"
    ):
        rule.check("workers", 6)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", 0),
        ("engine", 3),
        ("keep", "some"),
        ("workers", 0),
        ("explore", "nobody"),
        ("synchronous", "no"),
        ("quantile", "x"),
        ("resources", {"cpus": -1}),
        ("round_timeout", -1),
        ("slurm", {"setup": "rm -r ."}),
        ("task", ""),
        ("selection", "os:system"),
    ],
)
def test_a_record_says_nothing_that_breaks_a_rule(name: str, value: object) -> None:
    with pytest.raises(HistoryError, match=rf"^{name} must be .*, got "):
        check_about({name: value})


def test_a_record_may_say_what_no_argument_may() -> None:
    """Members can be unknown, Ray Tune is no engine of ours, and a selection has its own idea of a quantile."""
    about = {"size": None, "engine": "ray-tune", "quantile": 0.9, "agent": {"make": "m:A"}, "note": object()}
    assert check_about(about) == about


def test_the_reference_which_looks_behind_decorators_shows_the_parameters_of_tune() -> None:
    behind = inspect.unwrap(popbandits.tune)
    assert list(inspect.signature(behind).parameters) == list(SETTINGS)
