"""Who may say what code runs: the caller, and this account's own records; never a folder that was received."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import popbandits
from popbandits import PBT, ArgumentError, Explorer, HistoryError, RunError, explorers, resume, tune
from popbandits.cli import main
from popbandits.history import History
from popbandits.run.recipes import prepare, recipe
from popbandits.run.replay import replay
from popbandits.storage import Store
from tests.engines.agents import Walker, space

ROOT = str(Path(__file__).parents[2])
SHOUT = "open({marker!r}, 'a').write(__name__)\n"


def played(directory: Path, **settings: Any) -> Path:
    """A finished run of an agent of ours."""
    given = {"method": PBT(), "population": 2, "rounds": 2} | settings
    tune(Walker, space(), directory=directory, progress=False, **given)
    return directory


def rewritten(directory: Path, **about: Any) -> Path:
    """The run with another record, as a sender could have written it."""
    with Store.open(directory) as store:
        store.describe(**about)
    return directory


def program(marker: Path, kind: str = "make") -> dict[str, Any]:
    """A recipe that runs a program which leaves a mark."""
    settings = {"args": [sys.executable, "-c", f"open({str(marker)!r}, 'w')"]}
    return {kind: "subprocess:run", "settings": settings, "root": str(marker.parent)}


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that exists only if something ran."""
    return tmp_path / "it-ran"


@pytest.mark.parametrize("kind", ["make", "import", "partial"])
@pytest.mark.parametrize("what", ["agent", "method"])
def test_a_record_that_names_a_program_is_refused_by_its_name(
    what: str, kind: str, tmp_path: Path, marker: Path
) -> None:
    run = rewritten(played(tmp_path / "run"), **{what: program(marker, kind)})
    path = list(sys.path)
    with pytest.raises(RunError, match=rf"names subprocess:run .*as its {what}"):
        resume(run, rounds=3, progress=False, **({} if what == "agent" else {"agent": Walker}))
    if what == "agent":
        with pytest.raises(RunError, match=r"names subprocess:run .*as its agent"):
            replay(run)
    assert not marker.exists()
    assert sys.path == path


def test_an_agent_that_is_given_keeps_the_record_s_from_being_touched(tmp_path: Path, marker: Path) -> None:
    run = rewritten(played(tmp_path / "run"), agent=program(marker))
    assert len(resume(run, agent=Walker, rounds=3, progress=False).history) == 6
    assert len(replay(run, Walker).scores) == 3
    assert not marker.exists()


def test_a_method_that_is_given_keeps_the_record_s_from_being_touched(tmp_path: Path, marker: Path) -> None:
    run = rewritten(played(tmp_path / "run"), method=program(marker))
    assert len(resume(run, method=PBT(), rounds=3, progress=False).history) == 6
    assert not marker.exists()


def test_what_is_trusted_runs(tmp_path: Path, marker: Path) -> None:
    run = rewritten(played(tmp_path / "run"), method=program(marker))
    with pytest.raises(ArgumentError, match="method must be an explorer"):
        resume(run, rounds=3, progress=False, trust=True)
    assert marker.exists()


def test_runs_that_this_account_started_need_no_word_and_those_of_another_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = played(tmp_path / "run")
    assert len(resume(run, rounds=3, progress=False).history) == 6
    assert len(replay(run).scores) == 3
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another account"))
    with pytest.raises(RunError, match=r"tests\.engines\.agents:Walker .*popbandits resume \S+run --trust"):
        resume(run, rounds=4, progress=False)
    with pytest.raises(RunError, match=r"tests\.engines\.agents:Walker .*popbandits replay \S+run --trust"):
        replay(run)
    assert len(replay(run, trust=True).scores) == 3
    assert len(resume(run, rounds=4, progress=False, trust=True).history) == 8
    assert len(resume(run, rounds=5, progress=False).history) == 10, "who resumes a run has started it"


def test_without_a_home_to_keep_a_key_in_a_run_still_works_and_asks_for_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    run = played(tmp_path / "run")
    with pytest.raises(RunError, match="--trust"):
        resume(run, rounds=3, progress=False)
    assert resume(run, rounds=3, progress=False, trust=True).done


@pytest.mark.parametrize(
    "change",
    [
        {"import": "tests.engines.agents:Faulty"},
        {"settings": {"rate": 1.0}},
        {"root": "/elsewhere"},
        {"signed": "00" * 32},
        {"signed": None},
        {"signed": ["", 1]},
    ],
)
def test_a_signature_covers_every_part_of_a_recipe(change: dict[str, Any], tmp_path: Path) -> None:
    run = played(tmp_path / "run")
    with Store.open(run) as store:
        store.describe(agent=store.about["agent"] | change)
    with pytest.raises((RunError, HistoryError), match=r"as its agent|agent must be a recipe"):
        resume(run, rounds=3, progress=False)


