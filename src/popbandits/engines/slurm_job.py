"""The work of one SLURM job, in its own process: train an interval, as long as the driver wants it."""

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from popbandits.engines.work import AgentPool, Failure, Job, JobReport, describe_error

BEGAN_FILE = "began"
"""Name of the file that a job makes in its lease when it begins to train."""
LEASE_CHECK_SECONDS = 2.0
"""Seconds between two looks of a job at its lease."""


def do(packed: bytes, path: Sequence[str], job: Job, lease: Path) -> JobReport | Failure:
    """Do a job, inside a job of SLURM; return a Failure if its agent cannot be imported there.

    Args:
        packed: The pickled function that builds agents.
        path: The driver's `sys.path`.
        job: What to do.
        lease: Folder whose removal ends this process.
    """
    _handle_signals()
    _end_without(lease)
    sys.path += [folder for folder in path if folder not in sys.path]
    try:
        make_agent = pickle.loads(packed)
    except BaseException as error:
        return Failure("raised", describe_error(error))
    (lease / BEGAN_FILE).touch()  # Raises if the lease is gone already.
    pool = AgentPool(make_agent)
    report = pool.do(job)
    pool.close()
    return report


def _handle_signals() -> None:
    """Replace submitit's handlers, which raise inside of the agent to requeue the job: the driver does that."""
    signal.signal(signal.SIGINT, lambda number, frame: None)  # One that is raised here is an agent's.
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        if callable(signal.getsignal(number)):  # Sent some time before the end, which may be enough to finish.
            signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_without(lease: Path) -> None:
    """End this process when its lease is gone: nobody will read its report."""

    def watch() -> None:
        while True:
            try:
                lease.stat()
            except (FileNotFoundError, NotADirectoryError):
                os._exit(1)
            except OSError:  # The disk does not answer.
                pass
            time.sleep(LEASE_CHECK_SECONDS)

    threading.Thread(target=watch, daemon=True).start()
