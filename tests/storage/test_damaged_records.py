"""Whatever is wrong with a run's folder, every reader says which file it is and what is wrong with it, on one line."""

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from popbandits import PBT, History, HistoryError, PopbanditsError, cli, tune
from popbandits.cli import main
from popbandits.reports.live.member import member
from popbandits.reports.live.news import News
from popbandits.reports.run import Run
from popbandits.reports.several import comparison_page
from popbandits.reports.single import report_page
from tests.climber import Climber
from tests.reports.served import served
from tests.storage.damages import DAMAGES, ODD

SECONDS = 200.0
"""After which a reader hangs."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing is wrong with, and that has a round to go."""
    directory = tmp_path_factory.mktemp("sound") / "run"
    tune(
        Climber,
        {"step": (0.0, 1.0), "way": ["up", "down"]},
        PBT(),
        population=4,
        rounds=5,
        directory=directory,
        progress=False,
    )
    assert any(observation.failed for observation in History.load(directory))
    return directory


@pytest.fixture(scope="module", autouse=True)
def one_parser() -> Iterator[None]:
    """Build the parser of commands once, not a thousand times."""
    parser = cli.parser()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "parser", lambda definitions: parser)
        yield


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """Fail where a reader would wait for ever."""

    def fail(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def followed(run: Path) -> None:
    """The live page of a run, until it is told everything."""
    news, version = News(run), None
    while (message := news.since(version)) is not None:
        if "wrong" in message:
            raise HistoryError(message["wrong"])
        version = message["version"]


READERS: dict[str, Callable[[Path], object]] = {
    "load": History.load,
    "report": Run.read,
    "follow": followed,
    "member": lambda run: member(run, 0),
}
COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "status": lambda run: ["status", str(run)],
    "export --csv": lambda run: ["export", str(run), "--csv", "-o", str(run.parent / "table.csv")],
    "export --parquet": lambda run: ["export", str(run), "--parquet", "-o", str(run.parent / "table.parquet")],
    "replay": lambda run: ["replay", str(run)],
    "resume": lambda run: ["resume", str(run), "--rounds", "6"],
}


def complaints(run: Path, capsys: pytest.CaptureFixture[str], but: str = "") -> dict[str, str]:
    """What each reader, but one, has to say against a run; each names a file of it, and says so on one line."""
    found = {}
    for name, read in READERS.items():
        try:
            read(run)
        except PopbanditsError as error:
            found[name] = str(error)
    for name, words in ((name, words) for name, words in COMMANDS.items() if name != but):
        capsys.readouterr()
        status = main(words(run))
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err, name
        assert not {"\x1b", "\x07", "\u202e"} & set(out + err), name
        if status:
            assert status == 1, name
            [found[name]] = [line for line in err.splitlines() if line.startswith("popbandits: ")] or [err]
    for name, text in found.items():
        assert "\n" not in text.strip(), f"{name}: {text}"
        assert str(run) in text, f"{name}: {text}"
    return found


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_wrong_with_a_record_is_said_by_its_name(
    name: str, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    DAMAGES[name](run)
    assert complaints(run, capsys), "nobody noticed"


@pytest.mark.parametrize("name", ODD)
def test_what_is_unusual_in_a_record_is_read(
    name: str, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    ODD[name](run)
    # Who runs it needs its lock and its size, no journal, and computes with its scores; who reads it does not.
    but = "resume" if "scores" in name else ""
    needed = {"resume"} if {"lock", "size", "journal"} & set(name.split()) else set()
    assert complaints(run, capsys, but).keys() <= needed
    read = Run.read(run)
    if {"scores", "metrics", "seconds"} & set(name.split()):
        assert report_page(read, lambda: "")[0]
    if "scores" in name:
        assert comparison_page([read, read], lambda: "")[0]


def test_a_bad_run_hides_no_other(sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = {f"{number:03}": damage for number, damage in enumerate([*DAMAGES.values(), *ODD.values()])}
    for name, damage in every.items():
        shutil.copytree(sound, tmp_path / "runs" / name, ignore=shutil.ignore_patterns("checkpoints"))
        damage(tmp_path / "runs" / name)
    shutil.copytree(sound, tmp_path / "runs" / "good")
    assert main(["status", str(tmp_path / "runs")]) == 1
    assert [line for line in capsys.readouterr().out.splitlines() if "/runs/good " in line]
    with served(tmp_path / "runs") as server:
        rows = {row[0]: row[1] for row in server.get("/api/runs").json()["rows"]}
        assert rows["good"] == "finished"
        assert sum(state == "unreadable" for state in rows.values()) > 60
        for name in [*every, "good"]:
            shown = server.get("/api/member", {"run": name, "member": "0"})
            assert shown.status in ((200,) if name == "good" else (200, 404, 422)), shown.text
            assert "Traceback" not in shown.text