@pytest.mark.parametrize("there", ["", "state", "state/popbandits"])
def test_the_key_is_for_this_account_s_eyes(there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    played(tmp_path / "run")
    [key] = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_bytes().hex() not in (tmp_path / "run" / "run.sqlite").read_bytes().hex()


def test_a_signed_recipe_is_not_looked_for_in_the_working_folder(
    tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, received = tmp_path / "project", tmp_path / "received"
    for folder in (project, received):
        folder.mkdir()
    train = (
        "from popbandits import Experiment, PBT\nfrom tests.engines.agents import Walker, space\n"
        "class Mine(Walker): ...\nexperiment = Experiment(Mine, space(), PBT(), 2, 2)\n"
    )
    (project / "training_of_mine.py").write_text(train)
    monkeypatch.chdir(project)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(popbandits.__file__).parents[1]), ROOT])}

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "popbandits", *arguments]
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)

    first = command("run", "training_of_mine.py", "-o", str(received / "run"))
    assert first.returncode == 0, first.stderr
    (received / "training_of_mine.py").write_text(SHOUT.format(marker=str(marker)))
    monkeypatch.chdir(received)
    again = command("resume", "run", "--rounds", "3")
    assert again.returncode == 0, again.stderr
    assert not marker.exists()


@pytest.mark.parametrize(
    "name", [n for n in explorers.__all__ if n not in ("Explorer", "Proposal", "as_explorer", "default_explorer")]
)
def test_every_explorer_of_ours_is_built_from_a_record_without_a_signature(name: str) -> None:
    made = getattr(explorers, name)()
    assert isinstance(made, Explorer)
    given = recipe(made)
    assert given is not None
    assert "signed" not in given
    assert prepare(given, "method") == made


@pytest.mark.parametrize(
    "broken",
    [
        3,
        "subprocess:run",
        [],
        {},
        {"make": 3},
        {"make": "popbandits.explorers.pbt:PBT"},
        {"make": "popbandits.explorers.pbt:PBT", "settings": [], "root": ""},
        {"make": "popbandits.explorers.pbt:PBT", "settings": {"nothing": 1}, "root": ""},
        {"make": "popbandits.explorers.pbt:PBT", "settings": {"factors": "x"}, "root": ""},
        {"make": "popbandits.explorers.pbt:PBT", "import": "os:system", "settings": {}, "root": ""},
        {"import": "popbandits.explorers.pbt:PBT", "settings": {}, "root": ""},
        {"name": 3, "settings": {}},
        {"name": "pbt"},
        {"name": "no-such-method", "settings": {}},
        {"name": "truncation", "settings": {}},
        {"name": "pbt", "settings": {"nothing": 1}},
        {"name": "pbt", "make": "subprocess:run", "settings": {}, "root": ""},
    ],
    ids=repr,
)
def test_a_recipe_that_is_none_is_an_error_that_names_the_run(broken: Any, tmp_path: Path) -> None:
    run = rewritten(played(tmp_path / "run"), method=broken)
    with pytest.raises((RunError, HistoryError), match=r"run\b.*method"):
        resume(run, rounds=3, progress=False)


def test_control_characters_of_a_record_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "\x1b]0;owned\x07:\x1b[2J\u202e"
    run = rewritten(played(tmp_path / "run"), agent={"make": name, "settings": {}, "root": ""})
    capsys.readouterr()
    assert main(["resume", str(run)]) == 1
    said = capsys.readouterr().err
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert f"popbandits resume {run} --trust" in said


def test_reports_import_nothing_from_the_folder_they_are_started_in(
    tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = played(tmp_path / "received")
    for name in ("vl_convert", "altair", "numpy", "rich", "starlette", "argparse", "pyarrow"):
        (received / f"{name}.py").write_text(SHOUT.format(marker=str(marker)))
    monkeypatch.chdir(received)
    environment = {**os.environ, "PYTHONPATH": str(Path(popbandits.__file__).parents[1])}
    words = [sys.executable, "-m", "popbandits", "report", "."]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    assert not marker.exists(), f"it imported {marker.read_text()}"
    assert done.returncode == 0, done.stderr


def test_a_history_is_read_without_building_anything_of_the_record(tmp_path: Path, marker: Path) -> None:
    run = rewritten(played(tmp_path / "run"), agent=program(marker), method=program(marker))
    assert len(History.load(run)) == 4
    for arguments in (["status", str(run)], ["export", str(run), "--json", "-o", str(tmp_path / "t.json")]):
        assert main(arguments) == 0
    assert json.loads((tmp_path / "t.json").read_text())
    assert not marker.exists()
