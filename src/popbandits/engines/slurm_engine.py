"""An engine that trains each interval in a SLURM job of its own, by submitit; or in processes here, to try it out.

A job runs once: SLURM does not requeue it. If it is preempted or its node is lost, the engine submits the interval
again. All jobs of a run have one name, by which those that a killed driver left in the queue are cancelled. A job also
ends by itself when its lease is gone, a folder that the driver or a resume removes.
"""

import hashlib
import math
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from popbandits.agent import MakeAgent
from popbandits.basics.extras import library
from popbandits.basics.settings import JobOptions
from popbandits.basics.wording import error_text
from popbandits.engines.engine import Engine, unpicklable
from popbandits.engines.slurm_job import BEGAN_FILE, do
from popbandits.engines.spawning import spawning
from popbandits.engines.work import MAX_TRACEBACK_CHARACTERS, Failure, Job, JobReport, time_limit_failure
from popbandits.errors import DiskError, MissingExtraError, RunError
from popbandits.storage.checkpoints import CHECKPOINTS
from popbandits.storage.disk import required
from popbandits.storage.schema import is_plain

LOG_FOLDER = "slurm"
"""Name of the folder for the logs of jobs, in a run's folder."""
DEFAULT_TIMEOUT_MINUTES = 60
"""Time limit of a job in minutes, unless another is given."""
LOST_STATES = {"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED"}
"""States of a job that ended through no fault of its agent."""
ENDED_STATES = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "ENDED"}
"""Other states of a job that has ended; ours is the last, of a job that SLURM no longer knows."""
SLURM_COMMANDS = ("sbatch", "srun", "squeue", "scancel")
"""Commands of SLURM that are called; submitit looks for srun."""
_MESSAGE_FILES = re.compile(
    r"[0-9_]+_(submitted|result)\.pkl|[0-9a-f]{32}\.pkl|[0-9_]+_submission\.sh|\.submission_file_[0-9a-f]{32}\.sh"
)
"""Names of files by which submitit talks to jobs."""
_JOB_VARIABLES = ("SLURM_", "SUBMITIT_")
"""Beginnings of the names of environment variables that a job has; the driver may run in one."""
POLL_SECONDS, LOCAL_POLL_SECONDS = 1.0, 0.05
"""Seconds between two looks for results."""
STATE_CHECK_SECONDS = 15.0
"""Seconds between two questions to SLURM for the states of jobs."""
RESULT_GRACE_SECONDS = 30.0
"""Seconds in which the result of a job that has ended may still appear: network file systems show new files late."""
RESUBMIT_SECONDS, MAX_REFUSALS = 60.0, 10
"""Seconds until a refused submission is tried again, and how often in a row."""


@dataclass
class SubmittedJob:
    """A job that was submitted and not reported on yet."""

    job: Job
    handle: Any
    """The job as submitit knows it."""
    lease: Path
    """Folder whose removal ends it, and in which it leaves a sign when it begins to train."""
    submitted: float
    began: float | None = None
    """Time at which it was first seen to train."""
    state: str | None = None
    """State in which it ended without a result; None if it has not."""
    ended: float = 0.0
    """Time at which it was first seen to have ended."""

    @property
    def log(self) -> Path:
        """File with what it printed."""
        return Path(self.handle.paths.stdout)

    def tail(self) -> str:
        """Return the end of its log."""
        with suppress(OSError):
            return self.log.read_text("utf-8", "replace")[-MAX_TRACEBACK_CHARACTERS:]
        return ""


def pack(make_agent: MakeAgent) -> bytes:
    """Pickle a maker of agents, and what it holds, for jobs; raise ArgumentError if that is not possible."""
    try:
        packed: bytes = library("cloudpickle", "slurm", "engine='slurm'").dumps(make_agent)
    except MissingExtraError:
        raise
    except Exception as error:  # Whatever the objects that it holds raise.
        raise unpicklable("slurm", make_agent, error) from None
    return packed


