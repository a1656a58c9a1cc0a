"""The documentation's notebooks: Jupyter runs them, and their pages show what they promise."""

import json
import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


@pytest.fixture
def pages() -> dict[str, str]:
    """Run every notebook in Jupyter, and return their pages by name."""
    hook = runpy.run_path(str(DOCS / "notebook_pages.py"))
    return {path.stem: "\n".join(map(hook["cell_text"], hook["run"](path).cells)) for path in NOTEBOOKS}


@pytest.mark.integration
def test_the_notebooks_run_and_show_that_tuning_and_a_warm_start_help(pages: dict[str, str]) -> None:
    assert {name: (text.count("<img"), text.count("<table")) for name, text in pages.items()} == {
        "compare": (2, 0),
        "pytorch": (2, 2),
    }
    (accuracy,) = re.findall(r"accuracy ([\d.]+)%", pages["pytorch"])
    assert float(accuracy) > 90
    cold, warm = map(float, re.findall(r"first interval, ([\d.]+) at the end", pages["compare"]))
    assert warm > cold


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path: Path) -> None:
    code = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert len(code) > 3
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []
