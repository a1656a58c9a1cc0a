"""The command line: its help, its errors, and commands of other distributions. Runs: test_commands.py."""

import argparse
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import popbandits
from popbandits.cli import main
from popbandits.commands import COMMANDS, plugins
from popbandits.errors import PopbanditsError


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a wrong command line says, having checked that its exit status is 2."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_help_is_instant_because_it_imports_nothing_slow() -> None:
    script = (
        "import sys; from popbandits.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    source = str(Path(popbandits.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert "usage: popbandits COMMAND" in done.stdout
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert loaded & {"numpy", "scipy", "ConfigSpace", "rich", "altair", "sqlite3", "torch"} == set()


def test_the_help_page_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    page = capsys.readouterr().out
    assert COMMANDS
    for name, define in COMMANDS.items():
        assert f"  {name:<11} {(define.__doc__ or '').splitlines()[0]}" in page
    assert max(map(len, page.splitlines())) <= 100


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_page_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: popbandits {name} [-h]")


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"popbandits {popbandits.__version__}\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "popbandits: the following arguments are required: COMMAND"),
        ("synthesis", "COMMAND must be one of demo, run, "),
        ("resum", "got 'resum'; did you mean 'resume'?"),
        ("status runs --seed=3", "popbandits status: unrecognized arguments: --seed=3\nSee: popbandits status --help"),
        ("run train.py --populaton 8", "unrecognized arguments: --populaton 8; did you mean '--population'?"),
        ("run", "the following arguments are required: FILE[:NAME]"),
        ("run missing.py", "'missing.py' cannot be imported: there is no file missing.py; give a module, or the path"),
        ("run no_such_module:experiment", "'no_such_module' cannot be imported: No module named 'no_such_module'"),
        ("run json:loads", "json:loads must be an Experiment, got <function loads"),
        ("run json", "'json' has no 'experiment'; give the name of something in it"),
        ("run train.py --rounds some", "argument --rounds: invalid int value: 'some'"),
        ("status", "the following arguments are required: RUN"),
        ("export runs/x", "one of the arguments --csv --json --parquet is required"),
        ("export runs/x --csv --json", "argument --json: not allowed with argument --csv"),
        ("replay runs/x --seed 1 --seeds 2", "argument --seeds: not allowed with argument --seed"),
        ("replay runs/x --seeds 0", "--seeds must be at least 1, got 0"),
        ("replay runs/x --seeds 2 --save there", "--save saves one agent, and --seeds trains several; give --seed"),
        ("check json:loads", "an agent is checked on a space, got none; give one, such as --space json:space"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = failure(capsys, *line.split())
    assert message in said
    assert "See: popbandits" in said


def fails(error: BaseException) -> plugins.Definition:
    """Define a command that raises an error."""

    def define(parser: argparse.ArgumentParser) -> Any:
        def run(arguments: argparse.Namespace) -> None:
            raise error

        return run

    return define


def test_an_error_of_ours_is_a_line_and_not_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "rain", fails(PopbanditsError("it rained")))
    assert main(["rain"]) == 1
    assert capsys.readouterr() == ("", "popbandits: it rained\n")


def test_ctrl_c_stops_with_status_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "rain", fails(KeyboardInterrupt()))
    assert main(["rain"]) == 130
    assert capsys.readouterr().err == "popbandits: stopped\n"


def greet(parser: argparse.ArgumentParser) -> Any:
    """Greet someone."""
    parser.add_argument("name")
    return lambda arguments: print(f"hello {arguments.name}")


def undefined(parser: argparse.ArgumentParser) -> Any:
    parser.add_argument("--twice")
    parser.add_argument("--twice")


def installed(monkeypatch: pytest.MonkeyPatch, **commands: str) -> None:
    """Let these entry points be all that other distributions have."""
    points = [EntryPoint(name, value, plugins.GROUP) for name, value in commands.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point for point in points if point.group == group])


def test_a_command_of_another_distribution_comes_after_ours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, greet=f"{__name__}:greet", status=f"{__name__}:greet")
    assert main(["greet", "Ada"]) == 0
    assert capsys.readouterr().out == "hello Ada\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    page = capsys.readouterr().out
    assert page.index("  check  ") < page.index("  greet       Greet someone.\n")
    assert "  status      Show the state of runs" in page, "ours is not replaced"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module:command", "ModuleNotFoundError: No module named 'no_such_module'"),
        (f"{__name__}:gone", "AttributeError: module"),
        (f"{__name__}:undefined", "ArgumentError: argument --twice: conflicting option string"),
    ],
)
def test_a_broken_command_of_another_distribution_says_why_and_breaks_no_other(
    value: str, reason: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, broken=value, greet=f"{__name__}:greet")
    assert main(["broken", "--twice", "1"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"popbandits: the command broken of {value} cannot be loaded: {reason}")
    assert main(["greet", "Ada"]) == 0


@pytest.mark.parametrize("name", plugins.EXPERIMENTS)
def test_without_the_experiments_their_commands_say_how_to_get_them(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch)
    assert main([name, "--help"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"popbandits: {name} is a command of the experiments, which are not installed; in a checkout")
    assert err.endswith("pip install -e . -e ./experiments\n")


def test_a_command_of_ours_does_not_wait_for_those_of_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: pytest.fail("they were looked for"))
    assert main(["status", str(tmp_path)]) == 1


def test_without_torch_the_demo_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('it is not installed', name='torch')")
    script = "import sys; from popbandits.cli import main; sys.exit(main(['demo']))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    needed = "popbandits: popbandits.rl needs torch; pip install 'popbandits[rl]'\n"
    assert (run.returncode, run.stderr) == (1, needed)