class SlurmEngine(Engine):
    """An engine that submits jobs, at most `workers` at a time, those of one round as one job array."""

    def __init__(
        self,
        make_agent: MakeAgent,
        workers: int,
        directory: Path,
        options: JobOptions | None = None,
        round_timeout: float | None = None,
    ):
        super().__init__()
        submitit = library("submitit", "slurm", "engine='slurm'")
        given: dict[str, Any] = dict(options or {})
        self._local = given.pop("cluster", "slurm") == "local"
        if not self._local and (missing := [tool for tool in SLURM_COMMANDS if shutil.which(tool) is None]):
            raise RunError(
                f"engine='slurm' calls {', '.join(SLURM_COMMANDS)}, and {missing[0]} is not on the PATH; start the run "
                "where sbatch works, such as a login node, or try it on this machine with slurm={'cluster': 'local'} "
                "(--slurm cluster=local)"
            )
        self._packed = pack(make_agent)
        self._workers, self.round_timeout = workers, round_timeout
        self._minutes = float(given.pop("timeout_min", DEFAULT_TIMEOUT_MINUTES))
        self._running: list[SubmittedJob] = []
        self._checked = -math.inf
        self._refusals, self._not_before = MAX_REFUSALS, -math.inf  # The first refusal is final: the options are wrong.
        directory = directory.resolve()
        digest = hashlib.sha256(os.fsencode(directory)).hexdigest()
        self._name = f"{re.sub('[^A-Za-z0-9_.-]', '-', directory.name)}-{digest[:12]}"
        self._folder = directory / LOG_FOLDER
        # Temporary names among the checkpoints: what a killed run leaves is removed on resume.
        self._leases, self._token, self._numbers = directory / CHECKPOINTS, f"seen-{uuid.uuid4().hex}", count()
        if self._folder.is_symlink():  # Files in it are removed.
            raise RunError(f"{self._folder} must be the run's own folder, got a link; remove it")
        with required("write to", directory):
            self._folder.mkdir(exist_ok=True)
            self._tidy()  # Nothing that a job of ours did not write is unpickled.
        if self._local:
            self._executor: Any = submitit.LocalExecutor(self._folder)
            gpus = _number_of_gpus(given.get("gpus_per_node", 0))
            self._executor.update_parameters(timeout_min=self._minutes, stderr_to_stdout=True, gpus_per_node=gpus)
        else:
            self._cancel_all()
            self._executor = submitit.SlurmExecutor(self._folder)
            if "mem_gb" in given:
                given["mem"] = f"{math.ceil(1024 * given.pop('mem_gb'))}M"
            self._executor.update_parameters(
                job_name=self._name,
                time=math.ceil(self._minutes),
                stderr_to_stdout=True,
                use_srun=False,  # A step would have one core, whatever the job has.
                additional_parameters={"no-requeue": True, **given},
            )

    def wait(self) -> list[JobReport]:
        """Submit what is queued; wait until a job ends or is past its deadline, and return the reports."""
        reports: list[JobReport] = []
        while not reports and (self._queue or self._running):
            self._send()
            with suppress(OSError):  # Any change makes a network file system look again what is in the folder.
                os.utime(self._folder)
            states = self._states()
            for each in list(self._running):
                reports += self._look(each, states)
            if not reports:
                time.sleep(LOCAL_POLL_SECONDS if self._local else POLL_SECONDS)
        return reports

    def close(self) -> None:
        """Cancel every job."""
        self._queue.clear()
        for lease in self._leases.glob(f"{self._token}-*"):  # Also of jobs whose submission was interrupted.
            shutil.rmtree(lease, ignore_errors=True)
        if self._local:
            for each in self._running:
                self._cancel(each)
        else:
            self._cancel_all()
        self._running.clear()
        with suppress(OSError, DiskError):
            self._tidy()

    # Jobs

    def _send(self) -> None:
        """Submit as many queued jobs as may run."""
        if time.monotonic() < self._not_before:
            return
        jobs = [self._queue.popleft() for _ in range(min(len(self._queue), self._workers - len(self._running)))]
        if not jobs:
            return
        leases = [self._leases / f"{self._token}-{next(self._numbers)}" for _ in jobs]
        try:
            # Ctrl-C is for the driver, and a job that inherits the variables of another takes them for its own.
            hidden = [name for name in os.environ if name.startswith(_JOB_VARIABLES) and name != "SLURM_CONF"]
            with required("write to", self._folder), spawning(dict.fromkeys(hidden)), self._executor.batch():
                handles = []
                for job, lease in zip(jobs, leases, strict=True):
                    lease.mkdir(parents=True)
                    handles.append(self._executor.submit(do, self._packed, sys.path, job, lease))
        except DiskError:
            raise
        except RuntimeError as error:  # Those of submitit are.
            for lease in leases:  # sbatch may fail although SLURM has taken the jobs: these must not train then.
                shutil.rmtree(lease, ignore_errors=True)
            self._refusals, self._not_before = self._refusals + 1, time.monotonic() + RESUBMIT_SECONDS
            if self._refusals > MAX_REFUSALS:
                raise RunError(f"SLURM must accept the jobs of a run, got: {error_text(error)}; see slurm=") from error
            self._queue.extendleft(reversed(jobs))
            return
        now, self._refusals = time.monotonic(), 0
        self._running += [SubmittedJob(*each, now) for each in zip(jobs, handles, leases, strict=True)]

    def _look(self, each: SubmittedJob, states: dict[str, str] | None) -> list[JobReport]:
        """Return the report on a job if it has ended or is past its deadline; submit it again if it was lost."""
        if each.began is None and (each.lease / BEGAN_FILE).exists():
            each.began, self._early_deaths = time.monotonic(), 0
        if (report := self._result(each)) is not None:
            return self._finish(each, report)
        state = None if states is None else states.get(each.handle.job_id, "ENDED")
        if each.state is None and state in LOST_STATES | ENDED_STATES:
            each.state, each.ended = state, time.monotonic()
        if (state := each.state) is None:
            if each.began is None or self.round_timeout is None or time.monotonic() < each.began + self.round_timeout:
                return []
            self._cancel(each)
            return self._finish(each, time_limit_failure(self.round_timeout))
        if not self._local and time.monotonic() < each.ended + RESULT_GRACE_SECONDS:
            return []
        if state in LOST_STATES:
            return self._put_back(each)
        if each.began is None:
            end = f"the last as {state}; see {each.log}\n{each.tail()}".rstrip()
            self._count_early_death("SLURM jobs", f"ended before their agent was built, {end}")
            return self._put_back(each)
        job = f"its job {each.handle.job_id}"
        if state in ("TIMEOUT", "DEADLINE"):
            text = f"{job} was ended at its time limit of {self._minutes:g} minutes (timeout_min)"
            return self._finish(each, Failure("timeout", text, each.tail()))
        return self._finish(each, Failure("died", f"{job} ended as {state}, without a result", each.tail()))

    def _result(self, each: SubmittedJob) -> JobReport | None:
        """Return the report that a job wrote; None if there is none yet."""
        if self._local and not each.handle.done():
            return None
        path = Path(each.handle.paths.result_pickle)
        if not is_plain(path):
            return None
        with required("read", path):
            _, answer = pickle.loads(path.read_bytes())
        if isinstance(answer, JobReport):
            return answer
        text = answer.text if isinstance(answer, Failure) else str(answer)
        raise RunError(
            f"a SLURM job must be able to import what the agent needs, got: {text}\nInstall it in {sys.executable}, or "
            "put its folder on PYTHONPATH; nodes must see both"
        )

    def _states(self) -> dict[str, str] | None:
        """Return the states of all jobs; None if SLURM was asked just now, or does not answer."""
        if self._local:
            return {each.handle.job_id: self._local_state(each) for each in self._running}
        if time.monotonic() < self._checked + STATE_CHECK_SECONDS:
            return None
        self._checked = time.monotonic()
        # --all: else jobs in hidden partitions are not listed, and would be taken for ended.
        command = ["squeue", *self._own(), "--all", "--noheader", "--array", "--states=all", "--format=%i %T"]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode:
            return None
        return dict(line.split() for line in answer.stdout.splitlines() if line.strip())

    def _local_state(self, each: SubmittedJob) -> str:
        if not each.handle.done():
            return "RUNNING"
        return "TIMEOUT" if time.monotonic() - each.submitted >= 60 * self._minutes else "FAILED"

    def _finish(self, each: SubmittedJob, end: JobReport | Failure) -> list[JobReport]:
        """Forget a job, and return its report."""
        self._forget(each)
        if isinstance(end, JobReport):
            return [end]
        seconds = 0.0 if each.began is None else time.monotonic() - each.began
        return [JobReport(each.job.assignment.key, seconds, end)]

    def _put_back(self, each: SubmittedJob) -> list[JobReport]:
        """Queue a job again. No agent is at fault, so that no failure is recorded."""
        self._forget(each)
        shutil.rmtree(each.job.draft, ignore_errors=True)
        self._queue.appendleft(each.job)
        return []

    def _forget(self, each: SubmittedJob) -> None:
        self._running.remove(each)
        paths = each.handle.paths
        shutil.rmtree(each.lease, ignore_errors=True)
        for path in (paths.submitted_pickle, paths.result_pickle):
            with suppress(OSError):
                path.unlink()

    def _cancel(self, each: SubmittedJob) -> None:
        """End a job, and wait for the end of one that is a child of this process."""
        if not self._local:
            each.handle.cancel(check=False)
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            patience = time.monotonic() + 10
            while not each.handle.done() and time.monotonic() < patience:
                os.kill(int(each.handle.job_id), number)
                time.sleep(0.05)

    def _cancel_all(self) -> None:
        """Cancel all jobs of this run, also those that a killed driver submitted."""
        subprocess.run(["scancel", *self._own(), "--quiet"], capture_output=True)

    def _own(self) -> list[str]:
        """Return the options of SLURM's commands that choose the jobs of this run."""
        return [f"--name={self._name}", f"--user={os.getuid()}"]

    def _tidy(self) -> None:
        """Remove what jobs were sent and what they returned; their logs stay."""
        for path in self._folder.iterdir():
            is_folder = path.is_dir() and not path.is_symlink()  # No job makes one, and none is read.
            if _MESSAGE_FILES.fullmatch(path.name) and not is_folder:
                with required("remove", path):
                    path.unlink(missing_ok=True)


def _number_of_gpus(gpus_per_node: str | float) -> int:
    """Return how many GPUs an option of sbatch asks for: a number, or a type with a number.

    >>> _number_of_gpus(2), _number_of_gpus("a100:2"), _number_of_gpus("a100")
    (2, 2, 1)
    """
    number = str(gpus_per_node).rpartition(":")[2]
    return int(number) if number.isdecimal() else 1
