"""Whatever is wrong with a record, the tables say so in a line."""

import shutil
from pathlib import Path

import pytest

from popbandits.cli import main
from tests.old_runs.make import FOLDER
from tests.storage.damages import DAMAGES, ODD


@pytest.mark.parametrize("name", [*DAMAGES, *ODD])
def test_a_damaged_record_is_no_traceback(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    shutil.copytree(FOLDER / "procgen", run)
    (DAMAGES | ODD)[name](run)
    status = main(["procgen", "--table", str(run)])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    assert not {"\x1b", "\x07", "\u202e"} & set(out + err)
    assert status == 0 or (status == 1 and "popbandits: " in err)
