"""Figures: valid, and of the right data."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from popbandits import PBT, Population, RandomSearch
from popbandits.history import History, Mode, Observation
from popbandits.reports.figures import theme
from popbandits.reports.figures.charts import log_ticks
from popbandits.reports.figures.comparison import curves
from popbandits.reports.figures.effects import NEITHER, OVERALL, effects, effects_figure
from popbandits.reports.figures.figure import Figure, thin
from popbandits.reports.figures.learning import learning
from popbandits.reports.figures.schedules import WINNER, schedules
from popbandits.reports.figures.tried import tried
from popbandits.reports.figures.winner import SWITCHED, winner
from popbandits.reports.gained import gain_over_start
from popbandits.reports.run import Run
from popbandits.reports.single import figures_of
from popbandits.reports.stats import standard_error
from tests.reports.played import Clumsy, play


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.read(play(tmp_path_factory.mktemp("runs") / "clumsy", Clumsy, rounds=16))


@pytest.fixture(scope="module")
def pbt(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.read(play(tmp_path_factory.mktemp("runs") / "pbt", method=PBT(), mode="min"))


def test_a_run_has_every_figure_and_each_is_valid_vega_lite(run: Run) -> None:
    found = figures_of(run)
    assert list(found) == ["winner", "learning", "schedules", "tried", "costs", "effects"]
    for one in found.values():
        one.chart.to_dict()  # holds it against the schema
        assert any(one.data.values()), one.name
        assert one.spec["title"]["text"] == one.title


def numbers_below(figure: Figure) -> list[str]:
    """The numbers below the last panel of a figure, as they are written."""
    axis = figure._repr_svg_().rpartition('aria-label="X-axis')[2].partition("role-axis-label")[2].partition("</g>")[0]
    return re.findall(r'opacity="1"[^>]*>([^<]*)</text>', axis)


def test_figures_over_several_runs_are_valid_too(run: Run, pbt: Run) -> None:
    groups = {"PB2-Fuse": [run], "PBT": [pbt]}
    for one in (
        curves({"a": groups}),
        curves({"a": groups, "b": groups}),
        schedules(groups),
    ):
        assert one is not None
        one.chart.to_dict()


def test_costs_are_drawn_as_they_add_up_with_the_best_score_within_each(tmp_path: Path) -> None:
    population = Population({"x": (0.0, 1.0)}, RandomSearch(), size=2, rounds=2)
    scores, costs = [0.5, 0.7, None, 0.6], [1.0, 2.0, None, 3.0]
    for score, cost in zip(scores, costs, strict=True):
        assignment = (population.ask(), population.pending)[1][0]
        population.tell(assignment, score, seconds=30.0, metrics={} if cost is None else {"cost": cost})
    population.history.save(tmp_path / "run")
    figure = figures_of(Run.read(tmp_path / "run"))["costs"]
    figure.chart.to_dict()
    drawn = {name: [(row["spent"], row["score"]) for row in rows] for name, rows in figure.data.items()}
    # The failed interval counts as the mean of the others, 2; the line goes on to the end of the run.
    assert drawn["cost"] == [(1.0, 0.5), (3.0, 0.7), (8.0, 0.6)]
    assert drawn["front_cost"] == [(1.0, 0.5), (3.0, 0.7), (8.0, 0.7)]
    assert drawn["front_time"] == [(0.5, 0.5), (1.0, 0.7), (2.0, 0.7)]  # minutes
    assert figure.caption.endswith("Half of the cost gave 0.7. Half of the training time gave 0.7.")


@pytest.mark.parametrize("seconds", [2e-5, 0.0012, 0.0101, 0.2, 1.9, 1e6])
def test_costs_of_any_size_have_room_for_the_numbers_on_their_axis(seconds: float, tmp_path: Path) -> None:
    population = Population({"x": (0.0, 1.0)}, RandomSearch(), size=1, rounds=4)
    for score in range(4):
        (assignment,) = population.ask()
        population.tell(assignment, score, seconds=seconds / 4)
    population.history.save(tmp_path / "run")
    numbers = numbers_below(figures_of(Run.read(tmp_path / "run"))["costs"])
    assert 4 <= len(numbers) <= 12
    assert max(map(len, numbers)) <= 6


@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
def test_axes_of_short_runs_name_whole_rounds_and_whole_numbers_only(rounds: int, tmp_path: Path) -> None:
    space = {"lr": (0.01, 0.1), "augmentation": ["crop", "no"], "layers": (1, 3)}
    run = Run.read(play(tmp_path / "run", space=space, method=PBT(), rounds=rounds))
    found = figures_of(run)
    drawn = [found["winner"], found["learning"], found["schedules"], found["tried"], curves({"a": {"PBT": [run]}})]
    rounds_named = [str(t) for t in range(max(2, rounds))]
    assert [numbers_below(one) for one in drawn] == [rounds_named] * len(drawn)
    assert re.findall(r">([1-3]\.\d)</text>", found["schedules"]._repr_svg_()) == []


def test_whole_numbers_of_the_winner_are_named_without_halves(tmp_path: Path) -> None:
    history = History({"layers": (1, 9)}, size=1)
    for t in range(4):
        history.append(Observation(0, t, {"layers": 6 + t // 2}, (0, t - 1) if t else None, score=float(t)))
    history.save(tmp_path)
    picture = winner(Run.read(tmp_path), None)._repr_svg_()
    assert re.findall(r">([67](?:\.\d)?)</text>", picture) == ["6", "7"]


def test_small_changes_of_large_scores_are_drawn_as_they_are(tmp_path: Path) -> None:
    population = Population({"x": (0.0, 1.0)}, RandomSearch(), size=1, rounds=4)
    scores = [1_000_001.0, 1_000_002.5, 1_000_004.0, 1_000_008.0]
    for score in scores:
        (assignment,) = population.ask()
        population.tell(assignment, score, seconds=1.0)
    population.history.save(tmp_path / "run")
    found = figures_of(Run.read(tmp_path / "run"))
    assert [row["score"] for row in found["winner"].data["winner"]] == scores
    assert [row["score"] for row in found["learning"].data["members"]] == scores
    written = re.findall(r">(1[^<]*0[^<]*)</text>", found["learning"]._repr_svg_())
    assert len(written) == len(set(written)) >= 4  # No two ticks of one name.


def test_a_winner_that_took_no_weights_has_no_mark_for_it(tmp_path: Path) -> None:
    run = Run.read(play(tmp_path / "run", population=1, rounds=4, method=PBT()))
    figure = figures_of(run)["winner"]
    assert repr(SWITCHED) not in str(figure.chart.to_dict())  # Its caption has the words in a sentence.
    assert "Its lineage copied nobody. " in f"{figure.caption} "


def test_figures_are_written_for_print(run: Run, tmp_path: Path) -> None:
    paths = learning(run).write(tmp_path)
    assert [path.name for path in paths] == ["learning.png", "learning.svg", "learning.pdf", "learning.vl.json"]
    heads = [path.read_bytes()[:5] for path in paths]
    assert heads[0].startswith(b"\x89PNG")
    assert heads[1].startswith(b"<svg")
    assert heads[2] == b"%PDF-"


def test_learning_curves_hold_every_score_and_the_best_of_each_round(run: Run, pbt: Run) -> None:
    found = learning(run)
    completed = [o for o in run.history if not o.failed]
    assert len(found.data["members"]) == len(completed)
    best = {row["round"]: row["score"] for row in found.data["summary"] if row["curve"].startswith("best")}
    for round_ in range(16):
        assert best[round_] == pytest.approx(max(o.score for o in completed if o.round == round_), rel=1e-5)
    lowest = {row["round"]: row["score"] for row in learning(pbt).data["summary"] if row["curve"].startswith("best")}
    assert lowest[3] == pytest.approx(min(o.score for o in pbt.history if o.round == 3), rel=1e-5)


def test_a_steep_start_is_the_time_of_most_of_the_gain_if_that_was_early(tmp_path: Path) -> None:
    for name, told, steep in (
        ("steep", [0.0, 60.0, 80.0, 90.0, 95.0, 98.0, 99.0, 100.0], 2),
        ("even", [10.0 * t for t in range(8)], 0),
        ("down", [5.0, 4.0, 3.0, 2.0], 0),
    ):
        history = History({"x": (0.0, 1.0)}, size=1)
        for t, score in enumerate(told):
            history.append(Observation(0, t, {"x": 0.5}, (0, t - 1) if t else None, score=score))
        history.save(tmp_path / name)
        axes = learning(Run.read(tmp_path / name)).axes
        assert axes is not None
        assert axes["steep"] == steep, name


def climb(directory: Path, awful: dict[tuple[int, int], float], mode: Mode = "max") -> Run:
    """Four members that climb evenly for ten rounds, but for the scores of some intervals."""
    history, sign = History({"x": (0.0, 1.0)}, size=4, mode=mode), 1.0 if mode == "max" else -1.0
    for t in range(10):
        for m in range(4):
            score = sign * awful.get((m, t), t + m / 10 + 1 / 3)
            history.append(Observation(m, t, {"x": 0.5}, (m, t - 1) if t else None, score=score, seconds=1.0))
    history.save(directory)
    return Run.read(directory)


@pytest.mark.parametrize("mode", ["max", "min"])
def test_scores_far_below_the_others_are_beyond_the_axis_and_told(mode: Mode, tmp_path: Path) -> None:
    run, sign = climb(tmp_path / "one", {(2, 0): -900.0}, mode), "" if mode == "min" else "-"
    found = learning(run)
    assert found.axes is not None
    assert found.axes["far"] == 1
    assert f"One score, {sign}900, member 2, round 0, is so much worse than the others" in found.caption
    found.chart.to_dict()  # holds it against the schema
    limit = run.sign * 0.333333333
    for layer in found.spec["layer"]:
        assert layer["encoding"]["y"]["scale"] == {"zero": False, "domainMin" if mode == "max" else "domainMax": limit}
        circles = layer["mark"]["type"] == "circle"
        assert [step["filter"] for step in layer["transform"] if "filter" in step] == (
            [f"datum.score {'>=' if mode == 'max' else '<='} {limit}"] if circles else []
        )
        assert circles or layer["mark"]["clip"]
    assert min(run.sign * row["score"] for row in found.data["members"]) == -900  # Drawn if the reader wants.
    two = learning(climb(tmp_path / "two", {(2, 0): -900.0, (1, 3): -850.0}, mode))
    assert f"2 scores are so much worse than the others that the axis leaves them out; the worst: {sign}900," in (
        two.caption
    )


def test_a_far_score_is_beyond_the_axis_also_where_the_first_round_was_bad_for_all(tmp_path: Path) -> None:
    history = History({"x": (0.0, 1.0)}, size=4)
    for t in range(25):
        for m in range(4):
            score = -9000.0 if (m, t) == (1, 6) else -400.0 + m if not t else t + m / 10
            history.append(Observation(m, t, {"x": 0.5}, (m, t - 1) if t else None, score=score))
    history.save(tmp_path)
    found = learning(Run.read(tmp_path))
    assert "One score, -9000, member 1, round 6, is so much worse than the others" in found.caption
    assert found.spec["layer"][0]["encoding"]["y"]["scale"] == {"zero": False, "domainMin": -400.0}


@pytest.mark.parametrize("mode", ["max", "min"])
def test_far_scores_flatten_neither_the_winner_nor_the_scores_against_cost(mode: Mode, tmp_path: Path) -> None:
    run = climb(tmp_path / "off", {(2, 0): -900.0}, mode)
    found = figures_of(run)
    points = found["costs"].data["time"]
    assert [row["round"] for row in points] == [t for t in range(10) for m in range(4) if (m, t) != (2, 0)]
    assert -900 not in [run.sign * row["score"] for row in found["costs"].data["front_time"]]
    assert "member 2, round 0, is so much worse than the others that the axis leaves it out." in found["costs"].caption
    assert "beyond the axis" not in found["winner"].caption  # Another member's.
    run = climb(tmp_path / "on", {(3, 0): -900.0}, mode)
    found = figures_of(run)
    assert (3, 0) in run.winning
    assert found["winner"].caption.endswith("Scores far worse than the others are beyond the axis. Unchanged: x 0.5.")
    end = {"domainMin" if mode == "max" else "domainMax": run.sign * 1 / 3}
    for layer in found["winner"].spec["vconcat"][0]["layer"]:
        assert layer["encoding"]["y"]["scale"] == {"zero": False} | end
        assert layer["mark"]["clip"]
    found["winner"].chart.to_dict()  # holds it against the schema


@pytest.mark.parametrize(
    "awful",
    [{}, {(2, 0): -15.0}, {(m, 0): -900.0 for m in range(4)}, {(m, m): -900.0 for m in range(4)}, {(3, 9): 900.0}],
    ids=["none", "not far", "a round of all", "many", "a good one"],
)
def test_what_is_no_outlier_stays_on_the_axis(awful: dict[tuple[int, int], float], tmp_path: Path) -> None:
    found = learning(climb(tmp_path, awful))
    assert found.axes is not None
    assert found.axes["far"] == 0
    assert "so much worse" not in found.caption
    assert found.spec["layer"][0]["encoding"]["y"]["scale"] == {"zero": False}


def test_schedules_show_every_active_value_as_what_it_is(run: Run) -> None:
    found = schedules({"": [run]})
    panels = dict(zip(run.space.names, found.data.values(), strict=True))
    trained = [o for o in run.history if o.status != "lost"]
    assert len(panels["lr"]) == len(trained)
    assert len(panels["momentum"]) == sum("momentum" in o.config for o in trained) < len(trained)
    assert {row["value"] for row in panels["augmentation"]} <= {"crop", "rotate", "None"}
    assert {row["value"] for row in panels["width"]} <= {"16", "32", "64"}
    assert {(row["member"], row["round"]) for row in panels["lr"] if row["kind"] == WINNER} == run.winning
    scales = {p["title"]["text"]: p["layer"][0]["encoding"]["y"]["scale"] for p in found.spec["concat"]}
    assert scales["lr"] == {"type": "log", "domain": [1e-5, 1e-1], "nice": False}
    assert scales["epochs"]["domain"] == [1, 8]
    assert scales["width"]["domain"] == ["64", "32", "16"]  # The largest at the top.


def test_a_long_run_is_thinned_but_for_its_winning_lineage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popbandits.reports.figures.schedules.MAX_MARKS", 10)
    found = schedules({"": [run]})
    rows = next(iter(found.data.values()))
    assert sum(row["kind"] == WINNER for row in rows) == len(run.winning)
    assert len(rows) < len(run.history)
    assert "intervals are drawn, the winning lineage whole" in found.caption


def test_a_winner_that_copied_once_is_told_in_the_singular(tmp_path: Path) -> None:
    config = {"x": 0.5}
    first = [Observation(member, 0, config, score=float(member)) for member in (0, 1)]
    History({"x": (0.0, 1.0)}, [*first, Observation(0, 1, config, (1, 0), 1.0, 2.0)], size=2).save(tmp_path)
    assert " went on from another's weights once (the dashed line)." in winner(Run.read(tmp_path), None).caption


def test_the_winner_is_stitched_along_its_lineage_with_its_switches_and_its_values(run: Run) -> None:
    found, line = winner(run, gain_over_start(run)), run.history.lineage()
    rows = found.data["winner"]
    assert [(row["member"], row["round"]) for row in rows] == [o.key for o in line]
    assert [row["score"] for row in rows] == pytest.approx([o.score for o in line], rel=1e-5)
    copied = [o for o in line if o.parent is not None and o.parent[0] != o.member]
    assert f" went on from another's weights {len(copied)} times (dashed lines)." in found.caption
    assert [(row["round"], row["at"], row["source"]) for row in found.data["switches"]] == [
        (o.round, o.round - 0.5, f"member {o.parent[0]}") for o in copied if o.parent is not None
    ]
    assert len(copied) > 0
    whole = found.spec["vconcat"]
    assert all(panel["encoding"]["x"]["scale"]["domain"] == [0, 15] for panel in whole)
    assert len({panel["width"] for panel in whole}) == 1  # On the same axis.
    panels = [panel["layer"][1] for panel in whole[1:]]  # Upon the lines where weights changed.
    moved = [name for name in run.space.names if any(o.config.get(name) != line[0].config.get(name) for o in line)]
    assert {panel["title"]["text"] for panel in panels} == set(moved) != set()
    for i, panel in enumerate(panels):
        name = panel["title"]["text"]
        wanted = [o.config[name] for o in line if name in o.config]
        drawn = [row[f"value{i}"] for row in rows if f"value{i}" in row]
        assert drawn == (
            pytest.approx(wanted, rel=1e-5) if name in ("lr", "epochs", "momentum") else list(map(str, wanted))
        )


def test_of_a_long_lineage_a_part_is_drawn_and_all_of_it_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    gain = gain_over_start(run)
    whole = winner(run, gain)
    monkeypatch.setattr("popbandits.reports.figures.winner.MAX_MARKS", 2)
    part = winner(run, gain)
    assert whole.caption == part.caption
    assert {len(rows) for rows in part.data.values()} == {2}
    titles = [[panel["layer"][1].get("title") for panel in one.spec["vconcat"]] for one in (whole, part)]
    assert titles[0] == titles[1]


def test_the_winner_is_drawn_beside_what_it_is_compared_with(run: Run) -> None:
    gain = gain_over_start(run)
    assert gain is not None
    found = winner(run, gain)
    assert [(row["member"], row["round"]) for row in found.data["start"]] == [
        o.key for o in gain.line if o.key not in run.winning
    ]
    assert gain.where in found.caption
    assert "start" not in winner(run, None).data


def test_configurations_are_lines_across_their_ranges_ranked_by_score(run: Run, pbt: Run) -> None:
    for played, best in ((run, max), (pbt, min)):
        found = tried(played)
        assert found is not None
        rows = {(row["member"], row["round"]): row for row in found.data["tried"]}
        completed = {o.key: o for o in played.history if not o.failed}
        assert rows.keys() == completed.keys()
        names = [*(n.name for n in played.space.numerical), *(c.name for c in played.space.categorical)]
        for key, o in completed.items():
            config = o.config
            assert rows[key][f"value{names.index('lr')}"] == pytest.approx((math.log10(config["lr"]) + 5) / 4, rel=1e-4)
            label = ("crop", "rotate", None).index(config["augmentation"])
            assert rows[key][f"value{names.index('augmentation')}"] == label / 2
            assert (f"value{names.index('momentum')}" in rows[key]) == ("momentum" in config)
        top = max(rows.values(), key=lambda row: row["rank"])
        assert (top["rank"], top["score"]) == (1, pytest.approx(best(o.score for o in completed.values()), rel=1e-5))
        assert [one["name"] for one in found.spec["params"]] == ["best", "earliest", "latest"]


def test_the_distance_of_configurations_is_that_of_pairs_of_members(tmp_path: Path) -> None:
    space = {"x": (0.0, 1.0), "act": ["relu", "tanh"]}
    rounds = [[(0.0, "relu"), (0.5, "relu"), (1.0, "tanh")], [(0.2, "tanh")] * 3]
    history = History(space, size=3)
    for t, configs in enumerate(rounds):
        for m, (x, act) in enumerate(configs):
            history.append(Observation(m, t, {"x": x, "act": act}, (m, t - 1) if t else None, score=float(t)))
    history.save(tmp_path)
    found = tried(Run.read(tmp_path))
    assert found is not None
    # Of the three pairs: 0.5 and 1 and 0.5 apart in x, and two of them differ in the label.
    assert found.data["distances"] == [{"round": 0, "distance": round(4 / 6, 9)}, {"round": 1, "distance": 0.0}]


def test_labels_are_told_by_their_gains_beside_others(run: Run) -> None:
    labels = {e.parameter: e for e in effects([run]) if e.gains is not None}
    drawn = effects_figure(effects([run]))
    assert drawn is not None
    rows = {row["label"]: row for row in drawn.data["effects"]}
    keys = list(zip(run.rows.member.tolist(), run.rows.round.tolist(), strict=True))
    gain = {key: value for key, value in zip(keys, run.gains.tolist(), strict=True) if math.isfinite(value)}
    assert set(labels) == {f"augmentation = {label}" for label in ("crop", "rotate", None)}
    for label in ("crop", "rotate", None):
        there = [o.key for o in run.history if o.config["augmentation"] == label]
        gains = [gain[key] for key in there if key in gain]
        row = rows[f"augmentation = {label}"]
        assert row["intervals"] == len(gains) > 1
        assert row["gain"] == pytest.approx(np.mean(gains), rel=1e-4)
        assert row["to"] - row["gain"] == pytest.approx(standard_error(gains), rel=1e-3)


def test_a_slow_starter_is_not_taken_for_the_one_that_gains_most(tmp_path: Path) -> None:
    """With adam a member gains more at every score, and stands where little is left to gain from its first interval."""
    rate, first = {"adam": 0.16, "sgd": 0.1}, {"adam": 0.55, "sgd": 0.15}
    history = History({"optimizer": list(rate), "decay": (0.0, 1.0)}, size=16)
    scores = [math.nan] * 16
    rng = np.random.default_rng(0)
    decays = rng.random(16)
    for round_ in range(11):
        for member, before in enumerate(scores):
            # Decay slows a member down, so that those with much of it have most left to gain.
            optimizer, slower = ("adam", "sgd")[member % 2], 1 - 0.3 * decays[member]
            after = before + rate[optimizer] * slower * (1 - before) if round_ else first[optimizer] * slower
            scores[member] = after + 0.001 * rng.normal()
            config = {"optimizer": optimizer, "decay": float(decays[member])}
            parent = (member, round_ - 1) if round_ else None
            history.append(Observation(member, round_, config, parent, before, scores[member]))
    history.save(tmp_path)
    run = Run.read(tmp_path)
    with_label = {name: [o for o in history if o.round and o.config["optimizer"] == name] for name in rate}
    change = {name: np.mean([o.change for o in intervals]) for name, intervals in with_label.items()}
    assert change["sgd"] > 1.2 * change["adam"]  # As such, changes favour the one that is behind,
    found = effects([run])
    drawn = effects_figure(found)
    assert drawn is not None
    rows = {row["label"]: row for row in drawn.data["effects"]}
    adam, sgd = rows["optimizer = adam"], rows["optimizer = sgd"]
    assert adam["from"] > 0 > sgd["to"]  # and beside others at the same score they do not.
    assert (adam["direction"], sgd["direction"]) == ("better than other labels", "worse than other labels")
    decay = {e.where: e.found.tau for e in found if e.parameter == "decay" and e.found is not None}
    assert max(decay["with optimizer = adam"], decay["with optimizer = sgd"]) < -0.5


def test_effects_where_less_is_better_turn_the_change(pbt: Run) -> None:
    (lr,) = [e for e in effects([pbt]) if (e.parameter, e.where) == ("lr", OVERALL)]
    gains: dict[str, list[float]] = {}
    for member, round_, gain in zip(pbt.rows.member.tolist(), pbt.rows.round.tolist(), pbt.gains, strict=True):
        o = pbt.history.find((member, round_))
        assert o is not None
        if math.isfinite(gain):
            gains.setdefault(repr(o.config), []).append(gain)
    rates = {repr(o.config): o.config["lr"] for o in pbt.history}
    assert lr.found is not None
    theirs = scipy.stats.kendalltau([rates[config] for config in gains], list(map(np.median, gains.values())))
    assert lr.found.tau == pytest.approx(theirs.statistic)
    assert lr.found.count == len(gains)


def test_a_figure_of_effects_draws_those_overall_and_those_that_are_clear(run: Run) -> None:
    found = effects([run])
    drawn = effects_figure(found)
    assert drawn is not None
    shown = [e for e in found if e.where == OVERALL or e.direction != NEITHER]
    assert {e.parameter for e in shown if e.where == OVERALL} == {e.parameter for e in found} >= {"lr", "epochs"}
    assert [(row["z"], row["count"]) for row in drawn.data["effects"] if "z" in row] == [
        (pytest.approx(e.found.z, rel=1e-5), e.found.count) for e in shown if e.found is not None
    ]


def test_a_report_imports_nothing_that_a_file_asks_for(run: Run, tmp_path: Path) -> None:
    evil = tmp_path / "evil.py"
    evil.write_text("raise SystemExit('imported')")
    for where in (f"{evil}:PB2Fuse", "os:PB2Fuse", "popbandits.explorers.pb2_fuse:as_explorer", ""):
        about = {"method": {"make": where, "settings": {}}}
        asked = replace(run, about=about)
        assert asked.method
        assert figures_of(asked).keys() == figures_of(run).keys()


# What all share


def test_curves_of_a_method_are_mean_and_standard_error_over_seeds(tmp_path: Path) -> None:
    runs = [Run.read(play(tmp_path / str(seed), seed=seed, rounds=3, method=PBT())) for seed in range(3)]
    rows = curves({"": {"PBT": runs}}).data["task0"]
    best = np.array([run.best_by_round for run in runs])
    assert [row["mean"] for row in rows] == pytest.approx(best.mean(axis=0), rel=1e-5)
    assert [row["high"] - row["mean"] for row in rows] == pytest.approx(
        best.std(axis=0, ddof=1) / math.sqrt(3), rel=1e-3
    )


def test_a_mean_ends_where_the_shortest_run_ends_and_each_run_is_drawn_to_its_own_end(tmp_path: Path) -> None:
    told = {"long": [[1, 2], [5, None], [None, None], [4, 3]], "short": [[2, 0], [3, 3]]}
    runs = []
    for name, rounds in told.items():
        population = Population({"lr": (0.0, 1.0)}, RandomSearch(), size=2)
        for scores in rounds:
            for assignment, score in zip(population.ask(), scores, strict=True):
                population.tell(assignment, score)
        population.history.save(tmp_path / name)
        runs.append(Run.read(tmp_path / name))
    found = curves({"": {"mine": runs}})
    assert [(row["round"], row["mean"], row["seeds"]) for row in found.data["task0"]] == [(0, 2, 2), (1, 4, 2)]
    each = {
        name: [(r["round"], r["mean"]) for r in found.data["each0"] if r["run"] == name and "mean" in r]
        for name in told
    }
    assert each == {"long": [(0, 2), (1, 5), (3, 4)], "short": [(0, 2), (1, 3)]}
    assert "as far as all of them went" in found.caption


@pytest.mark.parametrize(("low", "high"), [(1e-12, 1e3), (0.5, 0.6), (1, 1000), (3e-5, 8e-5)])
def test_ticks_of_a_log_axis_are_few_and_inside(low: float, high: float) -> None:
    ticks = log_ticks(low, high)
    assert len(ticks) <= 6
    assert all(0.99 * low <= tick <= 1.01 * high for tick in ticks)


def test_thinning_keeps_both_ends() -> None:
    kept = thin(np.arange(1000), 10)
    assert (len(kept), kept[0], kept[-1]) == (10, 0, 999)


def test_colours_can_be_told_apart_from_both_grounds() -> None:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    for dark in (False, True):
        ground = light(theme.config(dark)["background"])
        for colour in theme.PALETTE:
            a, b = sorted([light(colour), ground])
            assert (b + 0.05) / (a + 0.05) >= 2.0, (colour, dark)


def test_a_figure_can_be_shown_in_a_notebook(run: Run) -> None:
    one: Figure = learning(run)
    assert one.chart.to_dict()["datasets"]["members"] == one.data["members"]
