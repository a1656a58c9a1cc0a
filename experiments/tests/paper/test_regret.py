"""The table and the figure say what the numbers say."""

import importlib.util
import io
import json
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from popbandits.errors import MissingExtraError
from popbandits_experiments.methods import ALL_METHODS as METHODS
from popbandits_experiments.paper import regret
from popbandits_experiments.paper.compared import COMPARED
from popbandits_experiments.paper.results import Floor, Results, Run

ROUNDS = 5


def make(seeds: int = 3, fallbacks: int = 0, sizes: tuple[int, ...] = (4, 8)) -> Results:
    """Straight lines: the k-th method's regret rises by k + seed a round, its best member's by a tenth."""
    rounds = np.arange(1, ROUNDS + 1)
    runs = [
        Run(method, size, seed, tuple(slope * rounds), tuple(slope * rounds / 10), fallbacks, 0.5)
        for k, method in enumerate(METHODS, start=1)
        for size in sizes
        for seed in range(seeds)
        for slope in [float(k + seed)]
    ]
    floors = [
        Floor(explore, start, size, tuple(level * rounds**0.1), tuple(0.01 * rounds))
        for size in sizes
        for explore, start, level in [
            ("replaced", "same", 0.6),
            ("replaced", "any", 0.65),
            ("all", "same", 0.36),
        ]
    ]
    return Results(tuple(runs), tuple(floors), {}, {})


def printed(results: Results, **options: Any) -> str:
    console = Console(file=io.StringIO(), **options)
    regret.print_table(results, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_table_has_the_mean_and_its_standard_error() -> None:
    text = printed(make())
    lines = [" ".join(line.replace("|", " ").split()) for line in text.splitlines()]
    # Slopes 2, 3, 4 over five rounds: 15 with a standard deviation of 5 over three seeds.
    error = 5 / math.sqrt(3)
    mean, best = f"15.000 ± {error:.3f}", f"1.500 ± {error / 10:.3f}"
    assert f"PBT {mean} {mean}" in lines
    assert f"PBT {best} {best}" in lines
    assert "PBT 0.50 0.50" in lines
    floor = f"{0.6 * 5**0.1:.3f}"
    assert f"Floor {floor} {floor}" in lines
    assert "Floor 0.050 0.050" in lines
    assert lines[0] == "Cumulative regret after 5 rounds, mean ± standard error of 3 seeds"
    for method in METHODS.values():
        assert text.count(f"  {method.label} ") == 3


def test_a_table_that_is_not_for_a_terminal_is_plain_and_never_cut() -> None:
    text = printed(make(sizes=tuple(range(2, 14))))
    assert set(text) - set(map(chr, range(32, 127))) == {"\n", "±"}
    assert "…" not in text
    assert all(f" {size} |" in text for size in range(2, 14))


def test_a_table_for_a_terminal_has_lines_and_bold_headings() -> None:
    text = printed(make(), force_terminal=True, width=100)
    assert "╭" in text
    assert "\x1b[1m" in text


def test_where_there_is_no_plus_minus_sign_the_table_goes_without() -> None:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    regret.print_table(make(), console)
    assert b"15.000 +- 2.887" in raw.getvalue()


def test_one_seed_has_no_error() -> None:
    text = printed(make(seeds=1))
    assert "±" not in text
    assert "nan" not in text
    assert "after 5 rounds, 1 seed" in text


def test_fallbacks_are_not_passed_over() -> None:
    assert "0.50 (6 fallbacks)" in printed(make(seeds=3, fallbacks=2))
    assert "fallback" not in printed(make())


def test_the_figure_has_a_panel_for_each_size_and_the_data_in_it() -> None:
    chart = regret.figure(make()).chart.to_dict()  # Altair checks it.
    rows = chart["datasets"]["curves"]
    assert chart["facet"]["sort"] == [4, 8]
    for size in (4, 8):
        (row,) = (row for row in rows if (row["panel"], row["method"], row["round"]) == (size, "PBT", 5))
        error = 5 / math.sqrt(3)
        assert (row["mean"], row["low"], row["high"]) == pytest.approx((15, 15 - error, 15 + error), abs=1e-4)
    ends = {row["method"]: row["mean"] for row in rows if row["round"] == 5}
    assert ends["Random search"] == 10
    assert ends["Floor"] == pytest.approx(0.6 * 5**0.1, abs=1e-5)


def test_nothing_in_the_figure_is_off_its_log_scale() -> None:
    wild = make(seeds=2)
    high = {"mean": (1e4,) * ROUNDS, "best": (1.0,) * ROUNDS}
    runs = [Run(r.method, r.size, r.seed, fallbacks=0, seconds=0.0, **high) if r.seed else r for r in wild.runs]
    rows = regret.figure(Results(tuple(runs), wild.floors, {}, {})).data["curves"]
    assert all(row["low"] > 0 for row in rows)


def colours(png: bytes) -> int:
    """How many different bytes the pixels of an image are made of."""
    data, place = b"", 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        if png[place + 4 : place + 8] == b"IDAT":
            data += png[place + 8 : place + 8 + length]
        place += 12 + length
    return len(set(zlib.decompress(data)))


def test_the_files_of_the_figure_can_be_opened_and_are_not_blank(tmp_path: Path) -> None:
    paths = regret.figure(make()).write(tmp_path / "new")
    assert [path.name for path in paths] == ["regret.png", "regret.svg", "regret.pdf", "regret.vl.json"]
    png, svg, _, spec = (path.read_bytes() for path in paths)
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">I", png[16:20])[0] > 1000
    assert colours(png) > 100
    for method, colour in regret.COLOURS.items():
        assert METHODS[method].label in svg.decode()
        assert colour.lower() in svg.decode().lower()
    assert json.loads(spec)["$schema"].startswith("https://vega.github.io/schema/vega-lite/")


def test_every_compared_method_has_a_colour_of_its_own() -> None:
    assert set(COMPARED) <= set(regret.COLOURS) <= set(METHODS)
    assert len({*regret.COLOURS.values(), regret.OTHERS}) == len(regret.COLOURS) + 1


def test_without_the_extra_there_is_a_table_and_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "altair" else find(name))
    assert "PBT" in printed(make())
    with pytest.raises(MissingExtraError, match=r"needs altair; pip install 'popbandits\[report\]'"):
        regret.figure(make())
