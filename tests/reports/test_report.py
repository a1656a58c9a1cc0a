"""The page: complete, of one file, and taking nothing that a user named for markup."""

import json
import math
import re
from collections.abc import Iterator
from functools import partialmethod
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT, NearPBT
from popbandits.errors import ArgumentError, HistoryError, MissingExtraError
from popbandits.history import Event, History, Observation
from popbandits.reports import single as single_module
from popbandits.reports.figures.figure import Figure
from popbandits.reports.html import script_json
from popbandits.reports.report import draw, write_report
from popbandits.reports.run import MAX_TRACEBACK_CHARS, Run
from popbandits.reports.single import copies_table, interval_table
from popbandits.storage import Store
from tests.reports.played import HOSTILE, Climber, Clumsy, play, space


class Page(HTMLParser):
    """What a browser would make of a page: its elements, its text, the data in it."""

    def __init__(self, path: Path):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.scripts, self._inside = "", list[str](), ""
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = tag
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data
        else:
            self.text += data

    @property
    def data(self) -> Any:
        return json.loads(next(script for script in self.scripts if script.startswith('{"figures"')))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        # Vega takes seconds to bundle, and these tests do not run it.
        patch.setattr("popbandits.reports.libraries.PROGRAM", "")
        yield


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which whatever a user can name is an attack."""
    where = tmp_path_factory.mktemp("runs") / "..  <b>run</b> & 'co'"
    names = {f"lr {HOSTILE}": (0.0, 1.0), "__proto__": (1, 4), "image": [HOSTILE, "b", "constructor"]}

    class Named(Climber):
        def train(self, config: dict[str, Any]) -> Any:
            if config["__proto__"] == 4:
                raise ValueError(HOSTILE)
            outcome = super().train({"lr": 1e-3, "augmentation": "crop"})
            return type(outcome)(outcome.score, metrics={HOSTILE: 1.0, "text": HOSTILE})

    return play(where, Named, space=names, rounds=8)


@pytest.fixture(scope="module")
def hostile_page(hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> Page:
    output = tmp_path_factory.mktemp("page") / "report.html"
    write_report([hostile], output)
    return Page(output)


def test_whatever_a_user_names_is_text(hostile_page: Page) -> None:
    assert [s for s in hostile_page.all("script") if s.get("type") not in ("module", "application/json")] == []
    assert len(hostile_page.all("script")) == 3
    assert hostile_page.all("img") == hostile_page.all("b") == []
    assert not [attrs for _, attrs in hostile_page.tags if any(name.startswith("on") for name in attrs)]
    assert HOSTILE.split("\u2028")[0] in hostile_page.text
    assert "..  <b>run</b> & 'co'" in hostile_page.text


def test_what_is_named_arrives_in_the_data_as_it_is(hostile_page: Page) -> None:
    columns = hostile_page.data["tables"]["intervals"]["columns"]
    row = hostile_page.data["tables"]["intervals"]["rows"][0]
    assert columns[:3] == ["member", "round", "status"]
    assert row[columns.index("image")] in (HOSTILE[:149] + "…", HOSTILE, "b", "constructor")
    specs = json.dumps(hostile_page.data["figures"])
    assert "document.title" in specs


def test_no_script_but_the_pages_own_may_run_and_nothing_may_be_loaded(hostile_page: Page) -> None:
    (policy,) = [meta["content"] for meta in hostile_page.all("meta") if "http-equiv" in meta]
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "'unsafe-inline'" not in rules["script-src"]
    assert len(re.findall("'sha256-", rules["script-src"])) == 2
    for tag, attributes in hostile_page.tags:
        assert not str(attributes.get("href", "#")).strip("#").startswith("http"), (tag, attributes)
        assert "src" not in attributes, (tag, attributes)


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "]]>", "\u2028\u2029", "&lt;", '"\\', "\0"])
def test_json_in_a_script_cannot_end_it_and_reads_back(text: str) -> None:
    written = script_json({"x": [text]})
    assert not re.search("[<>&\u2028\u2029]", written)
    assert json.loads(written) == {"x": [text]}


def test_a_huge_traceback_is_cut_with_a_note(tmp_path: Path) -> None:
    History({"x": (0.0, 1.0)}, [Observation(0, 0, {"x": 0.5}, status="failed")]).save(tmp_path)
    huge = "first line\n" + 10_000_000 * "x" + "\nlast line"
    with Store.open(tmp_path) as store:
        store.write(events=[Event("failed", "ValueError: it broke", 0, 0, {"traceback": huge})])
    output = tmp_path / "report.html"
    write_report([tmp_path], output)
    text = Page(output).text
    assert "first line" in text
    assert "last line" in text
    assert f"{len(huge) - MAX_TRACEBACK_CHARS:,} characters left out" in text
    assert output.stat().st_size < 2_000_000


def test_there_is_no_box_of_what_to_do_next_without_anything_to_do(tmp_path: Path) -> None:
    History({"x": (0.0, 1.0)}).save(tmp_path)
    write_report([tmp_path], tmp_path / "report.html")
    assert "What to do next" not in Page(tmp_path / "report.html").text


def test_a_page_names_the_versions_that_its_run_was_last_started_with(tmp_path: Path) -> None:
    History({"x": (0.0, 1.0)}, [Observation(0, 0, {"x": 0.5}, score=1.0)]).save(tmp_path)
    write_report([tmp_path], page := tmp_path / "report.html")
    assert "Last started" not in Page(page).text
    with Store.open(tmp_path) as store:
        store.describe(versions={"python": "3.12.3", "torch": f"2.11.0 {HOSTILE}"})
    write_report([tmp_path], page)
    assert f"Last started with python 3.12.3, torch 2.11.0 {HOSTILE}." in Page(page).text.replace("\u200b", "")


def test_a_page_tells_the_run_in_words_figures_and_tables(tmp_path: Path) -> None:
    where = play(tmp_path / "run", Clumsy)
    write_report([where], tmp_path / "out" / "report.html")
    page, history = Page(tmp_path / "out" / "report.html"), History.load(where)
    drawn = [div["data-figure"] for div in page.all("div") if "data-figure" in div]
    assert set(drawn) == set(page.data["figures"]) == {"winner", "learning", "schedules", "tried", "costs", "effects"}
    assert f"popbandits replay {where}" in page.text
    assert f"{sum(o.failed for o in history)} interval" in page.text
    assert "it fell" in page.text
    assert len(page.data["tables"]["intervals"]["rows"]) == len(history)
    assert {option["value"] for option in page.all("option")} == {"-1", "0", "1", "2", "3"}


def test_every_figure_has_a_caption_and_a_name_for_those_who_cannot_see_it(tmp_path: Path) -> None:
    write_report([play(tmp_path / "run", rounds=3)], tmp_path / "report.html")
    page = Page(tmp_path / "report.html")
    charts = [div for div in page.all("div") if "data-figure" in div]
    assert len(charts) == len(page.all("figure")) == len(page.all("figcaption")) > 3
    assert all(len(chart["aria-label"] or "") > 40 for chart in charts)
    assert page.all("html") == [{"lang": "en"}]
    assert all("scope" in th for th in page.all("th"))
    assert len(page.all("table")) == len(page.all("caption"))
    labels = {button.get("id") for button in page.all("button")} | {one.get("id") for one in page.all("input")}
    assert {"theme", "winning", *(f"intervals-{one}" for one in ("filter", "previous", "next"))} <= labels


def test_the_table_of_a_long_run_holds_the_latest_and_the_winning_lineage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_module, "MAX_INTERVAL_ROWS", 20)
    run = Run.read(play(tmp_path / "run", rounds=12))
    columns, rows, note = interval_table(run)
    shown = {(row[0], row[1]) for row in rows}
    assert len(rows) <= 20
    assert run.history[-1].key in shown
    assert {step.key for step in run.history.lineage()[-9:]} <= shown
    assert f"popbandits export {run.directory}" in note
    assert len(columns) == len(rows[0])


def test_a_copy_is_told_by_what_differs_from_its_parent_and_by_its_gain_beside_its_round(tmp_path: Path) -> None:
    made = {"lr": (0.0, 1.0), "act": ["relu", "tanh"], "beta": (0.0, 1.0)}
    first = [{"lr": 0.1 * m + 0.1, "act": "relu", "beta": 0.5} for m in range(4)]
    history = History(made, size=4, mode="min")
    for m in range(4):
        history.append(Observation(m, 0, first[m], score=10.0 - m))
    # Member 0 gives up lr 0.1 for member 3's 0.4, and explores from there.
    new = {"lr": 0.45, "act": "tanh", "beta": 0.5}
    history.append(Observation(0, 1, new, (3, 0), 7.0, 4.0))
    for m, change in ((1, -1.0), (2, -2.0), (3, -9.0)):
        history.append(Observation(m, 1, first[m], (m, 0), 10.0 - m, 10.0 - m + change))
    history.save(tmp_path)
    columns, rows, note = copies_table(Run.read(tmp_path))
    (row,) = [dict(zip(columns, row, strict=True)) for row in rows]
    assert (row["round"], row["member"], row["from"], row["winning"]) == (1, 0, "3, round 0", False)
    assert row["changed"] == "act relu → tanh · lr 0.4 → 0.45"
    assert (row["score"], row["change"]) == (4.0, -3.0)
    assert row["beside its round"] == 1.0  # Less is better: it gained 3, the others 1, 2 and 9.
    assert "minus the median change of the others" in note
    write_report([tmp_path], tmp_path / "report.html")
    assert Page(tmp_path / "report.html").data["tables"]["copies"] == {"columns": columns, "rows": rows}


def test_a_label_none_is_not_taken_for_a_value_that_is_off(tmp_path: Path) -> None:
    run = Run.read(play(tmp_path / "run", rounds=3))
    columns, rows, _ = interval_table(run)
    augmentation, momentum = columns.index("augmentation"), columns.index("momentum")
    assert {row[augmentation] for row in rows} == {"crop", "rotate", "None"}
    assert all((row[momentum] is None) == (row[augmentation] != "crop") for row in rows)


def test_a_run_that_has_hardly_begun_has_a_report(tmp_path: Path) -> None:
    History(space(), size=4, rounds=9).save(tmp_path / "empty")
    write_report([tmp_path / "empty"], tmp_path / "empty.html")
    assert "nothing to compare" in Page(tmp_path / "empty.html").text
    one = History({"x": (0.0, 1.0)}, [Observation(0, 0, {"x": 0.5}, score=1.0)])
    one.save(tmp_path / "one")
    write_report([tmp_path / "one"], tmp_path / "one.html")
    assert "learning" in Page(tmp_path / "one.html").data["figures"]


@pytest.mark.parametrize(
    "made",
    [{"x": (0.0, 1.0)}, {"a": ["x", "y"], "b": [True, False]}, {"net": {"act": ["relu", None], "depth": (1, 3)}}],
    ids=["numbers alone", "labels alone", "nested"],
)
def test_a_report_can_be_made_of_any_space(tmp_path: Path, made: Any) -> None:
    class Indifferent(Climber):
        def train(self, config: dict[str, Any]) -> Any:
            return super().train({"lr": 1e-3, "augmentation": "crop"})

    write_report([play(tmp_path / "run", Indifferent, space=made, rounds=6)], tmp_path / "report.html")
    assert "learning" in Page(tmp_path / "report.html").data["figures"]


def test_infinite_metrics_do_not_spoil_the_page(tmp_path: Path) -> None:
    observations = [
        Observation(0, 0, {"x": 0.5}, score=1.0, metrics={"loss": math.inf, "big": 10**30, "nothing": math.nan}),
        Observation(0, 1, {"x": 0.5}, parent=(0, 0), score_before=1.0, score=-1e300),
    ]
    History({"x": (0.0, 1.0)}, observations).save(tmp_path)
    write_report([tmp_path], tmp_path / "report.html")
    data = Page(tmp_path / "report.html").data
    assert len(data["tables"]["intervals"]["rows"]) == 2


def test_a_run_whose_members_went_at_their_own_pace_reads_the_same(tmp_path: Path) -> None:
    run = play(tmp_path / "run", rounds=6, synchronous=False, engine="threads", workers=3)
    write_report([run], tmp_path / "report.html")
    page = Page(tmp_path / "report.html")
    assert len(page.data["tables"]["intervals"]["rows"]) == 24
    assert {"winner", "learning", "schedules"} <= set(page.data["figures"])
    assert " of 8 rounds)" in page.text  # Too early for what was gained.
    assert "This run cannot tell what" in page.text  # Too few configurations in six rounds.


def test_several_runs_are_compared_by_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each as SVG, from which PNG and PDF are made; test_figures has every kind of file.
    monkeypatch.setattr(Figure, "write", partialmethod(Figure.write, kinds=("svg", "vl.json")))
    runs = [
        play(tmp_path / f"{name}-{seed}", rounds=3, seed=seed, method=method)
        for name, method in (("pbt", PBT()), ("near", NearPBT()))
        for seed in range(2)
    ]
    written = write_report(runs, tmp_path / "report.html", tmp_path / "figures")
    page = Page(tmp_path / "report.html")
    assert {"comparison", "schedules", "effects"} == set(page.data["figures"])
    assert "mean ± standard deviation (number of runs); more is better" in page.text
    assert re.search(r"[\d.]+ ± [\d.]+ \(2\)", page.text)
    assert re.search(r"has the best mean: [\d.]+ over 2 runs\.", page.text)
    assert "One run decides nothing" not in page.text
    assert all(str(run) in page.text for run in runs)
    write_report(runs[:2], tmp_path / "seeds.html")
    assert "Nothing is compared with PBT, whose mean is " in Page(tmp_path / "seeds.html").text
    assert len(written) == 1 + 2 * 3
    assert all(path.stat().st_size > 0 for path in written)


def test_a_folder_of_runs_is_compared_and_fixed_settings_tried_nothing(tmp_path: Path) -> None:
    settings = {"lr": 0.001, "augmentation": "crop", "epochs": 2}
    play(tmp_path / "runs/tuned", rounds=3)
    play(tmp_path / "runs/alone/0", rounds=3, population=1, space=settings)
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    page = Page(tmp_path / "report.html")
    assert {point["method"] for point in page.data["figures"]["comparison"]["datasets"]["task0"]} == {
        "Fixed settings",
        "PB2-Fuse",
    }
    # A notebook draws the same figures, and shows each as a picture.
    for drawn, figures in (
        (draw(tmp_path / "runs"), set(page.data["figures"])),
        (draw(tmp_path / "runs/alone/0"), {"winner", "learning", "costs"}),
    ):
        assert set(drawn) == figures
        first = next(iter(drawn.values()))
        assert first._repr_svg_().startswith("<svg")
        assert repr(first) == f"Figure({first.name!r}: {first.title})"
    assert "over 1 run. One run decides nothing." in page.text
    assert page.text.count("What was tried") == 2  # A heading and the link to it.


def test_a_report_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="a report needs a run, got none"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(HistoryError, match="holds no run"):
        write_report([tmp_path], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_missing_extra_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'popbandits[report]'")):
        write_report([tmp_path], tmp_path / "report.html")
