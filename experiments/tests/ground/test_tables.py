"""Tables and figures of real training, from made-up records whose truth is known."""

import dataclasses
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits.errors import ArgumentError
from popbandits_experiments.ground import __main__, figures, headroom, tables
from popbandits_experiments.ground.headroom import Admission, Judgement, Judgements
from popbandits_experiments.ground.records import Record, Space, append
from popbandits_experiments.ground.scales import SCALES
from popbandits_experiments.ground.suite import Comparison, Shown, arrange, final, normalised, showing

Level = Callable[[int], float]
"""Normalised score of a seed."""


def runs(
    method: str,
    level: Level,
    seeds: Iterable[int] = range(8),
    task: str = "Pendulum",
    space: Space = "wide",
    rounds: int = 30,
    **changes: Any,
) -> list[Record]:
    """Runs of one method whose curves rise in a straight line to their final scores."""
    scale, found = SCALES[task], []
    for seed in seeds:
        score = scale.random + level(seed) * (scale.solved - scale.random)
        curve = tuple(float(y) for y in np.linspace(scale.random, score, 11)[1:])
        given: dict[str, Any] = {"steps": 1000, "population": 4, "final_error": 1.0, "late_choices": 10}
        given |= {"late_on_bound": 3, "late_low_lr": 1, "group": "device", "split": "confirmation"}
        given |= {"device": "two cores", "seconds": 2.0}
        found.append(Record(task, space, rounds, method=method, seed=seed, final=score, curve=curve, **given | changes))
    return found


def spread(offset: float = 0.0) -> Level:
    return lambda seed: 0.3 + 0.05 * seed + offset


def cells(table: str) -> dict[str, dict[str, str]]:
    """Read a table in Markdown: cells by row and column."""
    head, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines())
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def only(records: list[Record]) -> Comparison:
    (part,) = arrange(records)
    return part


def test_a_method_that_always_wins_by_a_little_is_marked_and_the_loser_too() -> None:
    records = runs("pbt", spread()) + runs("pb2-mix", spread(0.01)) + runs("random", spread(-0.01))
    table = cells(tables.methods_table(only(records), normalised, tables.on_common_scale))
    assert list(table) == ["Random search", "PBT", "PB2-Mix"]
    assert table["PB2-Mix"]["better than PBT"] == "**1.00 [0.63, 1.00]** (8)"
    assert table["Random search"]["better than PBT"] == "*0.00 [0.00, 0.37]* (8)"
    assert table["PBT"]["better than PBT"] == "–"
    # The middle four of 0.30, 0.35, ... 0.65, and the mean of all.
    assert table["PBT"]["IQM [95%]"].startswith("0.47 [") or table["PBT"]["IQM [95%]"].startswith("0.48 [")
    assert table["PBT"]["runs"] == "8"


def test_a_lead_within_noise_is_not_marked() -> None:
    records = runs("pbt", spread()) + runs("pb2-fuse", lambda seed: spread(0.1 if seed < 6 else -0.01)(seed))
    cell = cells(tables.methods_table(only(records), final, tables.in_own_units))["PB2-Fuse"]["better than PBT"]
    assert cell.startswith("0.75 [")


def test_scores_of_one_task_are_in_its_own_units() -> None:
    table = cells(tables.methods_table(only(runs("pbt", lambda seed: 0.5)), final, tables.in_own_units))
    assert table["PBT"]["IQM [95%]"] == "-712 [-712, -712]"
    assert table["PBT"]["mean"] == "-712"


def test_only_common_seeds_are_compared() -> None:
    # On seeds 4 to 7 the method loses, but PBT has the seeds 0 to 3 and 90 only.
    ours = runs("pb2-mix", lambda seed: spread(0.1 if seed < 4 else -9)(seed))
    records = ours + runs("pbt", spread(), seeds=[0, 1, 2, 3, 90])
    table = cells(tables.methods_table(only(records), normalised, tables.on_common_scale))
    assert table["PB2-Mix"]["better than PBT"] == "1.00 [0.40, 1.00] (4)"
    assert table["PB2-Mix"]["better than random search"] == "–"
    apart = runs("pb2-mix", spread(), seeds=[5, 6]) + runs("pbt", spread(), seeds=[7, 8])
    table = cells(tables.methods_table(only(apart), normalised, tables.on_common_scale))
    assert table["PB2-Mix"]["better than PBT"] == "–"


