"""`help` of every public name describes every argument, with its default; that of the package shows a run."""

import inspect
import pydoc
import re
from code import InteractiveConsole
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

import popbandits
from popbandits import History
from popbandits.commands.options import read_args

NAMES = [name for name in popbandits.__all__ if not isinstance(getattr(popbandits, name), str | ModuleType)]
NO_ARGUMENTS = {"Agent", "BatchedAgents", "Explorer", "Selection", "View"}
"""Contracts and bases: whoever implements one decides on its arguments."""
UNNAMED = {("Store", "version")}
"""Defaults that change with every version of the library."""


def args_of(public: Any) -> dict[str, str]:
    return read_args(inspect.getdoc(public) or "")


def parameters(public: Any) -> dict[str, inspect.Parameter]:
    if isinstance(public, type) and issubclass(public, Exception):
        return {}
    return dict(inspect.signature(public).parameters)


def is_written(default: Any, text: str) -> bool:
    """Tell whether a text names a default; one that is made for each object needs no name."""
    if default is inspect.Parameter.empty or repr(default) == "<factory>":
        return True
    return repr(default) in text or f'"{default}"' in text


@pytest.mark.parametrize("name", NAMES)
def test_help_describes_every_argument_and_its_default(name: str) -> None:
    public = getattr(popbandits, name)
    texts = {} if name in NO_ARGUMENTS else args_of(public)
    wanted = {} if name in NO_ARGUMENTS else parameters(public)
    assert list(texts) == list(wanted), "one text for each argument, in order"
    shown = " ".join(pydoc.plain(pydoc.render_doc(public)).replace("|", " ").split())
    for argument, text in texts.items():
        default = wanted[argument].default
        assert text.strip().endswith((".", ".)")), f"{argument}: {text}"
        assert text in shown, argument
        assert (name, argument) in UNNAMED or is_written(default, text), (
            f"{argument}: the text does not name {default!r}"
        )


@pytest.mark.parametrize("name", [*sorted(NO_ARGUMENTS), "Population"])
def test_help_describes_the_arguments_of_what_a_user_implements_or_calls(name: str) -> None:
    methods = {n: m for n, m in vars(getattr(popbandits, name)).items() if inspect.isfunction(m) and n[0] != "_"}
    assert methods
    for called, method in methods.items():
        wanted = [argument for argument in inspect.signature(method).parameters if argument != "self"]
        assert list(args_of(method)) == wanted, called


def test_help_of_the_package_opens_with_a_run_that_one_can_paste(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = pydoc.plain(pydoc.render_doc(popbandits))
    lines = dedent(re.split(r"\nDESCRIPTION\n|\n {4}`help\(", page)[1]).splitlines()
    assert lines[0] == "from popbandits import log, tune"
    console = InteractiveConsole()
    needs_more = [console.push(line) for line in [*lines, ""]]
    out, errors = capsys.readouterr()
    assert not needs_more[-1]
    assert "Error" not in errors
    chosen, folder = re.match(r"member \d, round \d: (\S+)", out.splitlines()[-1]), Path(out.split()[-1])
    assert chosen is not None
    assert float(chosen[1].rstrip(",")) > -0.1
    assert History.load(folder).finished(0) == 10


def test_an_argument_without_a_text_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def tune(agent: Any, pace: int = 3) -> None:
        """Tune.

        Args:
            agent: An agent.
        """

    monkeypatch.setattr(popbandits, "tune", tune)
    with pytest.raises(AssertionError, match="one text for each argument"):
        test_help_describes_every_argument_and_its_default("tune")


def test_the_testing_package_is_there_after_importing_popbandits() -> None:
    assert popbandits.testing.check_agent.__module__ == "popbandits.testing.agents"
    assert popbandits.__getattr__("testing") is popbandits.testing  # Imported when it is first used, as all names are.
