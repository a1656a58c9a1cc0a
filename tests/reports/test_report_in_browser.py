"""The page in a real browser: from a file, without a network, with hostile names in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from popbandits import PBT
from popbandits.reports.report import write_report
from tests.reports.browser import COLOURS, CORNER, PATIENCE
from tests.reports.played import HOSTILE, Clumsy, play, space
from tests.warned_runs import stuck_then_rising

WIDE = {"width": 1100, "height": 900}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    run = play(folder / f"run {HOSTILE[9:40].replace('/', '|')}", Clumsy, space=space(HOSTILE), rounds=10)
    write_report([run], folder / "report.html")
    return folder / "report.html"


@contextmanager
def opened(browser: Browser, path: Path) -> Iterator[Page]:
    """A page from a file, all figures drawn; nothing may be asked of a network or said on the console."""
    context = browser.new_context(viewport=WIDE, offline=True, color_scheme="light")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready=true]")
    yield page
    assert page.evaluate("document.title") != "owned"
    context.close()
    assert said == []


@pytest.fixture(scope="module")
def page(browser: Browser, written: Path) -> Iterator[Page]:
    """A page for tests that leave it as they found it: drawing one takes seconds."""
    with opened(browser, written) as made:
        yield made


def test_every_figure_draws(page: Page) -> None:
    charts = page.locator(".chart")
    assert charts.count() == 6
    for i in range(charts.count()):
        canvas = charts.nth(i).locator("canvas")
        assert canvas.count() == 1
        assert canvas.evaluate(COLOURS) > 20, charts.nth(i).get_attribute("data-figure")


def test_hostile_names_are_shown_as_text(page: Page) -> None:
    assert page.locator("img").count() == 0
    assert "document.title='owned'" in page.locator("body").inner_text()
    page.locator("#intervals-filter").fill("owned")
    assert "document.title" in page.locator("#intervals tbody tr").first.inner_text()
    page.locator("#intervals-filter").fill("")


def test_the_pointer_on_a_mark_shows_what_it_is(page: Page) -> None:
    canvas = page.locator("#figure-effects canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    tooltip = page.locator("#vg-tooltip-element.visible")
    # A bar begins at zero, in the middle of its row.
    for i in range(200):
        page.mouse.move(box["x"] + 120 + 8 * (i % 50), box["y"] + 55 + 24 * (i // 50))
        if tooltip.count():
            break
    assert "effect of" in tooltip.inner_text()
    assert "z-value" in tooltip.inner_text()


def test_the_table_filters_sorts_and_pages(page: Page) -> None:
    found, rows = page.locator("#intervals-found"), page.locator("#intervals tbody tr")
    assert found.inner_text() == "40 intervals, page 1 of 1"
    page.locator("#intervals-filter").fill("failed")
    failed = rows.count()
    assert 0 < failed < 40
    assert all("failed" in text for text in rows.all_inner_texts())
    page.locator("#intervals-filter").fill("")
    page.get_by_label("winning lineage only").check()
    assert rows.count() == page.locator("#intervals tr.winning").count() < 40
    page.get_by_label("winning lineage only").uncheck()
    page.locator("#intervals").get_by_role("button", name="score", exact=True).click()
    column = rows.locator("td:nth-child(6)").all_inner_texts()
    scores = [float(text) for text in column if text]
    assert scores == sorted(scores)
    assert column[-failed:] == [""] * failed  # What has no score comes last.
    page.locator("#intervals").get_by_role("button", name="score", exact=True).click()
    assert page.locator("#intervals th[aria-sort=descending]").inner_text() == "score"
    assert float(rows.first.locator("td:nth-child(6)").inner_text()) == max(scores)


def test_the_table_of_copies_sorts_and_marks_the_winning_ones(page: Page) -> None:
    rows, found = page.locator("#copies tbody tr"), page.locator("#copies-found")
    assert found.inner_text() == f"{rows.count()} copies, page 1 of 1"
    assert 0 < page.locator("#copies tr.winning").count() < rows.count()
    assert all(" → " in text or "nothing else" in text for text in rows.locator("td:nth-child(7)").all_inner_texts())
    page.locator("#copies").get_by_role("button", name="beside its round").click()
    beside = [float(text) for text in rows.locator("td:nth-child(6)").all_inner_texts() if text]
    assert beside == sorted(beside)


# Of a table's box: whether the page or the box is cut, whether its bar is in view, its width, and what is at its right.
BOX = """table => {
    const box = table.parentElement;
    box.scrollLeft = box.scrollWidth;
    box.scrollTop = 200;
    const [inside, head] = [box, table.tHead.rows[0].lastElementChild].map((one) => one.getBoundingClientRect());
    const said = {
        page: document.documentElement.scrollWidth <= innerWidth,
        bar: box.scrollWidth <= box.clientWidth || inside.height <= innerHeight,
        last: head.right <= inside.right + 1,
        heads: Math.abs(head.top - inside.top) < 1,
        width: inside.width,
    };
    [box.scrollLeft, box.scrollTop] = [0, 0];
    return said;
}"""


def test_a_wide_table_scrolls_in_a_box_that_fits_the_window_and_uses_its_width(page: Page) -> None:
    try:
        widths = {}
        for width in (1000, 1600):
            page.set_viewport_size({"width": width, "height": 900})
            found = page.locator("#intervals").evaluate(BOX)
            widths[width] = found.pop("width")
            assert found == {"page": True, "bar": True, "last": True, "heads": True}, width
        assert widths[1000] < 1000 < widths[1600]
    finally:
        page.set_viewport_size(WIDE)
        page.wait_for_selector("body[data-ready=true]")


def test_a_member_can_be_brought_out(page: Page) -> None:
    canvas = page.locator("#figure-schedules canvas")
    before = canvas.evaluate("canvas => canvas.toDataURL()")
    page.get_by_role("combobox", name="Highlight").select_option("2")
    page.wait_for_function("url => document.querySelector('#figure-schedules canvas').toDataURL() !== url", arg=before)
    page.get_by_role("combobox", name="Highlight").select_option("-1")
    page.wait_for_function("url => document.querySelector('#figure-schedules canvas').toDataURL() === url", arg=before)


def test_sliders_brush_the_configurations_by_score_and_round(page: Page) -> None:
    canvas, sliders = page.locator("#figure-tried canvas"), page.locator("#figure-tried .sliders input")
    assert sliders.count() == 3
    for name, key, back in (("best share of scores", "ArrowLeft", "End"), ("from round", "ArrowRight", "Home")):
        slider = page.locator("#figure-tried .sliders label").filter(has_text=name).locator("input")
        before = canvas.evaluate("canvas => canvas.toDataURL()")
        for _ in range(5):
            slider.press(key)  # A pointer does the same.
        changed = "url => document.querySelector('#figure-tried canvas').toDataURL() !== url"
        page.wait_for_function(changed, arg=before)
        slider.press(back)


def test_light_and_dark_redraw_everything(page: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Switch to dark colours").click()
    page.wait_for_selector("body[data-ready=true]")
    assert page.evaluate(ground) != light
    assert page.locator(".chart canvas").count() == 6
    assert page.locator("#figure-learning canvas").evaluate(CORNER) == [23, 25, 30, 255]
    page.get_by_role("button", name="Switch to light colours").click()
    page.wait_for_selector("body[data-ready=true]")
    assert page.evaluate(ground) == light


def test_a_page_can_be_used_with_the_keyboard_alone_and_in_a_narrow_window(browser: Browser, written: Path) -> None:
    with opened(browser, written) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        visited = set()
        for _ in range(120):
            page.keyboard.press("Tab")
            visited.add(page.evaluate("document.activeElement.id || document.activeElement.dataset.figure || ''"))
        assert {
            "theme",
            "member",
            "winner",
            "learning",
            "tried",
            "copies-filter",
            "intervals-filter",
            "winning",
        } <= visited
        page.locator("#intervals th button").first.focus()
        page.keyboard.press("Enter")
        assert page.locator("th[aria-sort]").count() == 1
        page.set_viewport_size({"width": 420, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_warnings_stand_at_the_top_as_text(browser: Browser, tmp_path: Path) -> None:
    stuck_then_rising(f"lr {HOSTILE[9:60]}").prefix(60).save(tmp_path / "run")
    write_report([tmp_path / "run"], tmp_path / "report.html")
    with opened(browser, tmp_path / "report.html") as page:
        area = page.locator("section").first.locator(".warned")
        assert "What to do next" in area.inner_text()
        assert "has not got better by more than noise explains" in area.inner_text()
        assert "document.title='owned'" in area.inner_text()
        page.set_viewport_size({"width": 420, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_a_comparison_of_several_runs_draws(browser: Browser, tmp_path: Path) -> None:
    runs = [play(tmp_path / str(seed), seed=seed, method=PBT(), rounds=3) for seed in range(2)]
    write_report(runs, tmp_path / "report.html")
    with opened(browser, tmp_path / "report.html") as page:
        for canvas in page.locator(".chart canvas").all():
            assert canvas.evaluate(COLOURS) > 5
        assert page.locator(".chart canvas").count() == 3
