"""The paper's tables from made-up runs, worked by hand."""

import io
import re
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from ConfigSpace import Float
from rich.console import Console

from popbandits.cli import main
from popbandits.errors import HistoryError
from popbandits.history import Observation
from popbandits.reports.run import Run
from popbandits.reports.tables import group_runs
from popbandits.space import Space
from popbandits.storage import Store
from popbandits.storage.folders import run_folders
from popbandits_experiments import RESULTS
from popbandits_experiments.paper.procgen import published
from popbandits_experiments.paper.procgen.methods import LABELS, TUNED
from popbandits_experiments.paper.procgen.tables import AGENT, comparable, print_tables, score_tables, trials
from popbandits_experiments.speed import procgen_curves

SETTINGS = {
    "algorithm": "drac",
    "interval": 500_000,
    "environments": 64,
    "steps": 256,
    "epochs": 3,
    "minibatches": 8,
    "episodes": 100,
    "precision": "float32",
}


def made_up(
    folder: Path, game: str, method: str, seed: int, test: float, train: float = 0.0, *, rounds: int = 2, **more: Any
) -> None:
    """A finished run whose best member had these returns, and whose other members had others."""
    tuned = method in TUNED
    values = {"lr": 0.5} if tuned else {"lr": 5e-4, **more.pop("own", {})}
    size, rate = more.pop("size", 2 if tuned else 1), more.pop("rate", (0.1, 1.0))
    start = {"start": [{"config": {"lr": 0.5}, "decision": {}}]} if more.pop("started", False) else {}
    settings = SETTINGS | {"game": game, "algorithm": "drac" if tuned else method} | more
    explorer = TUNED[method].explorer if tuned else "popbandits.explorers:RandomSearch"
    about = {
        "size": size,
        "rounds": rounds,
        "seed": seed,
        "mode": "max",
        "agent": {"make": AGENT, "settings": settings},
        "method": {"make": explorer, "settings": {}},
        **start,
    }
    directory = folder / game / method / str(seed)
    directory.mkdir(parents=True)
    observations = []
    for round_, member in ((r, m) for r in range(rounds) for m in range(size)):
        # The best score of all is in the first round: what counts is the last.
        score = 99.0 if round_ == 0 else float(size - member)
        metrics = {"train_return": train + member, "test_return": test + 10 * member} if round_ else {}
        parent = (member, round_ - 1) if round_ else None
        observations.append(Observation(member, round_, values, parent, score_before=0.0, score=score, metrics=metrics))
    with Store.create(directory, Space({"lr": rate} if tuned else values), about) as store:
        store.write(observations=observations)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for seed, (rand, mix, ppo) in enumerate([(7.0, 9.0, 4.0), (8.0, 10.0, 5.0), (9.0, 11.0, 9.0)]):
        made_up(tmp_path, "bigfish", "pb2-rand", seed, rand, train=20.0)
        made_up(tmp_path, "bigfish", "pb2-mix", seed, mix, train=10.0 + seed)
        made_up(tmp_path, "bigfish", "ppo", seed, ppo)
    for seed, (rand, mix) in enumerate([(1.0, 2.0), (2.0, 2.5), (3.0, 3.0)]):
        made_up(tmp_path, "leaper", "pb2-rand", seed, rand)
        made_up(tmp_path, "leaper", "pb2-mix", seed, mix)
    return tmp_path


def printed(folder: Path) -> list[list[str]]:
    """The cells of what is printed, of each row of the tables."""
    out = io.StringIO()
    print_tables(trials([folder]), Console(file=out))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.getvalue().splitlines() if line[:1] == "|"]


