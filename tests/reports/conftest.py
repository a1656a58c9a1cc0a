"""A browser for the tests that look at a page."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from popbandits import tune
from popbandits.rl import demo
from popbandits.rl.ppo import PPO, Settings
from tests.reports.browser import CHROMIUM, PATIENCE, QUIET


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium: install it, or name it in CHROMIUM")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET, timeout=PATIENCE)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the demo tunes, with less training."""
    little = Settings(copies=4, rollout=16, updates=1, episodes=2, limit=40)
    directory = tmp_path_factory.mktemp("demo") / "tuned"
    settings: Any = {"population": 4, "rounds": 5, "start": [demo.DEFAULTS], "directory": directory, "progress": False}
    tune(lambda seed: PPO(seed, little), demo.space(), **settings)
    return directory