def test_a_method_that_lacks_a_task_says_so() -> None:
    records = [record for task in ("Pendulum", "Acrobot") for record in runs("pbt", spread(), task=task)]
    records += runs("random", spread(), seeds=range(5))
    table = cells(tables.methods_table(only(records), normalised, tables.on_common_scale))
    assert (table["PBT"]["tasks"], table["PBT"]["runs"]) == ("2 of 2", "16")
    assert (table["Random search"]["tasks"], table["Random search"]["runs"]) == ("1 of 2", "5")
    assert table["Random search"]["better than PBT"] == "0.50 [0.50, 0.50] (5)"


def test_runs_below_the_take_off_score_never_took_off() -> None:
    # The threshold is 0.2 of the way: seeds 0 and 1 of 8 are below.
    records = runs("pbt", lambda seed: 0.1 + 0.06 * seed)
    table = cells(tables.methods_table(only(records), normalised, tables.on_common_scale))
    assert table["PBT"]["never took off"] == "25%"
    assert SCALES["Pendulum"].take_off == -1020


def test_late_shares_are_of_the_choices_made() -> None:
    records = runs("pbt", spread(), seeds=[0], late_choices=30, late_on_bound=30, late_low_lr=0)
    records += runs("pbt", spread(), seeds=[1], late_choices=10, late_on_bound=0, late_low_lr=10)
    records += runs("defaults", spread(), late_choices=0, late_on_bound=0, late_low_lr=0)
    table = cells(tables.methods_table(only(records), normalised, tables.on_common_scale))
    assert (table["PBT"]["late on a bound"], table["PBT"]["late low lr"]) == ("75%", "25%")
    assert table["Defaults, no tuning"]["late on a bound"] == "–"


def test_where_a_method_is_ahead_and_behind_is_said_by_task() -> None:
    records = []
    for task, offset in {"Pendulum": 0.1, "Acrobot": -0.1, "CartPole": 0.0}.items():
        records += runs("pbt", spread(), task=task) + runs("pb2-mix", spread(offset), task=task)
    row = cells(tables.verdicts_table(only(records)))["PB2-Mix"]
    assert (row["ahead of PBT on"], row["behind PBT on"]) == ("Pendulum", "Acrobot")
    assert row["ahead of random search on"] == "–"


def at_lengths(levels: dict[int, float], **changes: Any) -> list[Record]:
    return [
        record
        for rounds, level in levels.items()
        for record in runs("pbt", lambda seed, level=level: level, rounds=rounds, **changes)  # type: ignore[misc]
    ]


def test_the_best_interval_is_chosen_on_development_seeds() -> None:
    shown = arrange(at_lengths({100: 0.2, 30: 0.5, 10: 0.8}))
    before = arrange(at_lengths({100: 0.1, 30: 0.9, 10: 0.3}, split="development", seeds=range(100, 108)))
    row = cells(tables.intervals_table(shown, before, normalised, tables.on_common_scale))["PBT"]
    assert [row[f"{rounds} rounds"] for rounds in (100, 30, 10)] == ["0.20", "0.50", "0.80"]
    assert row["average [95%]"] == "0.50 [0.50, 0.50]"
    assert (row["best [95%]"], row["rounds of the best"]) == ("0.50 [0.50, 0.50]", "30")


@pytest.mark.parametrize("developed", [(), (30, 10)])
def test_a_best_interval_chosen_on_the_seeds_that_are_shown_is_starred(developed: tuple[int, ...]) -> None:
    shown = arrange(at_lengths({100: 0.2, 30: 0.5, 10: 0.8}))
    before = arrange(at_lengths(dict.fromkeys(developed, 0.9), split="development"))
    text = tables.intervals_table(shown, before, normalised, tables.on_common_scale)
    table, note = text.split("\n\n")
    row = cells(table)["PBT"]
    assert (row["best [95%]"], row["rounds of the best"]) == ("0.80 [0.80, 0.80]", r"10 \*")
    assert "Chosen on the very seeds that are shown" in note