def test_the_tables_are_as_worked_out_by_hand(runs: Path) -> None:
    rows = printed(runs)
    second = rows.index(rows[0], 1)
    assert rows[2:second] == [
        ["bigfish", "PPO", "1 × 1M, 3 runs", "6.0 ± 2.6", "0.32", "4.0 ± 1.2"],
        ["bigfish", "PB2-Rand", "2 × 1M, 3 runs", "8.0 ± 1.0", "", "8.2 ± 0.1"],
        # t = 2 / sqrt(1/3 + 1/3) = 2.449 with 4 degrees of freedom: p = 0.0705; bold: 10 - 1 > 8.
        ["bigfish", "PB2-Mix", "2 × 1M, 3 runs", "**10.0 ± 1.0**", "0.07", "10.6 ± 1.9"],
        # 2.5 - 0.5 = 2: within one deviation of the best. t = 0.5 / sqrt(1/3 + 1/12) = 0.775, 2.94 degrees: p = 0.50.
        ["leaper", "PB2-Rand", "2 × 1M, 3 runs", "**2.0 ± 1.0**", "", "5.0 ± 2.4"],
        ["leaper", "PB2-Mix", "2 × 1M, 3 runs", "**2.5 ± 0.5**", "0.5", "6.6 ± 1.9"],
        # Six shares each: 87.5, 100, 112.5, 50, 100, 150; and 112.5, 125, 137.5, 100, 125, 150.
        ["in % of PB2-Rand", "PB2-Rand", "2 × 1M, 6 runs", "100.0 ± 32.6", "", "100.0 ± 23.8"],
        ["in % of PB2-Rand", "PB2-Mix", "2 × 1M, 6 runs", "**125.0 ± 17.7**", "0.14", "112.1 ± 20.4"],
    ]
    train = {(row[0], row[1]): row[3:] for row in rows[second + 2 :]}
    assert train["bigfish", "PB2-Rand"] == ["**20.0 ± 0.0**", "", "20.8 ± 1.8"]
    assert train["bigfish", "PB2-Mix"] == ["11.0 ± 1.0", "0.0041", "17.1 ± 2.9"]


def test_a_star_marks_what_is_better_with_p_below_five_percent(tmp_path: Path) -> None:
    for seed in range(3):
        made_up(tmp_path, "bigfish", "pb2-rand", seed, 1.0 + seed / 10)
        made_up(tmp_path, "bigfish", "pb2-mix", seed, 2.0 + seed / 10)
        made_up(tmp_path, "bigfish", "pbt", seed, 0.0 + seed / 10)
    cells = {row[1]: row[3] for row in printed(tmp_path)[2:5]}
    assert cells == {"PBT": "0.1 ± 0.1", "PB2-Rand": "1.1 ± 0.1", "PB2-Mix": "**2.1 ± 0.1** ★"}


def test_the_member_is_chosen_by_its_last_score_not_by_its_test(runs: Path) -> None:
    (one,) = trials([runs / "leaper/pb2-mix/0"])
    assert one.final is not None
    assert one.final.key == (0, 1)  # Member 1 has the higher returns, and the lower score.
    assert one.result("test") == 2.0


def test_runs_of_different_budgets_are_not_compared(runs: Path) -> None:
    made_up(runs / "long", "bigfish", "pb2-mix", 0, 20.0, rounds=4)
    made_up(runs / "large", "bigfish", "pb2-mix", 0, 30.0, size=3)
    made_up(runs / "coarse", "bigfish", "pb2-mix", 0, 40.0, precision="bfloat16")
    groups = list(comparable(trials([runs])))
    sizes = [(one[0].steps, max(t.population for t in one), one[0].settings["precision"], len(one)) for one in groups]
    assert sizes == [
        (2_000_000, 2, "float32", 1),
        (1_000_000, 2, "float32", 15),
        (1_000_000, 3, "float32", 4),  # The three of PPO stand beside populations of any size.
        (1_000_000, 2, "bfloat16", 1),
    ]
    assert score_tables(groups[2])["test"].rows["bigfish"]["PB2-Mix"].values == (30.0,)


