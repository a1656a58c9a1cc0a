"""One list of settings: signatures and docstrings agree with it, and the rest follows from it."""

import ast
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

import popbandits
from docs.make_settings import PAGE, page
from popbandits import ArgumentError, Experiment, HistoryError, explorers, selection
from popbandits.basics.rules import whole
from popbandits.basics.settings import CHANGEABLE, SETTINGS, check
from popbandits.commands.options import TEXTS
from popbandits.storage.coding import check_about
from tests.test_help import args_of

ROWS = """
    "pace": Setting(whole(1), (int, "N"), resumes=True),
    "loud": Setting(FLAG, (bool, "")),
"""
TEXT = """
        pace: Pace of the run: 100% made up. Default 3.
        loud: Whether everything is said aloud. Default False.
"""
FIELDS = """
    pace: int = 3
    loud: bool = False
"""
PARAMETERS = """
    pace: int = 3,
    loud: bool = False,
"""
CHANGES = """
    pace: int | None = None,
"""
EDITS = {
    "basics/settings.py": [('    "progress": ', ROWS)],
    "run/experiment.py": [("        progress: Whether", TEXT), ("    progress: bool", FIELDS)],
    "run/tune.py": [("    progress: bool", PARAMETERS), ("    progress: bool", CHANGES)],
}
"""What a new setting is written into: (where, what), in order. Records, options and the docs follow."""
USE = """
import inspect, json
from popbandits import Experiment, History, HistoryError, resume, tune
from popbandits.cli import main
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


def test_a_setting_added_to_the_list_and_the_signatures_is_everywhere_without_another_edit(tmp_path: Path) -> None:
    root = Path(popbandits.__file__).parent
    shutil.copytree(root, tmp_path / "popbandits", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PAGE.parent, tmp_path / "docs", ignore=shutil.ignore_patterns("*.png"))
    for name, edits in EDITS.items():
        path, start = tmp_path / "popbandits" / name, 0
        source = path.read_text("utf-8")
        for before, added in edits:
            start = source.index(f"\n{before}", start)
            source = source[:start] + added.rstrip() + source[start:]
            start += len(added) + len(before)
        path.write_text(source, "utf-8")
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
    shown = " ".join(done.stdout.split())
    assert "--pace N pace of the run" in shown
    assert "--loud everything is said aloud --no-loud the opposite of --loud" in shown
    assert seen["wrong"] == 2
    assert "popbandits run: pace must be a whole number of at least 1, got 0\n" in done.stderr
    assert "\n  pace         6\n  loud         False\n" in done.stdout
    assert (seen["ran"], seen["recorded"]) == (0, {"pace": 7, "loud": True})
    assert (seen["resumed"], seen["changed"]) == (0, {"pace": 8, "loud": True})
    assert seen["again"] == {"pace": 9, "loud": True}
    assert seen["refused"].startswith("a resumed run keeps its loud, got False; agent, method, rounds, ")
    assert seen["refused"].endswith(", pace may change")
    assert "pace must be a whole number of at least 1, got 'fast'" in seen["absurd"]
    text = "Pace of the run: 100% made up. Default 3."
    assert seen["documented"][0] == f"| `pace` | `3` | a whole number of at least 1 | `--pace N` | yes | {text} |"
    assert len(seen["documented"]) == 2


def test_the_page_of_settings_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python docs/make_settings.py"


def test_the_list_the_texts_and_an_experiment_agree() -> None:
    assert list(TEXTS) == list(SETTINGS) == [field.name for field in fields(Experiment)]
    assert args_of(Experiment) == TEXTS
    for field in fields(Experiment):
        if field.default is not MISSING:
            check(field.name, field.default)


def written(function: Any) -> list[tuple[str, str, str]]:
    """Return name, type and default of each parameter, as the source has them: what an editor shows."""
    source = dedent(inspect.getsource(inspect.unwrap(function))).replace("def __init__(self, ", "def __init__(")
    tree = ast.parse(source).body[0]
    assert isinstance(tree, ast.FunctionDef)
    given, named = tree.args.args, tree.args.kwonlyargs
    defaults = [*[None] * (len(given) - len(tree.args.defaults)), *tree.args.defaults, *tree.args.kw_defaults]
    assert (tree.args.vararg, tree.args.kwarg) == (None, None)
    texts = ["" if default is None else ast.unparse(default) for default in defaults]
    pairs = zip([*given, *named], texts, strict=True)
    return [(each.arg, ast.unparse(each.annotation), text) for each, text in pairs if each.annotation is not None]


def fields_written() -> dict[str, tuple[str, str, str]]:
    """Return name, type and default of each setting, as the source of `Experiment` has them."""
    tree = ast.parse(inspect.getsource(Experiment)).body[0]
    assert isinstance(tree, ast.ClassDef)
    rows = [row for row in tree.body if isinstance(row, ast.AnnAssign) and ast.unparse(row.annotation) != "KW_ONLY"]
    found = [(ast.unparse(row.target), ast.unparse(row.annotation), row.value) for row in rows]
    return {name: (name, kind, "" if value is None else ast.unparse(value)) for name, kind, value in found}


def test_tune_takes_the_settings_of_an_experiment_with_their_types_defaults_and_texts() -> None:
    assert written(popbandits.tune) == list(fields_written().values())
    assert kinds(popbandits.tune) == kinds(Experiment)
    assert args_of(popbandits.tune) == TEXTS


def test_a_population_takes_settings_under_the_name_of_the_record_with_their_types_defaults_and_texts() -> None:
    parameters = {name: rest for name, *rest in written(popbandits.Population.__init__)}
    texts = args_of(popbandits.Population)
    assert list(texts) == list(parameters)
    names = {setting.key: name for name, setting in SETTINGS.items()}
    assert [name for name in parameters if name not in names] == ["history"]
    for name in parameters.keys() - {"history"}:
        assert parameters[name] == list(fields_written()[names[name]][1:])
        assert texts[name] == TEXTS[names[name]]


def test_resume_takes_what_may_change_and_describes_it_in_the_same_words() -> None:
    parameters, texts = written(popbandits.resume), args_of(popbandits.resume)
    assert [name for name, *_ in parameters] == ["directory", *CHANGEABLE, "progress", "trust"] == list(texts)
    for name, kind, default in parameters[1:-2]:
        wanted = fields_written()[name][1]
        assert (kind.removesuffix(" | None"), default) == (wanted.removesuffix(" | None"), "None")
        assert re.split(r"[.:;,] | \(", texts[name])[0] == re.split(r"[.:;,] | \(", TEXTS[name])[0]
        assert "None (default) is " in texts[name]
    assert parameters[-2] == fields_written()["progress"]
    assert texts["progress"] == TEXTS["progress"]


@pytest.mark.parametrize("package", [explorers, selection])
def test_an_argument_that_methods_or_selections_share_has_one_text(package: ModuleType) -> None:
    texts: dict[tuple[str, Any], str] = {}
    for made in (getattr(package, name) for name in package.__all__):
        if not (inspect.isclass(made) and is_dataclass(made)):
            continue
        described = args_of(made)
        assert list(described) == list(inspect.signature(made).parameters)
        for field in fields(made):
            if field.default is not MISSING:
                text = texts.setdefault((field.name, field.default), described[field.name])
                assert described[field.name] == text, (made.__name__, field.name)


def kinds(public: Any) -> list[Any]:
    return [each.kind for each in inspect.signature(public).parameters.values()]


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
