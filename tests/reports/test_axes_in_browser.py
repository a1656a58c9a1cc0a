"""Axes of the learning curves, and narrow windows, in a real browser: pages of one run with long names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer
from playwright.sync_api import Browser, Page, expect

from popbandits import PBT
from popbandits.agent import Outcome
from popbandits.history import Observation
from popbandits.reports.report import write_report
from popbandits.reports.run import MAX_LABEL_CHARS, shorten
from popbandits.storage import Store
from tests.reports.narrow import NARROW, faults
from tests.reports.played import HOSTILE, Climber, play
from tests.reports.served import served
from tests.reports.test_figures import climb
from tests.reports.test_live_in_browser import fact
from tests.reports.test_live_in_browser import opened as opened_live
from tests.reports.test_report_in_browser import opened as opened_report

KERNEL = "random_convolution_kernel_size_when_convolving"
LONG = "random_convolution_with_a_very_long_label_name"
METRIC = "explained_variance_of_the_value_function_on_held_out_levels"
ODD = f"z {HOSTILE}"
RATE = "optimizer_configuration.learning_rate_after_the_warmup"
SOURCES = "Object.values(JSON.parse(document.getElementById('data').textContent).values)"


def named_at_length() -> ConfigurationSpace:
    made = ConfigurationSpace(
        {
            "lr": Float("lr", (1e-5, 1e-1), log=True),
            RATE: Float(RATE, (1e-5, 1e-1), log=True),
            "augmentation": Categorical("augmentation", ["crop", LONG, None]),
            KERNEL: Integer(KERNEL, (1, 9)),
        }
    )
    made.add(EqualsCondition(made[KERNEL], made["augmentation"], LONG))
    return made


class Wordy(Climber):
    """Reports steps and metrics, and fails once, with long names everywhere."""

    def train(self, config: dict[str, Any]) -> Outcome:
        if self.height > 1.5 and config["lr"] > 1e-2:
            raise ValueError(f"CUDA_error_out_of_memory_while_allocating_a_tensor_for_{KERNEL}_on_the_device")
        metrics = {METRIC: float(self.rng.random()), "loss": {"policy": -self.height}, "note": "text", ODD: 1.0}
        return Outcome(super().train(config).score, steps=2048.0, metrics=metrics)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    return play(folder / f"run_on_{KERNEL}", Wordy, space=named_at_length(), method=PBT(), rounds=5)


@pytest.fixture
def report(browser: Browser, run: Path, tmp_path: Path) -> Iterator[Page]:
    write_report([run], tmp_path / "report.html")
    with opened_report(browser, tmp_path / "report.html") as page:
        yield page


CURVES = "[data-figure=learning]:not([aria-busy]) canvas"
"""The learning curves, unless they are being drawn: as they are at first and then, where there is no room, narrower."""


def drawn(page: Page) -> str:
    """The picture of the learning curves."""
    picture: str = page.locator(CURVES).evaluate("canvas => canvas.toDataURL()")
    return picture


def changed(page: Page, before: str) -> str:
    """The picture, once it is another one."""
    other = "([curves, before]) => (document.querySelector(curves)?.toDataURL() ?? before) !== before"
    page.wait_for_function(other, arg=[CURVES, before])
    return drawn(page)


def choose_with_keys(page: Page) -> None:
    """Choose the second horizontal axis and the second vertical one, and check that the curves follow."""
    x, y = page.get_by_label("Horizontal axis"), page.get_by_label("Vertical axis")
    assert x.locator("option").all_inner_texts() == ["round", "steps", "training time"]
    assert y.locator("option").all_inner_texts() == ["score", METRIC, "loss.policy", shorten(ODD, MAX_LABEL_CHARS)]
    first = drawn(page)
    x.focus()
    page.keyboard.press("ArrowDown")
    second = changed(page, first)
    page.keyboard.press("Tab")
    expect(y).to_be_focused()
    page.keyboard.press("ArrowDown")
    changed(page, second)
    assert (x.input_value(), y.input_value()) == ("steps", f"metric:{METRIC}")


def test_in_a_report_curves_are_drawn_along_the_axes_that_a_reader_chooses(report: Page) -> None:
    choose_with_keys(report)
    assert report.evaluate(f"{SOURCES}.length") == 3
    report.set_viewport_size(NARROW)
    assert faults(report) == []
    report.locator("details").first.evaluate("one => { one.open = true; }")
    assert faults(report) == []


def test_a_far_score_is_off_the_curves_until_a_reader_asks_for_it(browser: Browser, tmp_path: Path) -> None:
    climb(tmp_path / "run", {(2, 0): -900.0})
    write_report([tmp_path / "run"], tmp_path / "report.html")
    with opened_report(browser, tmp_path / "report.html") as page:
        box = page.get_by_label("leave out 1 far score")
        expect(box).to_be_checked()
        expect(page.get_by_label("leave out the steep start")).to_be_hidden()
        first = drawn(page)
        box.uncheck()
        whole = changed(page, first)
        page.wait_for_selector("body[data-ready=true]")
        box.check()
        assert changed(page, whole) == first
    with served(tmp_path) as server, opened_live(browser, f"http://localhost:{server.port}/run?run=run") as page:
        page.wait_for_selector("#figure-schedules canvas")
        first = drawn(page)
        page.get_by_label("leave out 1 far score").uncheck()
        changed(page, first)


def test_on_a_live_page_the_axes_stay_as_they_were_chosen_while_the_run_goes_on(browser: Browser, run: Path) -> None:
    with (
        served(run.parent) as server,
        opened_live(browser, f"http://localhost:{server.port}/run?run={run.name}") as page,
        Store.open(run) as store,
    ):
        page.wait_for_selector("#figure-schedules canvas")
        choose_with_keys(page)
        before, last = drawn(page), store.latest(0, 1)[0]
        new = Observation(0, last.round + 1, last.config, last.key, last.score, 9.0, 2048.0, 1.0, metrics={METRIC: 5.0})
        with page.expect_response("**/api/curves*") as response:
            store.extend([new])
        assert response.value.json()["values"]["members"].count(5.0) == 1
        changed(page, before)
        fact(page, "observations", "21")
        expect(page.get_by_label("Vertical axis")).to_be_focused()
        assert page.get_by_label("Vertical axis").input_value() == f"metric:{METRIC}"
        page.locator("#members").get_by_role("button", name="member 1").click()
        page.get_by_role("heading", name="Member 1").wait_for()
        page.set_viewport_size(NARROW)
        assert faults(page) == []
        before = drawn(page)
        page.get_by_label("Vertical axis").select_option(f"metric:{ODD}")
        changed(page, before)
        assert faults(page) == []
