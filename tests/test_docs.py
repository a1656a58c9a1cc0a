"""The documentation's pages: the tutorial runs from top to bottom, and every page is in the site."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import popbandits
from popbandits.cli import main
from popbandits.run import Result
from tests.processes import run_script

DOCS = Path(__file__).parents[1] / "docs"
README = DOCS.parent / "README.md"
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
    assert "optimizer" in capfd.readouterr().out
    assert Result("runs/spiral").best.score > -0.3  # The cross-entropy of a guess is 0.69.


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


def test_the_page_on_preemption_starts_a_run_and_then_resumes_it(tmp_path: Path) -> None:
    [agent], [program] = blocks("index.md", "python"), blocks("howto/preemptible.md", "python")
    (tmp_path / "train.py").write_text(agent)
    (script := tmp_path / "job.py").write_text(program)
    for _ in range(2):
        subprocess.run([sys.executable, script], cwd=tmp_path, check=True)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["first"]
    assert Result(tmp_path / "runs/first").done


def slugs(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as sites of MkDocs and of repositories name them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [README, *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    dead = []
    for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", page.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in slugs(target)):
            dead.append(link)
    assert not dead


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
