"""The synthetic experiment from the command line, and what its commands refuse."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import popbandits
from popbandits.cli import main
from popbandits.errors import PopbanditsError
from popbandits_experiments.paper.results import Results, Run
from popbandits_experiments.paper.synthetic import Synthetic

RESULTS = Results(
    tuple(Run("pbt", 4, seed, (0.5, 0.75), (0.1, 0.1), fallbacks=0, seconds=0.25) for seed in range(2)),
    (),
    {},
    {},
)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m popbandits` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "popbandits", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )


def test_the_synthetic_experiment_runs_from_the_command_line(tmp_path: Path) -> None:
    options = ["--seeds", "2", "--rounds", "3", "--sizes", "2", "--workers", "1"]
    done = command("synthetic", *options, "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "Cumulative regret after 3 rounds, mean ± standard error of 2 seeds" in done.stdout
    assert "PB2-Fuse, all explore" in done.stdout
    assert "Floor" in done.stdout
    assert "\x1b" not in done.stdout
    names = ["results.json", "regret.png", "regret.svg", "regret.pdf", "regret.vl.json"]
    assert done.stdout.endswith("\n".join(["Written:", *(f"  {tmp_path / 'out' / name}" for name in names)]) + "\n")
    assert all((tmp_path / "out" / name).stat().st_size for name in names)
    content = json.loads((tmp_path / "out" / "results.json").read_text())
    assert content["arguments"]["seeds"] == 2
    assert content["made"]["versions"]["popbandits"] == popbandits.__version__


@pytest.mark.parametrize("name", ["synthetic", "procgen"])
def test_the_commands_come_by_entry_points(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: popbandits {name} [-h]")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("synthetic --seeds many", "argument --seeds: invalid int value: 'many'"),
        ("synthetic --seeds 0", "seeds must be at least 1, got 0"),
        ("synthetic --rounds -3", "rounds must be at least 1, got -3"),
        ("synthetic --sizes 1", "sizes must be at least 2, got 1"),
        ("synthetic --sizes", "argument --sizes: expected at least one argument"),
        ("synthetic --sizes 4 4", "sizes must be one or more, without repeats, got 4 4"),
        (
            "synthetic --methods pb3",
            "methods: unknown name 'pb3'; choose from random, pbt, near-pbt, pb2-rand,",
        ),
        ("synthetic --workers 0", "workers must be at least 1, got 0; leave it out to use every core"),
        ("synthetic --seed 3", "unrecognized arguments: --seed 3"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(line.split())
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "See: popbandits synthetic --help" in err or "See: popbandits --help" in err


def test_a_folder_that_cannot_be_written_to_is_found_out_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["synthetic", "-o", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err == (
        f"popbandits: cannot write to the folder {tmp_path / 'file'}: it is a file; give another with -o\n"
    )


def test_an_error_of_ours_is_a_line_and_not_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PopbanditsError("it rained")

    monkeypatch.setattr(Synthetic, "run", fail)
    assert main(["synthetic", "-o", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.endswith("popbandits: it rained\n")
    assert "Traceback" not in said


def test_ctrl_c_stops_with_status_130(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Synthetic, "run", interrupt)
    assert main(["synthetic", "-o", str(tmp_path)]) == 130
    assert capsys.readouterr().err.endswith("popbandits: stopped\n")
    assert list(tmp_path.iterdir()) == []


def test_without_the_report_extra_there_are_numbers_and_a_table_and_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "vl_convert" else find(name))
    monkeypatch.setattr(Synthetic, "run", lambda *_: RESULTS)
    assert main(["synthetic", "-o", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert "There will be no figure" in err
    assert "pip install 'popbandits[report]'" in err
    assert "0.750 ± 0.000" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.json"]


@pytest.mark.parametrize("command", ["procgen --quick"])
def test_without_torch_a_command_that_needs_it_says_what_to_install(command: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('it is not installed', name='torch')")
    script = f"import sys; from popbandits.cli import main; sys.exit(main({command.split()}))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    needed = "popbandits: popbandits.rl needs torch; pip install 'popbandits[rl]'\n"
    assert (run.returncode, run.stderr) == (1, needed)
