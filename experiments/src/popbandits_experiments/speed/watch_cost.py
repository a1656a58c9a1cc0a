"""Cost of the live page (a minute or two).

    python -m popbandits_experiments.speed.watch_cost [--browser PATH]

A synthetic run of each size is watched in Chromium, with the server in its own process. The table shows milliseconds
from the request until the first paint, until the numbers and until the learning curves are shown. Then observations are
written one by one, and the time is measured until the page shows each, without reload.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

from popbandits.history import Observation
from popbandits.storage import Store
from popbandits_experiments.speed.report_cost import SIZES, write_run

BROWSERS = "chromium-headless-shell", "chromium", "google-chrome"
UPDATES = 11
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
COUNT = "[...document.querySelectorAll('#facts div')].find(one => one.textContent.startsWith('observations'))"
SHOWS = f"count => ({COUNT})?.querySelector('dd').textContent === count && performance.now()"
DRAWN = "document.querySelector('#figure-learning canvas') && performance.now()"


def watch(page: Page, address: str, run: Path) -> list[float]:
    """Return milliseconds: first paint, numbers, curves, and the median and longest wait for an observation."""
    with Store.open(run) as store:
        count = len(store)
        page.goto(address)
        numbers = waited(page, SHOWS, f"{count:,}")
        curves = waited(page, DRAWN)
        painted = page.evaluate(PAINTED)
        waits = []
        for number in range(UPDATES):
            last = store[len(store) - 1]
            key, parent = (0, last.round + 1), (0, last.round)
            new = Observation(*key, last.config, parent, last.score, last.score + 1)
            began = time.perf_counter()
            store.extend([new])
            waited(page, SHOWS, f"{count + number + 1:,}")
            waits.append(1000 * (time.perf_counter() - began))
            page.wait_for_timeout(1500)
    return [painted, numbers, curves, statistics.median(waits), max(waits)]


def waited(page: Page, what: str, argument: Any = None) -> float:
    """Wait for a condition and return the page's clock at that time."""
    return float(page.wait_for_function(what, arg=argument, polling=20, timeout=120_000).json_value())


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Serve the live pages of a folder and yield the address."""
    command = [sys.executable, "-m", "popbandits", "watch", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split(" at ")[1].strip()
        process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browser", default=next(filter(None, map(shutil.which, BROWSERS)), None), metavar="PATH")
    arguments = parser.parse_args()
    heads = ("run", "observations", "first paint, ms", "numbers, ms", "curves, ms", "an update, ms", "longest, ms")
    view = Table(*heads)
    with TemporaryDirectory() as folder:
        for name, (members, rounds) in SIZES.items():
            write_run(Path(folder) / name.replace(" ", "-"), members, rounds)
        with server(Path(folder)) as address, sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=arguments.browser, args=["--no-sandbox"])
            page = chromium.new_page()
            page.goto(f"{address}runs")  # Chromium itself has started, and Vega is bundled.
            page.request.get(f"{address}assets/vega.js")
            for name, (members, rounds) in SIZES.items():
                place = name.replace(" ", "-")
                figures = watch(page, f"{address}run?run={place}", Path(folder) / place)
                view.add_row(name, f"{members * rounds:,}", *(f"{value:,.0f}" for value in figures))
            chromium.close()
    Console(width=140).print(view)


if __name__ == "__main__":
    main()
