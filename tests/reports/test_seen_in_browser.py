"""Pages can be read and used by everybody: contrast as a browser computes it, and the keyboard alone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from popbandits import PBT
from popbandits.reports.report import write_report
from tests.reports.browser import PATIENCE
from tests.reports.played import Clumsy, play
from tests.reports.seen import faint, unreachable
from tests.reports.served import served

PAGES = ("report", "comparison", "runs", "run")


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where each kind of page is."""
    folder = tmp_path_factory.mktemp("seen")
    runs = [play(folder / "runs" / "clumsy", Clumsy, rounds=8), play(folder / "runs" / "pbt", method=PBT(), rounds=8)]
    write_report(runs[:1], folder / "report.html")
    write_report(runs, folder / "comparison.html")
    with served(folder / "runs") as server:
        live = f"http://localhost:{server.port}"
        files = {name: (folder / f"{name}.html").as_uri() for name in ("report", "comparison")}
        yield files | {"runs": f"{live}/runs", "run": f"{live}/run?run=clumsy"}


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest, browser: Browser, addresses: dict[str, str]) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1100, "height": 900}, color_scheme="light")
    context.set_default_timeout(PATIENCE)
    made = context.new_page()
    made.goto(addresses[request.param])
    made.wait_for_selector("body[data-ready=true]")
    if request.param == "run":
        made.locator("#members").get_by_role("button", name="member 1").click()
        made.get_by_role("heading", name="Member 1, after round").wait_for()
        made.mouse.move(0, 0)
        made.evaluate("document.activeElement.blur()")
    yield made
    context.close()


def test_what_can_be_clicked_is_reached_by_tab_and_seen_and_all_text_has_contrast(page: Page) -> None:
    light = faint(page)
    assert unreachable(page) == []
    page.evaluate("document.activeElement.blur()")
    page.locator("#theme").click()
    page.wait_for_selector("[data-theme=dark] body[data-ready=true]")
    assert (light, faint(page)) == (set(), set())
