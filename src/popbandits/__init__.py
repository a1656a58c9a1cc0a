"""Tune the hyperparameters of training runs while they train, with a small population.

    from popbandits import log, tune

    class Agent:  # any class with these three methods
        weight = 0.0
        def train(self, config):  # one interval with these hyperparameters; returns its score
            for _ in range(10):
                self.weight += config["lr"] * (3.0 - self.weight)
            return -abs(3.0 - self.weight)
        def save(self, directory):
            (directory / "weight").write_text(str(self.weight))
        def load(self, directory):
            self.weight = float((directory / "weight").read_text())

    result = tune(Agent, {"lr": log(1e-4, 1e-1, default=3e-2)}, rounds=10)
    print(result.choice, result.schedule[-1], result.directory)

`help(popbandits.tune)` describes every setting, `popbandits.Agent` what an agent may do, and
`popbandits.testing.check_agent` finds what is wrong with one.
"""

from typing import Any

import lazy_loader

__version__ = "0.2.0.dev0"

# A module is imported when one of its names is first used: ConfigSpace alone takes most of a second, and
# `import popbandits` should not wait for it. `__init__.pyi` lists the names.
_import_name, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Import a public name, or one that has moved to the experiments."""
    from popbandits.basics.deprecation import MOVED, moved

    return moved(__name__, name) if name in MOVED else _import_name(name)
