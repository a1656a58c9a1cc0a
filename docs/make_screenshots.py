"""Makes docs/report.png: a real run of a small network in numpy, its report, and a picture of that in Chromium.

    python docs/make_screenshots.py [--run DIR] [--browser /usr/bin/chromium]

It takes about a minute. The run stays in DIR if one is given, and is used again if it is there.
"""

import argparse
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer

from popbandits import tune
from popbandits.agent import Outcome
from popbandits.reports.report import write_report

PICTURE = Path(__file__).resolve().with_name("report.png")
SIZE = {"width": 1040, "height": 1700}


def space() -> ConfigurationSpace:
    """What is tuned: the momentum only where there is one."""
    made = ConfigurationSpace(
        {
            "learning rate": Float("learning rate", (1e-4, 1.0), log=True),
            "batch size": Integer("batch size", (4, 128), log=True),
            "weight decay": Float("weight decay", (1e-6, 1e-1), log=True),
            "momentum": Float("momentum", (0.0, 0.99)),
            "noise": Categorical("noise", ["none", "jitter", "rotate", "mixup"]),
            "optimizer": Categorical("optimizer", ["sgd", "adam"]),
        }
    )
    made.add(EqualsCondition(made["momentum"], made["optimizer"], "sgd"))
    return made


def spirals(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points on three spirals, and on which one each lies."""
    arm = rng.integers(3, size=count)
    radius = rng.uniform(0.1, 1.0, count)
    angle = 6.0 * radius + 2 * np.pi / 3 * arm + 0.3 * rng.normal(size=count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), arm


class Network:
    """Two hidden layers that learn to tell spirals apart; the score is the accuracy on points it has not seen."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.x, self.y = spirals(200, np.random.default_rng(1))
        self.test_x, self.test_y = spirals(1000, np.random.default_rng(2))
        sizes = [(2, 32), (32,), (32, 32), (32,), (32, 3), (3,)]
        self.weights = [self.rng.normal(size=size) * (0.7 if len(size) == 2 else 0.0) for size in sizes]
        for i in (2, 4):
            self.weights[i] /= 4
        self.first = [np.zeros(size) for size in sizes]
        self.second = [np.zeros(size) for size in sizes]
        self.steps = 0

    def forward(self, x: np.ndarray) -> list[np.ndarray]:
        """The activations of all layers, the last one the chances of each spiral."""
        w1, b1, w2, b2, w3, b3 = self.weights
        h1 = np.tanh(x @ w1 + b1)
        h2 = np.tanh(h1 @ w2 + b2)
        z = h2 @ w3 + b3
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return [x, h1, h2, e / e.sum(axis=1, keepdims=True)]

    def train(self, config: dict[str, Any]) -> Outcome:
        """Forty steps."""
        for _ in range(40):
            x, target = self.batch(config)
            self.step(self.slopes(x, target, config["weight decay"]), config)
        p = self.forward(self.test_x)[-1]
        if not np.isfinite(p).all():
            raise FloatingPointError("the weights overflowed: the learning rate was too large")
        loss = -np.log(p[np.arange(len(p)), self.test_y] + 1e-9).mean()
        return Outcome(float((p.argmax(axis=1) == self.test_y).mean()), metrics={"loss": float(loss)})

    def batch(self, config: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """A few points and what to say of them, made harder as the configuration has it."""
        chosen = self.rng.integers(len(self.x), size=config["batch size"])
        x, target = self.x[chosen], np.eye(3)[self.y[chosen]]
        if config["noise"] == "jitter":
            x = x + 0.05 * self.rng.normal(size=x.shape)
        elif config["noise"] == "rotate":
            angle = self.rng.normal() * 0.6
            x = x @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        elif config["noise"] == "mixup":
            share, other = self.rng.beta(0.4, 0.4), self.rng.permutation(len(x))
            x, target = share * x + (1 - share) * x[other], share * target + (1 - share) * target[other]
        return x, target

    def slopes(self, x: np.ndarray, target: np.ndarray, decay: float) -> list[np.ndarray]:
        """The gradient by every weight."""
        x, h1, h2, p = self.forward(x)
        d3 = (p - target) / len(x)
        d2 = d3 @ self.weights[4].T * (1 - h2**2)
        d1 = d2 @ self.weights[2].T * (1 - h1**2)
        raw = [x.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ d3, d3.sum(0)]
        return [g + decay * w for g, w in zip(raw, self.weights, strict=True)]

    def step(self, slopes: list[np.ndarray], config: dict[str, Any]) -> None:
        """One step down."""
        self.steps += 1
        adam, rate = config["optimizer"] == "adam", config["learning rate"]
        beta = 0.9 if adam else config["momentum"]
        for i, g in enumerate(slopes):
            self.first[i] = beta * self.first[i] + (1 - beta if adam else 1.0) * g
            self.second[i] = 0.999 * self.second[i] + 0.001 * g**2
            scale = np.sqrt(self.second[i] / (1 - 0.999 ** min(self.steps, 10_000))) + 1e-8 if adam else 1.0
            self.weights[i] = self.weights[i] - rate * self.first[i] / scale

    def save(self, directory: Path) -> None:
        """Everything that a next interval needs."""
        parts = {"w": self.weights, "m": self.first, "v": self.second}
        arrays = {f"{name}{i}": array for name, group in parts.items() for i, array in enumerate(group)}
        np.savez(directory / "state.npz", steps=self.steps, **arrays)

    def load(self, directory: Path) -> None:
        """What was saved."""
        state = np.load(directory / "state.npz")
        self.weights, self.first, self.second = ([state[f"{name}{i}"] for i in range(6)] for name in "wmv")
        self.steps = int(state["steps"])


def main() -> None:
    """Make the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, metavar="DIR")
    parser.add_argument("--browser", default="/usr/bin/chromium", metavar="PATH")
    arguments = parser.parse_args()
    with TemporaryDirectory() as temporary:
        page = Path(temporary) / "report.html"
        if arguments.run is None:
            with chdir(temporary):  # The page names the run's folder.
                write_report([played(Path("runs/spirals"))], page)
        else:
            write_report([played(arguments.run)], page)
        picture(page, PICTURE, arguments.browser)


def played(run: Path) -> Path:
    """The run in this folder, played if it is not there."""
    if not (run / "run.sqlite").exists():
        tune(Network, space(), population=8, rounds=40, directory=run)
    return run


def picture(page: Path, path: Path, browser: str) -> None:
    """The top of a page, as Chromium shows it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        window = chromium.new_page(viewport=SIZE, device_scale_factor=1.5)
        window.goto(page.resolve().as_uri())
        window.wait_for_function("document.body.dataset.ready === 'true'")
        window.screenshot(path=path)
        chromium.close()


if __name__ == "__main__":
    main()
