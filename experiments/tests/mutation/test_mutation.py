"""Mutation testing: which changes are made, and that a trial tells a change that is noticed from one that is not."""

import ast
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from popbandits_experiments.mutation import calls
from popbandits_experiments.mutation.__main__ import interval
from popbandits_experiments.mutation.mutants import ROOT, Mutant, find_sites, make
from popbandits_experiments.mutation.operators import RemoveArgument, RemoveStatement
from popbandits_experiments.mutation.trials import Known, Limits, choose, make_copies, run

SOURCE = """
@dataclass(frozen=True)
class Box:
    size: int | None = 3

    def grow(self, by: int | None = None) -> float | None:
        if self.size > 2:
            self.tell(by, often=True)
        return [a + b for a, b in zip(self.x, self.y, strict=True)]
"""


def test_whatever_is_executed_is_changed_and_annotations_and_guards_are_not() -> None:
    kinds, words = set(), set()
    for site in find_sites("box.py", SOURCE):
        mutant = make(site, SOURCE, 0, random.Random(0))
        assert mutant is not None
        changed = mutant.applied(SOURCE)
        ast.parse(changed)
        assert all(changed.count(kept) == SOURCE.count(kept) for kept in ("int | None", "float | None", "strict=True"))
        kinds.add(mutant.kind.split("_")[0])
        words.add(SOURCE.splitlines()[mutant.line - 1].split()[0])
    assert words == {"@dataclass(frozen=True)", "size:", "if", "self.tell(by,", "return"}
    assert kinds == {
        *("AddNot", "NumberReplacer", "RemoveArgument", "RemoveDecorator", "RemoveStatement"),
        *("ReplaceBinaryOperator", "ReplaceComparisonOperator", "ReplaceTrueWithFalse"),
    }


@pytest.mark.parametrize("operator", [RemoveStatement, RemoveArgument])
def test_our_own_operators_do_what_their_examples_say(operator: Any) -> None:
    from cosmic_ray.mutating import mutate_code

    for example in operator.examples():
        assert mutate_code(example.pre_mutation_code, operator(), 0) == example.post_mutation_code
    assert mutate_code("f(x, *y, **z)\n", RemoveArgument(), 0) is None
    assert mutate_code('"""A docstring."""\nx = f(1)\n', RemoveStatement(), 0) is None


def replaced(old: str, new: str, file: str = "src/popbandits/models/bandit.py", number: int = 0) -> Mutant:
    source = (ROOT / file).read_text("utf-8")
    assert source.count(old) == 1
    start = source.index(old)
    checksum = hashlib.sha256(source.encode()).hexdigest()
    return Mutant(number, file, source.count("\n", 0, start) + 1, "ByHand", start, old, new, checksum)


def test_a_plan_for_other_sources_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"bandit.py changed since the plan was made; make a new plan"):
        replaced("fraction = both\n", "fraction = 0\n").applied("fraction = both\n")


def test_the_tests_that_call_the_changed_function_are_chosen_the_fastest_first() -> None:
    mutant = replaced("fraction = both\n", "fraction = 0\n")
    text = (ROOT / mutant.file).read_text()
    line = text[: text.index("def dependent_rounding")].count("\n") + 1
    here = [f"{mutant.file}:{line}"]
    tests = {
        "tests/models/test_rounding.py::slow": Known(2.0, here),
        "tests/models/test_rounding.py::fast": Known(1.0, here),
        "tests/models/test_rounding.py::fast[again]": Known(1.1, here),
        "tests/models/test_rounding.py::elsewhere": Known(0.1, ["src/popbandits/models/gp.py:1"]),
        "tests/models/test_rounding.py::brief": Known(0.1, here),
        "tests/models/test_rounding.py::brief[again]": Known(0.15, here),
        "tests/models/test_rounding.py::endless": Known(20.0, here),
        "tests/run/test_kills.py::far": Known(0.1, here),
    }
    outside = replaced("_TOLERANCE = 1e-9", "_TOLERANCE = 1e-8")

    def chosen(mutant: Mutant, limits: Limits) -> list[str]:
        return [name.split("::")[1] for name in choose(mutant, tests, limits)]

    assert chosen(mutant, Limits()) == ["brief", "brief[again]", "fast", "slow", "fast[again]"]
    assert chosen(mutant, Limits(together=2.5)) == ["brief", "brief[again]", "fast"]
    assert sorted(chosen(outside, Limits())) == ["brief", "brief[again]", "elsewhere", "fast", "fast[again]", "slow"]


@pytest.mark.slow  # It runs tests of a copy of the project; choosing them and counting are tested here.
def test_a_trial_tells_what_is_noticed_from_what_is_not_and_leaves_the_sources_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "tests/models/test_rounding.py::test_integers_are_left_alone[counts3]"
    mutants = [
        replaced("    counts = [floor(value + _TOLERANCE)", "    counts = [1 + floor(value)"),
        replaced("if fraction > 0.5:", "if fraction > 0.6:", number=1),
        replaced("    values = expected.tolist()", "    values = expected.tolist(", number=2),
    ]
    endless = replaced("    values = expected.tolist()", "    while True: pass", number=3)
    before = {path: path.read_text() for path in (ROOT / "src" / "popbandits" / "models").glob("*.py")}
    with make_copies(1) as copies:
        arguments: Any = ({name: Known(0.0, [])}, copies, Limits(), tmp_path / "results", float("inf"))
        run(mutants, *arguments)
        monkeypatch.setattr("popbandits_experiments.mutation.trials.HANGS", 1.0)
        run([endless], *arguments)
    lines = [json.loads(line) for line in (tmp_path / "results").read_text().splitlines()]
    outcomes = {line["id"]: (line["outcome"], line["by"]) for line in lines}
    assert outcomes == {0: ("killed", name), 1: ("survived", None), 2: ("killed", None), 3: ("timeout", None)}
    assert {path: path.read_text() for path in before} == before


def test_the_interval_holds_the_share_and_narrows_with_more() -> None:
    assert interval(90, 100) == pytest.approx((0.826, 0.945), abs=0.001)  # Wilson, from tables
    assert interval(0, 10)[0] == pytest.approx(0.0, abs=1e-12)
    assert interval(0, 0) == (0.0, 1.0)


def test_functions_that_are_called_in_a_process_of_its_own_are_noted(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "called.py").write_text("def inside():\n    pass\n\n\ndef never():\n    pass\n")
    shutil.copy(calls.__file__, tmp_path / "sitecustomize.py")
    noted = tmp_path / "noted"
    environment = os.environ | {"PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}", calls.CALLED: str(noted)}
    command = "import called, os; called.inside(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", command], env=environment)
    assert noted.read_text().split() == ["src/called.py:1", "src/called.py:1"]  # The module itself, and the function.
