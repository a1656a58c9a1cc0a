"""A resume trains with today's code on the recorded space: it says so when that code was edited since."""

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from popbandits import PopbanditsWarning, Result, Store, resume, tune
from popbandits.run.recipes import load

HELPER = "GAIN = 1.0\n"
AGENT = """
from popbandits import Experiment
from popbandits_edited_helper import GAIN

class Agent:
    def __init__(self, seed):
        self.x = 0.0

    def train(self, config):
        self.x += GAIN * config["step"]
        return self.x

    def save(self, directory):
        (directory / "x").write_text(str(self.x))

    def load(self, directory):
        self.x = float((directory / "x").read_text())

space = {"step": (0.0, 1.0), "way": ["up", "down"]}
experiment = Experiment(Agent, {"step": (0.0, 1.0)}, population=2, rounds=2)
"""


class Project:
    """A user's folder with an agent, a module that it imports, and a run."""

    def __init__(self, folder: Path):
        self.agent, self.helper = folder / "popbandits_edited.py", folder / "popbandits_edited_helper.py"
        self.run = folder / "run"
        self.agent.write_text(AGENT)
        self.helper.write_text(HELPER)

    def forget(self) -> None:
        """Let the files be imported anew, as in another process."""
        for file in (self.agent, self.helper):
            sys.modules.pop(file.stem, None)

    def start(self, space: str = "space") -> None:
        tuned = load(f"{self.agent}:{space}")
        tune(load(f"{self.agent}:Agent"), tuned, population=2, rounds=2, directory=self.run, progress=False)

    def edit(self, file: Path, old: str, new: str) -> None:
        text = file.read_text()
        assert old in text
        # Python takes a file of the same second and size for the one it compiled, and edits may follow within a second.
        later = file.stat().st_mtime + 10
        file.write_text(text.replace(old, new))
        os.utime(file, (later, later))
        self.forget()

    def resume(self, rounds: int) -> tuple[Result, list[str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = resume(self.run, rounds=rounds, progress=False)
        assert all(one.category is PopbanditsWarning for one in caught)
        return result, [str(one.message) for one in caught]

    def events(self) -> list[str]:
        with Store.open(self.run, readonly=True) as store:
            return [event.text for event in store.events() if event.kind == "edited"]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    path = list(sys.path)
    made = Project(tmp_path)
    yield made
    made.forget()
    sys.path[:] = path


def test_a_resume_with_an_edited_agent_says_that_todays_code_trains_on_the_recorded_settings(project: Project) -> None:
    project.start()
    project.edit(project.agent, 'GAIN * config["step"]', 'GAIN * config["step"] + 100.0')
    result, said = project.resume(3)
    assert said == project.events()
    assert said == [
        "popbandits_edited.py has changed since the run was last started: from here on it trains with today's code, on "
        "the recorded space and with the recorded settings; for others, start a new run"
    ]
    assert result.best.score > 100
    assert project.resume(4)[1] == []  # Once for every change.


def test_a_module_that_the_agent_imports_counts_as_its_code(project: Project) -> None:
    project.start()
    project.edit(project.helper, "1.0", "2.00")
    (said,) = project.resume(3)[1]
    assert said.startswith("popbandits_edited_helper.py has changed since the run was last started")


def test_comments_and_blank_lines_are_no_change(project: Project) -> None:
    project.start()
    project.edit(project.agent, "class Agent:", "# A comment.\n\n\nclass Agent:")
    assert project.resume(3)[1] == project.events() == []


@pytest.mark.parametrize(
    ("name", "old", "new", "named"),
    [
        ("space", '"way": ["up", "down"]', '"rate": (1, 5)', []),
        (
            "experiment.space",
            '{"step": (0.0, 1.0)}',
            '{"step": (0.5, 1.0), "rate": (1, 5)}',
            ["step is float [0.5, 1.0] (recorded: float [0.0, 1.0]); rate is integer [1, 5] (recorded: absent)"],
        ),
    ],
)
def test_a_space_that_is_edited_in_the_file_is_not_used_and_the_resume_says_so(
    name: str, old: str, new: str, named: list[str], project: Project
) -> None:
    project.start(name)
    with Store.open(project.run, readonly=True) as store:
        recorded = store.space.to_json()
    project.edit(project.agent, old, new)
    said, *more = project.resume(3)[1]
    assert "on the recorded space and with the recorded settings; for others, start a new run" in said
    assert more == [f"the space of experiment was edited, and the recorded one is kept: {each}" for each in named]
    with Store.open(project.run, readonly=True) as store:
        assert store.space.to_json() == recorded
    assert project.resume(4)[1] == []  # Once for every change.


def test_every_edit_of_a_space_is_named_once_after_resumes_too(project: Project) -> None:
    project.start("experiment.space")
    steps = ["(0.0, 1.0)}, population", "(0.5, 1.0)}, population", "(0.7, 1.0)}, population", "(0.0, 1.0)}, population"]
    said = [project.resume(3)[1]]
    for rounds, (old, new) in enumerate(pairwise(steps), 4):
        project.edit(project.agent, old, new)
        said.append(project.resume(rounds)[1][1:])
    kept = "the space of experiment was edited, and the recorded one is kept: step is float [{}, 1.0] (recorded: {})"
    named = [[kept.format(low, "float [0.0, 1.0]")] for low in (0.5, 0.7)]
    assert said == [[], *named, []]  # The last edit leads back to what is on record.


def test_digests_of_an_earlier_version_are_compared_by_their_names(project: Project) -> None:
    """It recorded imported modules in other folders too, and the name of the space."""
    project.start()
    with Store.open(project.run) as store:
        elsewhere = store.about["source"] | {"elsewhere/helper.py": "0"}
        store.describe(source=elsewhere, space_name="space")
    assert project.resume(3)[1] == []


def test_a_module_in_another_folder_has_no_digest(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (project.run.parent / "below", project.run.parent / "another" / project.run.parent.name):
        folder.mkdir(parents=True)
        module = ModuleType(f"popbandits_edited_{folder.parent.name}")
        module.__file__ = str(folder / f"{module.__name__}.py")
        Path(module.__file__).touch()
        monkeypatch.setitem(sys.modules, module.__name__, module)
    project.start()
    with Store.open(project.run, readonly=True) as store:
        assert sorted(store.about["source"]) == ["popbandits_edited.py", "popbandits_edited_helper.py"]


def test_a_record_without_digests_is_resumed_without_a_word(project: Project) -> None:
    project.start()
    with Store.open(project.run) as store:
        store.connection.execute("DELETE FROM run WHERE name IN ('source', 'versions')")
    project.edit(project.agent, "GAIN *", "2 * GAIN *")
    project.edit(project.agent, "(0.0, 1.0)", "(0.0, 3.0)")
    assert project.resume(3)[1] == []


def test_a_resume_names_the_libraries_that_have_changed_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("popbandits_simulator", "popbandits_simulator.inner", "_popbandits_private", "popbandits_imported_later")
    simulator, *others = [ModuleType(name) for name in names]
    for module in (simulator, *others[:-1]):
        module.__version__ = "1.2.5"  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    project.start()
    assert project.resume(3)[1] == []
    for module in (simulator, *others):
        module.__version__ = "1.2.7"  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    said = project.resume(4)[1]
    assert said == project.events()
    assert said == [
        "a seed may give other numbers than before, since libraries have changed: "
        "popbandits_simulator was 1.2.5 and is 1.2.7"
    ]
    assert project.resume(5)[1] == []
    with Store.open(project.run, readonly=True) as store:
        versions = store.about["versions"]
    assert {"python", "numpy", "popbandits", "popbandits_simulator", "popbandits_imported_later"} <= versions.keys()
    assert not versions.keys() & {*names[1:3], "json", "__main__"}


def test_the_command_line_shows_it_as_a_warning_in_words(project: Project) -> None:
    project.start()
    project.edit(project.agent, "GAIN *", "2 * GAIN *")
    command = [sys.executable, "-m", "popbandits", "resume", str(project.run), "--rounds", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.startswith("Warning: popbandits_edited.py has changed since the run was last started")
