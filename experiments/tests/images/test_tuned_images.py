"""Classifiers of images under `tune`: the pages' examples, and runs that are stopped and resumed."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT, History, resume, tune
from popbandits.history import Observation
from popbandits.views.view import View
from popbandits_experiments.images.augmented import AugmentedClassifiers, space
from popbandits_experiments.images.sets import Images, Task
from popbandits_experiments.images.shaped import Settings, ShapedClassifiers, with_architecture
from tests.processes import run_script

DOCS = Path(__file__).parents[3] / "docs"
SMALL = Task(training=32, validation=300)


@pytest.mark.parametrize(("page", "words"), [("augmentation.md", "degrees"), ("architectures.md", "distilled: ")])
def test_the_example_of_a_page_runs(page: str, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (script := tmp_path / "example.py").write_text(code)
    run_script(script, tmp_path)
    assert capfd.readouterr().out.count(words) >= 1


class Stop(View):
    """Ends the run after some observations."""

    def __init__(self, after: int):
        self.after = after

    def told(self, observation: Observation) -> None:
        self.after -= 1
        if self.after == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["augmented", "shaped"])
def test_a_run_that_is_stopped_goes_on_to_the_same_history(kind: str, tmp_path: Path) -> None:
    images = Images.load("digits")
    if kind == "augmented":
        agents: Any = partial(AugmentedClassifiers, images=images, task=SMALL, epochs=1)
        tuned = space()
    else:
        agents = partial(ShapedClassifiers, images=images, settings=Settings(SMALL, epochs=2, distilled=1))
        tuned = with_architecture()

    def run(name: str, progress: Any = False) -> History:
        options = {"rounds": 6, "seed": 1, "engine": "batched", "directory": tmp_path / name}
        return tune(agents, tuned, PBT(), progress=progress, **options).history

    whole = run("whole")
    if kind == "shaped":
        assert any(observation.metrics["distilled_steps"] for observation in whole)
    with pytest.raises(KeyboardInterrupt):
        run("stopped", Stop(14))
    assert list(resume(tmp_path / "stopped", agent=agents, progress=False).history) == list(whole)
