"""Makes docs/report.png and docs/watch.png: the demo's run, its report and its live page, as Chromium shows them.

And docs/procgen.png, the learning curves of the stored runs on Procgen.

    python docs/make_screenshots.py [--demo runs/demo] [--browser PATH]

The demo is run first where it was not (two minutes and a half).
"""

import argparse
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from popbandits.reports.report import write_report

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
STORED = HERE.parent / "experiments/results/procgen"
BROWSERS = "chromium-headless-shell", "chromium", "google-chrome"
SIZES = {"report.png": (1040, 1700), "watch.png": (1040, 1560)}


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, default=Path("runs/demo"), metavar="DIR")
    parser.add_argument("--browser", default=next(filter(None, map(shutil.which, BROWSERS)), None), metavar="PATH")
    arguments = parser.parse_args()
    with TemporaryDirectory() as temporary:
        write_report([STORED], Path(temporary) / "report.html", temporary)
        shutil.copy(Path(temporary) / "comparison.png", HERE / "procgen.png")
    run = arguments.demo / "tuned"
    if not (run / "run.sqlite").exists():
        subprocess.run([sys.executable, "-m", "popbandits", "demo", "-o", str(arguments.demo)], check=True)
    with TemporaryDirectory() as temporary:
        page = Path(temporary) / "report.html"
        write_report([run], page)
        picture("report.png", page.as_uri(), arguments.browser)
    with watched(arguments.demo) as address:
        picture("watch.png", f"{address}run?run=tuned", arguments.browser, choose="member 1")


@contextmanager
def watched(folder: Path) -> "Iterator[str]":
    """The address of the live pages of a folder."""
    command = [sys.executable, "-m", "popbandits", "watch", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split(" at ")[1].strip()
        process.terminate()


def picture(name: str, address: str, browser: str, choose: str | None = None) -> None:
    """The top of a page, after a button was pressed."""
    from playwright.sync_api import sync_playwright

    width, height = SIZES[name]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        window = chromium.new_page(viewport={"width": width, "height": height}, device_scale_factor=1.5)
        window.goto(address)
        window.wait_for_function("document.body.dataset.ready === 'true'")
        if choose is not None:
            window.get_by_role("button", name=choose, exact=True).click()
            window.wait_for_selector("#member:not([hidden])")
            window.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        window.screenshot(path=HERE / name)
        chromium.close()


if __name__ == "__main__":
    main()
