"""A run that an earlier version of `popbandits procgen` wrote still has its agent and its tables."""

import json
import shutil
from pathlib import Path

import pytest

from popbandits.cli import main
from popbandits.storage import Store
from tests.old_runs.make import FOLDER


def test_an_old_procgen_run_still_names_its_agent_and_has_its_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(FOLDER / "procgen", tmp_path / "procgen"))
    with Store.open(run, readonly=True) as store:
        task = store.about["agent"]["settings"]
    assert main(["resume", str(run)]) == 0  # Finished: it builds what its record names, without --trust, and ends.
    with Store.open(run, readonly=True) as store:
        assert store.about["agent"]["settings"] == task | {
            "levels": "uniform"
        }  # What it did before there was a choice.
    assert main(["procgen", "--table", str(tmp_path)]) == 0
    rows = json.loads((FOLDER / "procgen.json").read_text())["observations"]
    final = max((row for row in rows if row["round"] == task["rounds"] - 1), key=lambda row: row["score"])
    told = capsys.readouterr().out
    assert task["game"] in told
    assert f"{final['metrics']['test_return']:.1f}" in told