def test_intervals_are_averaged_over_what_every_length_has() -> None:
    records = runs("pbt", spread(), seeds=range(8), rounds=30) + runs("pbt", spread(0.2), seeds=range(4, 10), rounds=10)
    records += runs("pbt", spread(), task="Acrobot", rounds=10) + runs("random", spread(), rounds=30)
    table = cells(tables.intervals_table(arrange(records), [], normalised, tables.on_common_scale).split("\n\n")[0])
    assert list(table) == ["PBT"]
    assert (table["PBT"]["tasks"], table["PBT"]["runs at each length"]) == ("1", "4")
    # Seeds 4 to 7 at both lengths: 0.575 and 0.775.
    assert table["PBT"]["average [95%]"].startswith(("0.67 [", "0.68 ["))


def test_seeds_stay_together_when_intervals_are_averaged() -> None:
    # What one length gains with a seed the other loses: the average is the same for every seed, and surely known.
    records = runs("pbt", spread(), rounds=30) + runs("pbt", lambda seed: 1 - spread()(seed), rounds=10)
    table = cells(tables.intervals_table(arrange(records), [], normalised, tables.on_common_scale).split("\n\n")[0])
    assert table["PBT"]["average [95%]"] == "0.50 [0.50, 0.50]"


def test_comparisons_keep_spaces_groups_members_and_rounds_apart() -> None:
    records = runs("pbt", spread(), space="narrow") + runs("pbt", spread(), rounds=100) + runs("pbt", spread())
    records += (
        runs("pbt", spread(), task="Hopper", group="envpool") + runs("zeta", spread()) + runs("defaults", spread())
    )
    records += runs("pbt", spread(), population=8)
    parts = arrange(records)
    assert [(part.space, part.group, part.members, part.rounds) for part in parts] == [
        ("wide", "device", 4, 100),
        ("wide", "device", 4, 30),
        ("wide", "device", 8, 30),
        ("wide", "envpool", 4, 30),
        ("narrow", "device", 4, 30),
    ]
    assert parts[1].methods == ["defaults", "pbt", "zeta"]
    assert sum(len(part.records) for part in parts) == len(records)


