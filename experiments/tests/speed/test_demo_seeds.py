import json
from pathlib import Path
from typing import Any

import pytest

from popbandits_experiments.speed import demo_seeds


def test_the_table_of_stored_runs_is_printed_without_playing_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def play(jobs: Any, *_: Any) -> None:
        assert not jobs

    row = {"run": "tuned", "seed": 3, "rounds": demo_seeds.ROUNDS, "return": 123.4, "machine": "riscv64"}
    stored = tmp_path / "demo.jsonl"
    stored.write_text(json.dumps(row))
    monkeypatch.setattr(demo_seeds, "STORED", stored)
    monkeypatch.setattr(demo_seeds, "in_processes", play)
    demo_seeds.main(["--table"])
    printed = capsys.readouterr().out
    assert "Mean return, riscv64" in printed
    assert "123" in printed
