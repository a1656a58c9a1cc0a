"""The documentation's pages: the tutorial runs from top to bottom, and every page is in the site."""

import re
import shlex
import sys
from pathlib import Path

import pytest

import popbandits
from popbandits.cli import main
from tests.processes import run_script

DOCS = Path(__file__).parents[1] / "docs"
NAV = (DOCS.parent / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of code of a page, in order."""
    found: list[str] = re.findall(
        rf"^```{language}\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    return found


def test_the_tutorial_runs_as_written_and_its_agent_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    agent, program = blocks("tutorial.md", "python")
    Path("spiral.py").write_text(agent)
    commands = "".join(blocks("tutorial.md", "sh")).splitlines()
    assert len(commands) == 4
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, (command, capfd.readouterr().err)
    assert "problem" not in capfd.readouterr().out
    Path("program.py").write_text(program)
    run_script(tmp_path / "program.py", tmp_path)
    assert float(capfd.readouterr().out.split()[0]) > -0.3  # The cross-entropy of a guess is 0.69.


def test_the_home_page_leads_to_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "train", raising=False)  # Other tests may have one too.
    [agent] = blocks("index.md", "python")
    Path("train.py").write_text(agent)
    [commands] = blocks("index.md", "sh")
    for command in commands.splitlines():
        assert main(shlex.split(command)[1:]) == 0, (command, capfd.readouterr().err)
    assert "problem" not in capfd.readouterr().out
    assert "What to do next" in Path("report.html").read_text("utf-8")
    del sys.modules["train"]


@pytest.mark.parametrize("page", ["howto/own_method.md", "migration_optuna.md"])
def test_the_snippets_of_a_page_run(page: str, tmp_path: Path) -> None:
    for number, code in enumerate(blocks(page, "python")):
        (script := tmp_path / f"snippet_{number}.py").write_text(code)
        run_script(script, tmp_path)


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    found = [*DOCS.rglob("*.md"), *(path.with_suffix(".md") for path in DOCS.rglob("*.ipynb"))]
    pages = {path.relative_to(DOCS).as_posix() for path in found}
    assert pages == set(re.findall(r"[\w/]+\.md", NAV))


def test_the_reference_has_every_public_name() -> None:
    shown = "".join(path.read_text("utf-8") for path in (DOCS / "api").glob("*.md"))
    missing = [name for name in popbandits.__all__ if name[0] != "_" and not re.search(rf"\b{name}\b", shown)]
    errors = {name for name in missing if name.endswith("Error")}  # All of that module.
    assert set(missing) - errors == set()