def test_populations_of_other_sizes_have_tables_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same seeds the method wins with four members and loses with eight."""
    records = []
    for members, offset in ((4, 0.1), (8, -0.1)):
        for task in ("Pendulum", "Acrobot"):
            records += runs("pbt", spread(), task=task, population=members)
            records += runs("pb2-mix", spread(offset), task=task, population=members)
    append(records, tmp_path)
    assert __main__.main(["table", "--results", str(tmp_path), "--all-tasks"]) == 0
    text = capsys.readouterr().out.split("\n\n")
    for heading in (
        "### Pendulum, wide space, ",
        "### Wide spaces, tasks on the device: 2 tasks with or without headroom, ",
    ):
        for members, won in ((4, "**1.00"), (8, "*0.00")):
            table = cells(text[text.index(f"{heading}{members} members, 30 rounds, final scores") + 1])
            assert table["PB2-Mix"]["better than PBT"].startswith(won)
    costs = text[text.index("## Tasks and costs") + 1]
    assert [line.split(" | ")[3] for line in costs.splitlines()[2:]] == ["4", "4", "8", "8"]
    assert not any("several interval lengths" in part for part in text)
    pairs = ["pairs", "pb2-mix", "pbt", "--results", str(tmp_path)]
    for given, sizes in (([], ["4", "8"]), (["--members", "8"], ["8"])):
        assert __main__.main([*pairs, *given]) == 0
        assert re.findall("device, (.) members, 30 rounds, final scores: PB2-Mix", capsys.readouterr().out) == sizes
    assert __main__.main([*pairs, "--members", "16"]) == 1
    assert "--members must be stored, got 16; stored: 4, 8" in capsys.readouterr().err
    parts = figures.chosen(records)
    assert [part.members for part in parts] == [4, 8]
    drawn = figures.improvements(parts)
    assert drawn is not None
    assert [drawn.data[f"pbt{index}"][0]["value"] for index in (0, 1)] == [1, 0]


JUDGED: Judgements = {
    ("Pendulum", "wide"): Judgement("headroom", "-200 after tuning, -400 with the usual settings"),
    ("CartPole", "wide"): Judgement("saturated", "500 after tuning, 500 with the usual settings"),
    ("Acrobot", "wide"): Judgement("unlearnable", "training reaches -500, no training -498"),
}


def on_four_tasks() -> list[Record]:
    """Runs of a method that loses on one task and wins on three, of which one is not studied."""
    records = []
    for task, offset in {"Pendulum": -0.1, "CartPole": 0.1, "Acrobot": 0.1, "Breakout": 0.1}.items():
        records += runs("pbt", spread(), task=task) + runs("pb2-mix", spread(offset), task=task)
    return records


def test_only_tasks_with_headroom_enter_a_mean_and_the_others_are_listed_with_the_reason() -> None:
    text = list(tables.page(on_four_tasks(), Admission(JUDGED)))
    over = text[text.index("## Over tasks") + 1 : text.index("## Tasks and costs")]
    assert over[0].splitlines()[2:] == [
        "- Acrobot, wide space: unlearnable, training reaches -500, no training -498",
        "- Breakout, wide space: unknown, not studied",
        "- CartPole, wide space: saturated, 500 after tuning, 500 with the usual settings",
    ]
    assert over[1] == "### Wide spaces, tasks on the device: 1 task with headroom, 4 members, 30 rounds, final scores"
    assert cells(over[2])["PB2-Mix"]["better than PBT"].startswith("*0.00 ")
    assert len(over) == 3
    tasks = [part[4:].partition(",")[0] for part in text if part.startswith("### ") and "space, " in part]
    assert tasks == ["Acrobot", "Breakout", "CartPole", "Pendulum"]


def test_the_mean_is_shown_without_each_single_task() -> None:
    table = cells(tables.without_table(only(on_four_tasks()), "pbt"))
    assert list(table) == ["PB2-Mix"]
    row = {column: cell.strip("*")[:4] for column, cell in table["PB2-Mix"].items()}
    assert row == {"all tasks": "0.75", "without Pendulum": "1.00"} | {
        f"without {task}": "0.67" for task in ("Acrobot", "Breakout", "CartPole")
    }
    assert tables.without_table(only(runs("pbt", spread()) + runs("random", spread())), "pbt") == ""


def test_pairs_have_a_row_for_every_task_and_a_mean_over_those_with_headroom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = dict(JUDGED) | {("Breakout", "wide"): Judgement("headroom", "5 after tuning, 3 with the usual settings")}
    monkeypatch.setattr(headroom, "judge", lambda folder: judged)
    append(on_four_tasks(), tmp_path)
    assert __main__.main(["pairs", "pb2-mix", "pbt", "--results", str(tmp_path)]) == 0
    left, _, text = capsys.readouterr().out.partition("\nWide spaces")
    assert len(left.strip().splitlines()) == 4
    table = cells(text.partition("\n\n")[2].strip())
    assert list(table) == ["Acrobot", "Breakout", "CartPole", "Pendulum", "mean over 2 tasks with headroom"]
    assert table["mean over 2 tasks with headroom"]["better"].startswith("0.50 ")
    without = {task: row["mean without this task"][:4] for task, row in table.items()}
    assert (without["Pendulum"], without["Breakout"], without["Acrobot"]) == ("1.00", "0.00", "–")


def test_the_best_interval_is_chosen_on_tasks_with_headroom_too() -> None:
    """On the other task the development runs speak for the other length."""
    records, development = [], []
    for task, best in (("Pendulum", 30), ("CartPole", 10)):
        records += at_lengths({30: 0.5, 10: 0.5}, task=task)
        levels = {rounds: 0.9 if rounds == best else 0.1 if task == "Pendulum" else -9.0 for rounds in (30, 10)}
        development += at_lengths(levels, task=task, split="development", seeds=range(100, 108))
    for all_tasks, rounds in ((False, "30"), (True, "10")):
        text = list(tables.page(records, Admission(JUDGED, all_tasks), development))
        (table,) = [part.partition("\n\n")[2] for part in text if part.startswith("### ") and "lengths" in part]
        assert cells(table)["PBT"]["rounds of the best"] == rounds


EVERYWHERE = ("Acrobot", "Breakout", "CartPole", "Pendulum")


def judge_these(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headroom, "judge", lambda folder: JUDGED)


@pytest.mark.parametrize("all_tasks", [False, True])
def test_every_mean_is_over_tasks_with_headroom_or_says_that_it_is_not(
    all_tasks: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The method loses on the one task with headroom and wins on the three others: each mean shows who entered."""
    judge_these(monkeypatch)
    append(on_four_tasks(), tmp_path / "real")
    given = ["--results", str(tmp_path / "real"), *(["--all-tasks"] if all_tasks else [])]
    share = "0.75" if all_tasks else "0.00"

    assert __main__.main(["table", *given]) == 0
    text = capsys.readouterr().out
    over = text[text.index("## Over tasks") : text.index("## Tasks and costs")]
    assert (
        cells(over[over.index("| method | ") :].partition("\n\n")[0])["PB2-Mix"]["better than PBT"].strip("*")[:4]
        == share
    )
    assert set(re.findall("without ([A-Z][a-z]+[A-Za-z]*) ", over)) == (set(EVERYWHERE) if all_tasks else set())
    printed = [over]

    assert __main__.main(["pairs", "pb2-mix", "pbt", *given]) == 0
    printed.append(capsys.readouterr().out)
    (mean,) = [line for line in printed[-1].splitlines() if line.startswith("| mean over")]
    assert mean.split(" | ")[2][:4] == share

    drawn: list[tuple[str, Any]] = []
    monkeypatch.setattr(figures.Figure, "write", lambda figure, *_: drawn.append((figure.caption, figure.data)) or [])
    assert __main__.main(["figures", *given, "--out", str(tmp_path)]) == 0
    printed.append(capsys.readouterr().out)
    assert len(drawn) == 3
    (dot,) = drawn[-1][1]["pbt0"]
    assert f"{dot['value']:.2f}" == share
    assert all(
        caption.endswith(f"Tasks {'with or without' if all_tasks else 'with'} headroom.") for caption, _ in drawn
    )

    for words in printed:
        assert ("In means too, as --all-tasks asks, though no headroom is known" in words) == all_tasks
        assert ("In no mean (`headroom table`)" in words) != all_tasks
        assert len(re.findall("^- .*, wide space: (?:saturated|unlearnable|unknown), ", words, re.MULTILINE)) == 3