def test_runs_tuned_otherwise_stand_apart_each_beside_the_single_agents(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logarithmic = Float("lr", (0.1, 1.0), log=True)
    made_up(runs / "log", "bigfish", "pb2-mix", 0, 20.0, rate=logarithmic)
    made_up(runs / "started", "bigfish", "pb2-mix", 0, 30.0, started=True)
    made_up(runs / "both", "bigfish", "pb2-mix", 0, 40.0, rate=logarithmic, started=True)
    for seed in range(2):
        made_up(runs, "bigfish", "patient-pbt", seed, 7.0 + seed)
    assert main(["procgen", "--table", str(runs)]) == 0
    parts = capsys.readouterr().out.split("Test returns: ")[1:]
    assert [re.findall(r"float32, (.*)", part.splitlines()[0]) for part in parts] == [
        [],
        ["learning rate on a log scale"],
        ["learning rate on a log scale, started from the published settings"],
        ["started from the published settings"],
    ]
    rows = [re.findall(r"\| bigfish +\| (.*?) +\| .*?, (\d).*? \| +(\S+)", part) for part in parts]
    assert [len(one) for one in rows] == [8, 4, 4, 4]  # Of the tests, then of the training levels.
    assert rows[0][:4] == [
        ("PPO", "3", "6.0"),
        ("PB2-Rand", "3", "8.0"),
        ("PB2-Mix", "3", "**10.0"),
        ("Patient PBT", "2", "*7.5"),
    ]
    assert [one[:2] for one in rows[1:]] == [
        [("PPO", "3", "6.0"), ("PB2-Mix", "1", mean)] for mean in ("*20.0*", "*40.0*", "*30.0*")
    ]


def test_bold_needs_three_runs_of_a_row_and_fewer_are_grey(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for game, seeds in (("bigfish", 2), ("leaper", 3)):
        for seed in range(seeds):
            made_up(tmp_path, game, "pb2-rand", seed, 9.0)
    assert main(["procgen", "--table", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Bold: at least three runs, within one standard deviation of the best mean of the game. Italic: fewer" in out
    assert re.search(r"\| bigfish .* 2 runs +\| +\*9\.0 ± 0\.0\* +\|", out)
    assert re.search(r"\| leaper .* 3 runs +\| +\*\*9\.0 ± 0\.0\*\* +\|", out)
    terminal = io.StringIO()
    print_tables(trials([tmp_path]), Console(file=terminal, force_terminal=True, width=150))
    greys = [line for line in terminal.getvalue().splitlines() if "9.0 ± 0.0" in line and "\x1b[2m" in line]
    assert [("bigfish" in line, "leaper" in line) for line in greys] == [(True, False)]


def test_an_agent_alone_counts_once_for_a_seed_and_stands_beside_populations_of_either_score(tmp_path: Path) -> None:
    for score_on, test in (("training", 3.0), ("validation", 3.0)):
        made_up(tmp_path / score_on, "bigfish", "pb2-mix", 0, 5.0, score_on=score_on)
        made_up(tmp_path / score_on, "bigfish", "drac", 0, test, score_on=score_on)
    made_up(tmp_path / "training", "bigfish", "drac", 1, 4.0)
    made_up(tmp_path / "training/again", "bigfish", "drac", 1, 5.0)  # The same seed on another machine, say.
    groups = list(comparable(trials([tmp_path])))
    assert [sorted((one.method, one.run.about["seed"]) for one in group) for group in groups] == [
        [("DrAC", 0), ("DrAC", 1), ("DrAC", 1), ("PB2-Mix", 0)]
    ] * 2
    assert [group[-1].settings["score_on"] for group in groups] == ["training", "validation"]


def test_an_agent_with_values_of_its_own_has_a_row_beside_the_published_one(tmp_path: Path) -> None:
    for seed in range(3):
        made_up(tmp_path, "bigfish", "pbt", seed, 3.0)
        made_up(tmp_path, "bigfish", "drac", seed, 1.0)
        made_up(tmp_path / "own", "bigfish", "drac", seed, 2.0, own={"clip": 0.45, "augmentation": "flip"})
    cells = [(row[1], row[3], row[5]) for row in printed(tmp_path)[2:5]]
    assert cells == [
        ("DrAC", "1.0 ± 0.0", "–"),
        ("DrAC, clip 0.45, augmentation flip", "2.0 ± 0.0", "–"),
        ("PBT", "**3.0 ± 0.0**", "6.6 ± 2.4"),
    ]


def test_what_is_not_finished_is_named_and_left_out(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_up(runs, "starpilot", "pb2-mix", 0, 5.0)
    with Store.open(runs / "starpilot/pb2-mix/0") as store:
        store.describe(rounds=9)
    assert main(["procgen", "--table", str(runs)]) == 0
    out = capsys.readouterr().out
    assert f"Left out: {runs / 'starpilot/pb2-mix/0'}, stopped, 2 of 9 rounds" in out
    assert "| starpilot" not in out


def test_runs_on_hard_levels_stand_apart_and_beside_nothing_published(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up(runs / "hard", "bigfish", "pb2-mix", 0, 3.0, difficulty="hard", score_on="validation")
    assert main(["procgen", "--table", str(runs)]) == 0
    out = capsys.readouterr().out
    hard = next(part for part in out.split("Test returns: ") if part.startswith("hard levels, "))
    assert "10.6" not in hard
    assert "with the best episodes on the validation levels" in hard
    assert out.count("10.6 ± 1.9") == 1


def test_runs_that_replay_levels_stand_apart(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_up(runs / "replay", "bigfish", "drac", 0, 3.0, levels="replay")
    made_up(runs / "replay", "bigfish", "pb2-mix", 0, 3.0, levels="replay")
    assert main(["procgen", "--table", str(runs)]) == 0
    _, *parts = capsys.readouterr().out.split("Test returns: ")
    (replayed,) = (part.split("Mean ±")[0] for part in parts if "prioritised level replay" in part.splitlines()[0])
    assert {line.split("|")[2].strip() for line in replayed.splitlines() if "bigfish" in line} == {"DrAC", "PB2-Mix"}


def test_what_level_replay_brings_is_a_mean_of_differences_by_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, (uniform, replay) in enumerate([(1.0, 4.0), (2.0, 6.0), (3.0, 8.0)]):
        made_up(tmp_path / "uniform", "bigfish", "drac", seed, uniform)
        made_up(tmp_path / "replay", "bigfish", "drac", seed, replay, levels="replay")
        made_up(tmp_path / "shuffled", "bigfish", "drac", seed, uniform + 1, levels="shuffled")
    # No pairs: another seed, another game, other rollouts, another score of a population.
    made_up(tmp_path / "replay", "bigfish", "drac", 9, 100.0, levels="replay")
    made_up(tmp_path / "replay", "leaper", "drac", 0, 100.0, levels="replay")
    made_up(tmp_path / "longer", "bigfish", "drac", 9, 100.0, steps=512)
    made_up(tmp_path / "uniform", "bigfish", "pb2-mix", 0, 100.0)
    made_up(tmp_path / "replay", "bigfish", "pb2-mix", 0, 100.0, levels="replay", score_on="validation")
    assert main(["procgen", "--table", str(tmp_path)]) == 0
    _, out = capsys.readouterr().out.split("With level replay, and without it")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if "| bigfish" in line]
    # Differences of 3, 4 and 5: 4 ± t(0.975, 2) / sqrt(3) = 4.303 / 1.732 = 2.48.
    assert rows == [
        ["bigfish", "DrAC", "replay", "1 × 1M, 3 pairs", "test", "6.0 ± 2.0", "2.0 ± 1.0", "+4.0 [+1.5, +6.5]"],
        ["bigfish", "DrAC", "replay", "1 × 1M, 3 pairs", "training", "0.0 ± 0.0", "0.0 ± 0.0", "+0.0 [+0.0, +0.0]"],
        ["bigfish", "DrAC", "shuffled", "1 × 1M, 3 pairs", "test", "3.0 ± 1.0", "2.0 ± 1.0", "+1.0 [+1.0, +1.0]"],
        ["bigfish", "DrAC", "shuffled", "1 × 1M, 3 pairs", "training", "0.0 ± 0.0", "0.0 ± 0.0", "+0.0 [+0.0, +0.0]"],
    ]
    assert "leaper" not in out


def test_the_stored_pairs_with_level_replay_are_those_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["procgen", "--table", str(RESULTS / "levels_uniform"), str(RESULTS / "levels_replay")]) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if " pairs | " in line]
    assert rows
    assert set(rows) <= set((RESULTS.parents[1] / "docs/procgen_results.md").read_text("utf-8").splitlines())


def test_a_file_that_cannot_be_read_is_named_and_left_out(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "bigfish/ppo/0/run.sqlite").write_text("something else " * 1000)
    assert main(["procgen", "--table", str(runs)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"Left out: .*ppo/0.*", out)
    assert re.search(r"\| bigfish +\| PPO +\| 1 × 1M, 2 runs", out)


def test_a_member_that_failed_in_the_last_round_is_not_the_final_one(tmp_path: Path) -> None:
    made_up(tmp_path, "bigfish", "ppo", 0, 4.0, rounds=3)
    connection = sqlite3.connect(tmp_path / "bigfish/ppo/0/run.sqlite")
    with connection:
        connection.execute("UPDATE observation SET status = 'failed', score = NULL, metrics = '{}' WHERE round = 2")
    connection.close()
    [trial] = trials([tmp_path])
    assert not trial.done


def test_folders_without_runs_of_the_experiment_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"a table needs runs of `popbandits procgen`, got none in .*; run"):
        trials([tmp_path])


def test_a_run_whose_folder_is_a_seed_is_called_by_the_folder_above_too(runs: Path) -> None:
    names = {one.run.name for one in trials([runs])}
    assert "pb2-mix/0" in names
    assert Run.read(RESULTS / "procgen/bigfish/ppo/0").name == "ppo/0"


def test_the_published_figures_give_the_published_shares() -> None:
    """The paper's normalised returns follow from its table, but for what rounding to one decimal leaves."""
    returns = published.RETURNS["test"]
    assert len(returns) == len(published.RETURNS["train"]) == 7
    for method, (mean, _) in published.NORMALISED.items():
        shares = [100 * row[method][0] / row["PB2-Rand"][0] for row in returns.values()]
        assert sum(shares) / 7 == pytest.approx(mean, abs=1.5)
    assert set(published.METHODS) < set(LABELS.values())


def test_the_stored_trials_are_read_and_stand_beside_the_published_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["procgen", "--table", str(RESULTS / "procgen")]) == 0
    printed = capsys.readouterr().out
    assert "112.1" not in printed, "a published share of PB2-Rand stands beside a share of another method"
    rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in printed.splitlines() if "| bigfish" in line]
    assert rows[:5] == [
        ["PPO", "1 × 25M, 3 runs", "4.6 ± 2.1", "", "4.0 ± 1.2"],
        ["DrAC", "1 × 25M, 3 runs", "**8.6 ± 2.5**", "", "–"],
        ["PBT", "4 × 25M, 1 run", "*4.4*", "", "6.6 ± 2.4"],
        ["PB2-Mix", "4 × 25M, 2 runs", "*8.6 ± 5.9*", "", "10.6 ± 1.9"],
        ["Patient PBT", "4 × 25M, 1 run", "*8.2*", "", "–"],
    ]
    assert re.search("Left out: .*ucb-drac/0, killed, 23 of 50 rounds", printed)


def test_curves_of_the_stored_runs_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    procgen_curves.main([])
    out = capsys.readouterr().out
    assert "171 pairs of agents that share an interval or more: equal in all of them 95, in none 76, in some 0" in out
    assert "all: winners over their controls, both kinds of levels, 5 seeds: test +43% [-3%, +89%], 14 ahead, 2" in out
    printed = [line.split("|") for line in out.splitlines()]
    rows: defaultdict[str, list[list[str]]] = defaultdict(list)
    for cells in printed:
        if len(cells) > 2:
            rows[cells[1].strip()].append([cell.strip() for cell in cells[2:-1]])
    (at_15m,), (published, _), (mix, rates) = rows["15M"], rows["published, 25M"], rows["pb2-mix/0"]
    assert at_15m[:2] == ["11.6 ± 1.8 (test 7.0 ± 2.2)", "11.6 (test 7.4)"]
    assert at_15m[2:] == ["12.3 ± 5.4 (test 7.2 ± 3.4)", "11.9 (test 3.2)", "7.5 ± 2.5 (test 3.2 ± 1.6)", ""]
    assert published[2:4] == ["17.1 ± 2.9 (test 10.6 ± 1.9)", "12.0 ± 3.3 (test 6.6 ± 2.4)"]
    assert rows["5M"][1] == ["6.4 (test 2.7)"]  # Started from the published settings.
    assert mix == ["840", "7.1%", "0.6 ± 0.5 s.e.", "25 s", "36 s", "29.7 min"]
    assert rates == ["12, the first is round 36", "-2.0 ± 0.8 s.e., 19 copies", "-4.2 ± 1.0 s.e., 30 copies"]
    assert rows["pbt/0"][1] == ["0", "0 copies", "-2.3 ± 0.5 s.e., 49 copies"]
    assert len(rows["drac/0"]) == 1  # It has nobody to copy.
    assert rows["12.5M"][0][1] == "8.6"  # Two of its four members failed in this round.
    assert rows["DrAC alone"] == [["8", "3.4 ± 1.2", "", "5.7 ± 2.0"]]
    assert rows["the best of four of them by score, all 70 choices"] == [["", "3.9", "", "7.4"]]
    assert rows["DrAC alone with level replay"] == [["5", "6.6 ± 1.1", "0.00091", "7.4 ± 1.6"]]
    assert rows["with level replay: the controls, DrAC alone"] == [
        ["5", "7.8 ± 2.4", "", "10.3 ± 2.5"],
        ["5", "19.0 ± 2.9", "", "20.0 ± 1.1"],
    ]
    assert rows["with uniform levels: the controls, DrAC alone"] == [
        ["5", "3.0 ± 1.0", "", "6.6 ± 2.3"],
        ["5", "24.6 ± 5.1", "", "26.1 ± 2.9"],
    ]
    assert rows["DrAC alone, clip 0.45"] == [["5", "5.4 ± 2.0", "0.052", "8.7 ± 2.6"]]
    assert rows["Near PBT, 4 members"] == [
        ["5", "9.4 ± 1.9", "0.28", "11.4 ± 2.0"],
        ["5", "6.7 ± 4.3", "0.13", "8.7 ± 4.3"],
        ["5", "22.7 ± 4.6", "0.18", "23.6 ± 3.5"],
        ["5", "26.9 ± 4.5", "0.48", "26.3 ± 3.8"],
    ]
    said = " ".join(out.split())
    assert "bigfish, controls: level replay minus uniform levels, 5 pairs: test +4.8 [+1.1, +8.5]" in said
    assert "the same without pairs: test [+1.8, +7.8], train [+0.2, +7.2]" in said
    assert rows["500k"] == [
        ["4.37 ± 0.51, 3 seeds", "4.88 ± 0.60, 3 seeds", "0.33"],
        ["4.37 ± 0.51, 3 seeds", "4.94 ± 0.63, 3 seeds", "0.30"],
    ]


def test_curves_of_runs_tuned_otherwise_have_a_column_of_their_own(tmp_path: Path) -> None:
    made_up(tmp_path / "linear", "bigfish", "pb2-mix", 0, 1.0)
    made_up(tmp_path / "log", "bigfish", "pb2-mix", 0, 2.0, rate=Float("lr", (0.1, 1.0), log=True))
    columns = procgen_curves.curves(trials([tmp_path]), 500_000).columns
    assert [str(column.header) for column in columns[1:]] == [
        "PB2-Mix, bigfish, 1 seed",
        "PB2-Mix, bigfish, learning rate on a log scale, 1 seed",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"game": None},
        {"game": 3},
        {"interval": "long"},
        {"interval": -1},
        {"interval": 10**300},
        {"steps": None},
        {"score_on": "luck"},
        {"levels": 3},
        {"precision": []},
    ],
    ids=repr,
)
def test_a_damaged_run_is_left_out_by_its_name_and_hides_no_other(
    wrong: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(2):
        made_up(tmp_path, "bigfish", "pb2-mix", seed, 10.0)
    with Store.open(tmp_path / "bigfish/pb2-mix/1") as store:
        agent = store.about["agent"]
        store.describe(agent=agent | {"settings": agent["settings"] | wrong})
    assert main(["procgen", "--table", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "| 2 × 1M, 1 run |" in out
    assert f"Left out: {tmp_path}/bigfish/pb2-mix/1/run.sqlite is damaged: {next(iter(wrong))} is " in out


def test_the_name_of_a_game_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_up(tmp_path, "[link=file:x]fish\x1b[2J", "pb2-mix", 0, 10.0)
    assert main(["procgen", "--table", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "[link=file:x]fish [2J" in out
    assert "\x1b" not in out


def test_stored_runs_from_before_and_after_records_had_a_task_are_one_game_and_six_methods() -> None:
    tasks = group_runs(map(Run.read, run_folders([RESULTS / "procgen"])))
    assert {task: {m: len(group) for m, group in groups.items()} for task, groups in tasks.items()} == {
        "bigfish": {"PB2-Mix": 2, "PBT": 1, "Patient PBT": 1, "drac": 3, "ppo": 3, "ucb-drac": 1}
    }


@pytest.mark.parametrize("folder", run_folders([RESULTS]), ids=lambda folder: str(folder.relative_to(RESULTS)))
def test_stored_runs_are_one_file_without_names_of_hosts_and_folders(folder: Path) -> None:
    assert [file.name for file in folder.iterdir()] == ["run.sqlite"]
    content = (folder / "run.sqlite").read_bytes()
    assert content[18:20] == b"\1\1", "it would need a second file: pragma journal_mode = delete"
    assert re.findall(rb'"root": "/|File \\"/|process \d+ on', content) == []
