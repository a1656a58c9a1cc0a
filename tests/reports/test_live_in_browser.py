"""The live page in a real browser, following real runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.reports.browser import COLOURS, CORNER, PATIENCE
from tests.reports.played import HOSTILE, Clumsy, play, space
from tests.reports.served import Asking, served
from tests.reports.waiting import ROUNDS, Process
from tests.warned_runs import stuck_then_rising

WIDE: ViewportSize = {"width": 1100, "height": 900}
FACT = "#facts div:has(dt:text-is('{}')) dd"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs")
    play(made / "clumsy", Clumsy, space=space(HOSTILE), rounds=10, seed=1)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Asking]:
    with served(folder) as made:
        yield made


@contextmanager
def opened(browser: Browser, address: str) -> Iterator[Page]:
    """A page; nothing may be said on the console."""
    context = browser.new_context(viewport=WIDE, color_scheme="light")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address)
    page.wait_for_selector("body[data-ready=true]")
    yield page
    assert page.evaluate("document.title") != "owned"
    context.close()
    assert said == []


@pytest.fixture(scope="module")
def shared(browser: Browser, server: Asking) -> Iterator[Page]:
    """A page for tests that leave it as they found it: drawing one takes seconds."""
    with opened(browser, f"http://localhost:{server.port}/run?run=clumsy") as made:
        yield made


@pytest.fixture
def page(shared: Page) -> Iterator[Page]:
    """The shared page; afterwards no member is chosen in it."""
    yield shared
    chosen = shared.locator("#members button[aria-pressed=true]")
    if chosen.count():
        chosen.click()
        expect(shared.locator("#member")).to_be_hidden()


def fact(page: Page, name: str, value: str) -> None:
    expect(page.locator(FACT.format(name))).to_have_text(value)


def test_the_page_follows_a_run_through_its_kill_and_its_resume(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    run = Process(tmp_path / "runs" / "waiting", tmp_path / "gate")
    try:
        run.let(1)
        with served(tmp_path / "runs") as server, opened(browser, f"http://localhost:{server.port}/runs") as page:
            page.get_by_role("link", name="waiting").click()
            fact(page, "state", "running")
            fact(page, "observations", "3")
            page.wait_for_selector("body[data-ready=true]")
            page.evaluate("window.mark = 'not loaded again'")
            chart = page.locator("#figure-learning canvas")
            before = chart.evaluate("canvas => canvas.toDataURL()")
            run.let(3)
            fact(page, "observations", "9")
            changed = "before => document.querySelector('#figure-learning canvas').toDataURL() !== before"
            page.wait_for_function(changed, arg=before)
            expect(page.locator("#members tbody tr")).to_have_count(3)
            expect(page.locator("#members tbody tr").first).to_contain_text("training")
            run.kill()
            fact(page, "state", "killed")
            expect(page.locator("#members tbody tr").first).to_contain_text("interrupted")
            run.resume()
            fact(page, "state", "running")
            expect(page.locator("#log")).to_contain_text("resumed")
            run.let(ROUNDS)
            fact(page, "state", "finished")
            fact(page, "observations", str(3 * ROUNDS))
            assert run.process.wait() == 0
            expect(page.locator("#told")).to_contain_text(f"finished: round {ROUNDS} of {ROUNDS}, best score ")
            assert page.evaluate("window.mark") == "not loaded again"
    finally:
        run.kill()


def test_warnings_appear_as_text_while_they_hold_and_then_go(browser: Browser, tmp_path: Path) -> None:
    history = stuck_then_rising(f"lr {HOSTILE[9:60]}")
    history.prefix(60).save(tmp_path / "stuck")
    with served(tmp_path) as server, opened(browser, f"http://localhost:{server.port}/run?run=stuck") as page:
        area = page.locator("#warned")
        expect(area).to_contain_text("Worth a look")
        expect(area.locator("li")).to_have_count(1)
        expect(area).to_contain_text("has not got better by more than noise explains")
        expect(area).to_contain_text("document.title='owned'")
        page.set_viewport_size({"width": 420, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        history.save(tmp_path / "stuck")
        fact(page, "observations", "200")
        expect(area).to_be_hidden()


def test_both_figures_draw(page: Page) -> None:
    expect(page.locator("#figure-schedules canvas")).to_have_count(1)
    for canvas in page.locator(".chart canvas").all():
        assert canvas.evaluate(COLOURS) > 20


# The names of key figures that take more than a line.
BROKEN = """names => names
    .filter((name) => name.offsetHeight > 2 * parseFloat(getComputedStyle(name).fontSize))
    .map((name) => name.textContent)"""


def test_names_of_key_figures_are_whole_in_any_window(page: Page) -> None:
    try:
        for width in (360, 400, 900):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.locator("#facts dt").evaluate_all(BROKEN) == [], width
    finally:
        page.set_viewport_size(WIDE)


def test_a_member_is_chosen_and_left_with_the_keyboard_alone_and_fits_a_narrow_window(
    browser: Browser, server: Asking
) -> None:
    with opened(browser, f"http://localhost:{server.port}/run?run=clumsy") as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        button = page.locator("#members").get_by_role("button", name="member 2")
        for _ in range(60):
            page.keyboard.press("Tab")
            if button.evaluate("one => one === document.activeElement"):
                break
        page.keyboard.press("Enter")
        panel = page.locator("#member")
        expect(panel).to_be_visible()
        expect(panel.get_by_role("heading", name="Member 2, after round 9")).to_be_focused()
        expect(button).to_have_attribute("aria-pressed", "true")
        for text in ("lr", "epochs", "Descends from: member 2", "Its last intervals"):
            expect(panel).to_contain_text(text)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(panel).to_be_hidden()
        expect(button).to_be_focused()
        page.locator("#members").get_by_role("button", name="member 1").click()
        page.get_by_role("heading", name="Member 1, after round").wait_for()
        page.set_viewport_size({"width": 420, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_a_chosen_member_is_brought_out_in_the_figures(page: Page) -> None:
    chart = page.locator("#figure-learning canvas")
    before = chart.evaluate("canvas => canvas.toDataURL()")
    page.locator("#members").get_by_role("button", name="member 1").click()
    page.wait_for_function(
        "before => document.querySelector('#figure-learning canvas').toDataURL() !== before", arg=before
    )


def test_failures_are_shown_as_text_and_whole_on_demand(page: Page, server: Asking) -> None:
    for number in range(4):
        page.locator("#members").get_by_role("button", name=f"member {number}").click()
        page.get_by_role("heading", name=f"Member {number}, after round").wait_for()
        if page.locator("#member details").count():
            break
    page.locator("#member summary").first.click()
    expect(page.locator("#member pre").first).to_contain_text("document.title='owned'")
    assert page.locator("img").count() == 0
    link = page.locator("#member details a").first.get_attribute("href")
    whole = server.get(f"/{link}")
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert HOSTILE in whole.text


def test_members_are_filtered_and_sorted(page: Page) -> None:
    rows = page.locator("#members tbody tr")
    page.locator("#members-filter").fill("nothing of the kind")
    expect(rows).to_have_count(0)
    page.locator("#members-filter").fill("done")
    assert 0 < rows.count() <= 4
    page.locator("#members-filter").fill("")
    page.locator("#members th").get_by_role("button", name="score").click()
    column = [text for text in rows.locator("td:nth-child(4)").all_inner_texts() if text]
    assert list(map(float, column)) == sorted(map(float, column))


def test_a_paused_page_stays_as_it_is_until_it_goes_on(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    run = Process(tmp_path / "runs" / "waiting", tmp_path / "gate")
    try:
        run.let(1)
        with served(tmp_path / "runs") as server:
            address = f"http://localhost:{server.port}/run?run=waiting"
            while server.get("/run?run=waiting").status != 200:
                assert run.process.poll() is None
            with opened(browser, address) as page, opened(browser, address) as other:
                fact(page, "observations", "3")
                page.get_by_role("button", name="Pause").click()
                run.let(2)
                fact(other, "observations", "6")
                fact(page, "observations", "3")
                expect(page.locator("#link")).to_have_text("Paused: the page is not updated")
                page.get_by_role("button", name="Resume").click()
                fact(page, "observations", "6")
    finally:
        run.kill()


def test_light_and_dark(page: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    shows = f"({CORNER})(document.querySelector('#figure-learning canvas'))[0]"
    assert page.evaluate(shows) == 255
    page.get_by_role("button", name="Switch to dark colours").click()
    assert page.evaluate(ground) != light
    page.wait_for_function(f"{shows} === 23")
    page.get_by_role("button", name="Switch to light colours").click()
    page.wait_for_function(f"{shows} === 255")
    assert page.evaluate(ground) == light


def test_runs_appear_in_the_list_as_they_begin(browser: Browser, folder: Path, tmp_path: Path) -> None:
    with served(tmp_path) as server, opened(browser, f"http://localhost:{server.port}/") as page:
        expect(page.locator("#told")).to_have_text("No runs here yet. They appear when they start.")
        play(tmp_path / "first", rounds=2)
        expect(page.locator("#runs tbody tr")).to_have_count(1)
        expect(page.locator("#runs tbody tr").first).to_contain_text("finished")
        page.get_by_role("link", name="first").click()
        fact(page, "rounds", "2 of 2")


def test_what_a_page_says_when_its_run_or_its_server_is_gone(browser: Browser, tmp_path: Path) -> None:
    run = play(tmp_path / "runs" / "first", rounds=2)
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    with served(tmp_path / "runs") as server:
        page.goto(f"http://localhost:{server.port}/run?run=first")
        fact(page, "rounds", "2 of 2")
        run.rename(tmp_path / "elsewhere")
        expect(page.locator("#wrong")).to_contain_text("holds no run")
        (tmp_path / "elsewhere").rename(run)
        expect(page.locator("#wrong")).to_be_hidden(timeout=PATIENCE)
    expect(page.locator("#link")).to_have_text("Not connected; trying again")
    context.close()


def test_the_demo_and_its_report_are_shown(browser: Browser, demo_run: Path) -> None:
    with served(demo_run) as server, opened(browser, f"http://localhost:{server.port}/") as page:
        fact(page, "observations", "20")
        expect(page.locator("#method")).to_have_text("Near PBT · seed 0")
        expect(page.locator("#figure-schedules canvas")).to_have_count(1)
        for canvas in page.locator(".chart canvas").all():
            assert canvas.evaluate(COLOURS) > 20
        page.get_by_role("link", name="Current report").click()
        page.get_by_role("heading", name="What to do next").wait_for()
        page.wait_for_selector("body[data-ready=true]")
        for chart in page.locator(".chart").all():
            assert chart.locator("canvas").evaluate(COLOURS) > 20, chart.get_attribute("data-figure")
        assert page.locator(".chart").count() >= 4
        assert page.locator("#intervals tbody tr").count() == 20