def double(method: str, offset: float, task: str = "Pendulum") -> list[Record]:
    """Runs whose kept checkpoint is as much better than PBT's as their final one is worse."""
    kept, last = (runs(method, spread(sign * offset), task=task) for sign in (1, -1))
    return [dataclasses.replace(a, kept=b.final, kept_error=3.0) for a, b in zip(last, kept, strict=True)]


def test_the_checkpoint_that_is_handed_over_is_scored_where_every_run_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = double("pbt", 0.0) + double("pb2-mix", 0.1)
    records += double("pb2-mix", 0.1, "Acrobot") + runs("pbt", spread(), task="Acrobot")
    append(records, tmp_path)

    def shown(*given: str) -> tuple[str, str, str, str]:
        """Return who is ahead on Pendulum, Acrobot and both, and the error on Pendulum."""
        assert __main__.main(["table", "--results", str(tmp_path), "--all-tasks", *given]) == 0
        text = capsys.readouterr().out.split("\n\n")
        found = []
        for start in ("### Pendulum", "### Acrobot", "### Wide"):
            (place,) = [i for i, part in enumerate(text) if part.startswith(start)]
            better = cells(text[place + 1])["PB2-Mix"]["better than PBT"]
            found.append(f"{text[place].rpartition(', ')[2]}: {better[:6]}")
        return found[0], found[1], found[2], cells(text[-1])["Pendulum"]["a score's own error"]

    last = "final scores: *0.00 "
    assert shown() == ("kept scores: **1.00", last, last, "3")
    assert shown("--score", "final") == (last, last, last, "1")
    assert __main__.main(["table", "--results", str(tmp_path), "--score", "kept"]) == 1
    message = (
        "--score kept must be stored with every run, got 8 of 32 without it, such as pbt on Acrobot, wide space, seed 0"
    )
    assert message in capsys.readouterr().err
    given = ["pairs", "pb2-mix", "pbt", "--results", str(tmp_path), "--tasks", "Pendulum"]
    for more, heading, better in (
        ([], "kept scores", "1.00"),
        (["--score", "kept"], "kept scores", "1.00"),
        (["--score", "final"], "final scores", "0.00"),
        (["--best-ever"], "best scores ever", "0.00"),
    ):
        assert __main__.main([*given, *more]) == 0
        out = capsys.readouterr().out
        assert f"30 rounds, {heading}: PB2-Mix beside PBT" in out
        assert f"| Pendulum | 8 | {better} |" in out
    assert __main__.main([*given, "--best-ever", "--score", "kept"]) == 1
    assert "--best-ever is a score of its own, got --score kept beside it" in capsys.readouterr().err


