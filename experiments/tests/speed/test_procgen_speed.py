import json
from pathlib import Path

import pytest

from experiments.tests.paper.procgen.narrow import narrow
from popbandits_experiments.paper.procgen.agent import threads_a_member
from popbandits_experiments.speed import procgen_speed


@pytest.mark.slow  # Its parts are tested by themselves; measuring them takes seconds.
def test_the_benchmark_prints_every_part_and_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    narrow(monkeypatch.setattr)
    out = tmp_path / "speed.json"
    tiny = "--device cpu --game bossfight --sizes 2 8 1 2 --rollouts 1 --repeats 1 --members 2 --rounds 1"
    procgen_speed.main([*tiny.split(), "--out", str(out)])
    printed = capsys.readouterr().out
    for part in ("acting", "stepping", "update", "augmentation", "evaluation", "idle", "env steps/s"):
        assert part in printed
    figures = json.loads(out.read_text())
    (population,) = figures["populations"]
    assert population["members"] == 2
    assert population["threads"] == threads_a_member(2, "cpu")
    assert sum(population["shares"].values()) == pytest.approx(1)
    assert f"2 pools, {threads_a_member(2, 'cpu')} threads each" in figures["stepping alone"]
    assert min(figures["stepping alone"].values()) > 0
    assert all(part["milliseconds"] > 0 for part in figures["parts"] if "augmentation" not in part["name"])


def test_the_floor_counts_what_the_trunk_writes() -> None:
    numbers = 64 * 64 * 16 + 5 * 32 * 32 * 16 + 32 * 32 * 32 + 5 * 16 * 16 * 32 + 16 * 16 * 32 + 5 * 8 * 8 * 32
    assert procgen_speed.activation_bytes(10, 2) == 10 * 2 * numbers
