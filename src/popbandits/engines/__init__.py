"""Who runs it where: engines, the run loop, checkpoints, `tune` and `resume`."""

from popbandits.engines.experiment import Experiment
from popbandits.engines.result import Result
from popbandits.engines.tune import resume, run, tune
from popbandits.engines.view import View

__all__ = ["Experiment", "Result", "View", "resume", "run", "tune"]