@pytest.mark.parametrize(("lacking", "score"), [(10, "final"), (None, "kept")])
def test_a_table_of_several_lengths_has_one_score(lacking: int | None, score: Shown) -> None:
    records = at_lengths({30: 0.5, 10: 0.8}, kept=-1225.0, kept_error=1.0)
    records = [dataclasses.replace(one, kept=None) if one.rounds == lacking else one for one in records]
    text = [part for part in tables.page(records, Admission({})) if "several interval lengths" in part]
    assert len(text) == 1
    assert text[0].startswith(f"Pendulum, wide space, 4 members, {score} scores, the same budget at several")
    assert cells(text[0].split("\n\n")[1])["PBT"]["30 rounds"] == ("-1,225" if score == "kept" else "-712")
    assert {part.score for part in showing(arrange(records))} == {score}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A folder of results: two groups, two spaces, several lengths, a method with few seeds."""
    folder, records = tmp_path / "real", []
    for space in ("wide", "narrow"):
        for task, group in (("Pendulum", "device"), ("Acrobot", "device"), ("Hopper", "envpool")):
            for rounds in (30, 10) if group == "device" else (30,):
                for offset, method in enumerate(("random", "pbt", "pb2-fuse")):
                    level, seeds = spread(0.1 * offset), range(8 - offset)
                    records += runs(method, level, seeds, task, space, rounds, group=group)  # type: ignore[arg-type]
    records += runs("pbt", spread(), seeds=range(50, 54), split="development")
    append(records, folder)
    return folder


def test_the_docs_page_is_written_between_its_markers(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Above\n{tables.BEGIN}\nwhat was here before\n{tables.END}\nbelow\n")
    for _ in range(2):  # The second time over what the first has written.
        assert __main__.main(["table", "--results", str(stored), "--all-tasks", "--markdown", str(page)]) == 0
    text = page.read_text()
    assert text.startswith(f"# Above\n{tables.BEGIN}\n")
    assert text.endswith(f"\n{tables.END}\nbelow\n")
    assert "what was here before" not in text
    assert capsys.readouterr().out == ""
    __main__.main(["table", "--results", str(stored), "--all-tasks"])
    assert capsys.readouterr().out.strip() in text
    headings = re.findall(r"^##+ .*", text, re.MULTILINE)
    over = headings.index("## Over tasks")
    assert headings[:2] == ["## Task by task", "### Acrobot, wide space, 4 members, 30 rounds, final scores"]
    assert "### Hopper, narrow space, 4 members, 30 rounds, final scores" in headings[:over]
    assert headings[over + 1 : over + 4] == [
        "### Wide spaces, tasks on the device: 2 tasks with or without headroom, 4 members, 30 rounds, final scores",
        "### Wide spaces, tasks on the device: 2 tasks with or without headroom, 4 members, 10 rounds, final scores",
        "### Wide spaces, tasks through EnvPool: 1 task with or without headroom, 4 members, 30 rounds, final scores",
    ]
    assert "| Pendulum | wide | 30 / 10 | 4 | 1,000 | -1225 | -200 | -1020 | 8 (0 to 7) | 1 | 2 | two cores |" in text


def test_a_page_without_markers_stays_as_it_is(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{tables.END}\n{tables.BEGIN}\n")
    assert __main__.main(["table", "--results", str(stored), "--markdown", str(page)]) == 1
    assert re.search("must have one line '<!-- begin: .* and after it one '<!-- end -->'", capsys.readouterr().err)
    assert page.read_text() == f"{tables.END}\n{tables.BEGIN}\n"


def test_the_docs_page_has_its_markers() -> None:
    text = (Path(__file__).parents[3] / "docs" / "real_training.md").read_text("utf-8")
    assert text.count(tables.BEGIN) == 1
    assert tables.END in text.partition(tables.BEGIN)[2]


def test_only_what_is_asked_for_is_shown(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["table", "--results", str(stored), "--tasks", "Pendulum", "--methods", "pbt", "--spaces", "wide"]
    assert __main__.main([*given, "--rounds", "30", "--split", "development"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("4 population-runs, 8.0 s of training and deciding.")
    assert "4 (50 to 53)" in text
    assert not re.search("Acrobot|Random|narrow|10 rounds", text)
    assert __main__.main([*given, "--rounds", "30", "--split", "development", "--seeds", "51-53"]) == 0
    assert capsys.readouterr().out.startswith("2 population-runs")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["--tasks", "Chess"], "--tasks must be stored, got Chess; stored: Acrobot, Hopper, Pendulum"),
        (["--rounds", "7"], "--rounds must be stored, got 7; stored: 10, 30"),
        (
            ["--tasks", "Hopper", "--split", "development"],
            "no stored run .* --split development; stored: 4 development runs, 210 confirmation runs",
        ),
    ],
)
def test_asking_for_what_is_not_there_says_what_is(
    stored: Path, capsys: pytest.CaptureFixture[str], given: list[str], problem: str
) -> None:
    assert __main__.main(["table", "--results", str(stored), *given]) == 1
    assert re.search(problem, capsys.readouterr().err)


def test_a_task_without_a_scale_is_refused() -> None:
    unknown = [dataclasses.replace(record, task="Chess") for record in runs("pbt", spread())]
    with pytest.raises(ArgumentError, match=r"random and its solved score, got task 'Chess'; .*scales\.py"):
        "".join(tables.page(unknown, Admission({})))


FIGURES = ["figures", "--kinds", "svg", "--all-tasks"]


def test_figures_are_drawn_with_every_space_and_baseline(stored: Path, tmp_path: Path) -> None:
    assert __main__.main([*FIGURES, "--results", str(stored), "--out", str(tmp_path / "out")]) == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"real-profiles.svg", "real-budget.svg", "real-improvement.svg"}
    drawn = (tmp_path / "out" / "real-improvement.svg").read_text("utf-8")
    for words in (
        "Over PBT",
        "Over random search",
        "PB2-Fuse",
        "Narrow spaces, tasks through EnvPool: 1 task, 4 members, 30 rounds, final scores",
        "Tasks with or without headroom.",
    ):
        assert words in drawn


def test_figures_say_what_the_statistics_say() -> None:
    records = runs("pbt", lambda seed: 0.5) + runs("pb2-mix", lambda seed: 1.0)
    parts = figures.chosen(records + runs("pbt", spread(), seeds=range(3), rounds=10))
    assert [part.rounds for part in parts] == [30]
    ends = {row["method"]: row["y"] for row in figures.budgets(parts).data["panel0"] if row["x"] == 1}
    assert ends == {"PBT": 0.5, "PB2-Mix": 1}
    above = [row for row in figures.profiles(parts).data["panel0"] if 0.5 < row["x"] < 1]
    assert {(row["method"], row["y"]) for row in above} == {("PBT", 0.0), ("PB2-Mix", 1.0)}
    drawn = figures.improvements(parts)
    assert drawn is not None
    (dot,) = drawn.data["pbt0"]
    assert (dot["method"], dot["value"], dot["filled"]) == ("PB2-Mix", 1, True)


def test_nothing_is_compared_where_no_seed_is_shared() -> None:
    parts = figures.chosen(runs("pbt", spread(), seeds=[0, 1]) + runs("pb2-mix", spread(), seeds=[2, 3]))
    assert figures.improvements(parts) is None


def test_methods_without_a_colour_of_their_own_get_different_ones() -> None:
    methods = ["pbt", "random", "new-a", "new-b", "defaults"]
    assert len(set(figures.colours(methods))) == len(methods)
    assert figures.colours(["pbt"]) == figures.colours(methods)[:1]
