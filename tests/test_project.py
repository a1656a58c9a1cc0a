"""What is said of the project in several places is the same everywhere."""

import re
import tomllib
from pathlib import Path

import pytest

import popbandits

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PYTHONS = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", name)]


def found(pattern: str, path: str) -> list[str]:
    return re.findall(pattern, (ROOT / path).read_text("utf-8"), re.MULTILINE)


def test_who_cites_us_names_this_version() -> None:
    assert found(r"^version: (.+)$", "CITATION.cff") == [popbandits.__version__]


def test_before_a_commit_the_same_ruff_looks_as_in_the_tests() -> None:
    assert found(r"ruff-pre-commit\n +rev: v(\S+)", ".pre-commit-config.yaml") == found(
        r"^ruff==(.+)$", "constraints.txt"
    )


def test_every_python_that_is_promised_is_tested() -> None:
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    (matrix,) = found(r"^ +python: \[(.+)\]$", ".github/workflows/tests.yml")
    assert re.findall(r"[\d.]+", matrix) == PYTHONS
    assert found(r"Tested are (.+)\.$", "docs/versions.md") == [f"{', '.join(PYTHONS[:-1])} and {PYTHONS[-1]}"]


@pytest.mark.parametrize("workflow", ["tests", "docs", "publish"])
def test_a_workflow_calls_targets_that_exist(workflow: str) -> None:
    called = found(r"run: make ([a-z-]+)", f".github/workflows/{workflow}.yml")
    targets = [*found(r"^([a-z-]+):.*## ", "Makefile"), "docs"]  # `make docs` comes with the site.
    assert called
    assert set(called) <= set(targets)


def test_the_core_tests_are_there() -> None:
    paths = (ROOT / "tools" / "core_tests.txt").read_text("utf-8").split()
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", sorted(path.name for path in ROOT.glob("*.md")))
def test_links_between_files_lead_somewhere(page: str) -> None:
    links = found(r"\]\((?!https?:|#)([^)#\s]+)", page)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_docs_install_an_extra_by_name_only_after_popbandits_itself() -> None:
    home = (ROOT / "docs/index.md").read_text()
    assert home.index("pip install -e .") < home.index("pip install 'popbandits[")
    plain = re.compile(r"^[^`]*pip install popbandits\b", re.MULTILINE)  # As a command: there is no such package yet.
    assert [page.name for page in (ROOT / "docs").rglob("*.md") if plain.search(page.read_text())] == []
