"""Runs: experiments, the run loop, results, `tune` and `resume`."""

from popbandits.run.experiment import Experiment
from popbandits.run.result import Result
from popbandits.run.tune import resume, run, tune
from popbandits.views.view import View

__all__ = ["Experiment", "Result", "View", "resume", "run", "tune"]
