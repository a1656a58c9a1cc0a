"""Observed training intervals of an agent: scores, saved files, times and broken rules."""

import copy
import io
import math
import pickle
import shutil
import signal
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, NoReturn, TypeVar

from popbandits.agent import Agent, MakeAgent
from popbandits.basics.wording import visible
from popbandits.engines.generators import read_states, used_since
from popbandits.engines.making import IncompleteAgentError, build, find_evaluate
from popbandits.engines.work import Checkpointable, agents_frames, announce, as_outcome, call, compared, differences
from popbandits.errors import AgentError, DiskError, PopbanditsError
from popbandits.history import Config
from popbandits.storage.checkpoints import checksum, seal
from popbandits.storage.disk import reason
from popbandits.testing.agent_report import AgentRule, AnyRule, Costs, Finding, Status
from popbandits.testing.overhead import time_idle_run

T = TypeVar("T")

Files = dict[str, str]
"""Checksums of a folder's files, by name."""

_TRACEBACK_FRAMES = 5  # of a traceback
_SEVERITY: dict[Status, int] = {"ok": 0, "warning": 1, "problem": 2}


class CheckAborted(Exception):
    """The agent failed so that nothing more can be checked; a finding describes it."""


class CtrlC(KeyboardInterrupt):
    """A real Ctrl-C; any other KeyboardInterrupt is the agent's."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise CtrlC on Ctrl-C, in the main thread and unless the program handles it itself."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise CtrlC

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True, eq=False)
class Trace:
    """The result of an interval."""

    score: float
    checkpoint: Path
    files: Files
    saved_at: Path
    """Folder in which the checkpoint was saved."""


class Trials:
    """Trains agents interval by interval as a run does, and notes which rules they break."""

    rules: tuple[AnyRule, ...] = tuple(AgentRule)
    batched = False

    def __init__(self, make_agent: MakeAgent, folder: Path, progress: Callable[[str], object]) -> None:
        self._make_agent, self._folder, self._progress = make_agent, folder, progress
        self._numbers = count()
        self._findings: dict[AnyRule, Finding] = {}
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)
        self._rewrites: dict[Trace, Files | None] = {}
        self._size = 0
        self.files_count = True
        """True if equal intervals leave equal files, so that different files are significant."""
        self.reported: set[str] = set()
        """Hyperparameters that `applied` returned."""
        self.shared: dict[str, str] = {}
        """Libraries whose global random generator was used, and the first method that did so."""

    def carry_out(self, check: Callable[[], None]) -> None:
        """Run a check until it ends or is aborted."""
        try:
            with interruptible():
                check()
        except CheckAborted:
            return
        except OSError as error:
            raise DiskError(
                f"could not use {error.filename or self._folder}: {reason(error)}; the check's own folder needs free "
                "space, and save and load must leave all but the folder that they are given as it is"
            ) from error
        self.confirm(AgentRule.RUNS)

    def note(self, rule: AnyRule, status: Status, text: str = "") -> None:
        """Record a finding; the most severe one of a rule is kept, the first among equals."""
        known = self._findings.get(rule)
        if known is None or _SEVERITY[status] > _SEVERITY[known.status]:
            self._findings[rule] = Finding(rule, status, visible(text))

    def warn(self, rule: AnyRule, text: str) -> None:
        """Record what may be intended, or could not be decided."""
        self.note(rule, "warning", text)

    def blame(self, rule: AnyRule, text: str) -> None:
        """Record that a rule is broken."""
        self.note(rule, "problem", text)

    def retract(self, rule: AnyRule) -> Finding | None:
        """Return a finding, if there is one, and drop it, because another rule says better what is wrong."""
        return self._findings.pop(rule, None)

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings, in the order of the rules."""
        return tuple(self._findings[rule] for rule in self.rules if rule in self._findings)

    def costs(self, population: int, rounds: int) -> Costs | None:
        """Return the measured costs; None if no agent loaded a checkpoint."""
        if not self._seconds["load"]:
            return None
        start, recording = time_idle_run()
        median_of = {what: median(seconds) for what, seconds in self._seconds.items()}
        return Costs(
            median_of["build"],
            median_of["train"],
            median_of["save"] + median_of["seal"],
            median_of["load"] + median_of.get("verify", 0.0),
            self._size,
            self.intervals,
            population,
            rounds,
            self.batched,
            recording=recording,
            start=start,
        )

    @property
    def intervals(self) -> int:
        """Number of trained intervals."""
        return len(self._seconds["train"])

    def agent(self, seed: int) -> AbstractContextManager[Agent]:
        """Build an agent, and close it at the end."""
        return self._build(lambda: build(self._make_agent, seed), "make_agent")

    @contextmanager
    def _build(self, make: Callable[[], T], named: str) -> Iterator[T]:
        with self._watch(named):
            made = self._time("build", make, named)
        if getattr(made, "uses_global_generators", False):
            self.shared.setdefault("random, numpy.random and torch", "train")
        try:
            yield made
        finally:
            if callable(close := getattr(made, "close", None)):
                self._time("close", close)

    def train(self, agent: Agent, config: Config, why: str) -> Trace:
        """Train for an interval, and save."""
        self._progress(f"interval {self.intervals + 1}: {why}")
        given = copy.deepcopy(config)
        # Always the same interval, so that it causes no difference.
        self._time("assigned", lambda: announce(agent, (0, 0)))
        with self._watch("train"):
            result = self._time("train", lambda: agent.train(given), f"train({config})")
        score = self.judge(result, given, config)
        if callable(applied := getattr(agent, "applied", None)):
            self.judge_applied(config, self._time("applied", applied))
        return self._save(agent, score)

    @contextmanager
    def _watch(self, method: str) -> Iterator[None]:
        """Note the global random generators that a method uses."""
        before = read_states()
        yield
        for library in used_since(before):
            self.shared.setdefault(library, method)

    def judge(self, result: object, given: Config, config: Config) -> float:
        """Note whether `train` returned a finite score, and whether it changed the configuration."""
        with self.give_up_on_error("reading what train returned", AgentRule.SCORE, PopbanditsError):
            score = call(as_outcome, result).score
        if not math.isfinite(score):
            text = f"a score that is not finite means that the interval failed, got {score} with {config}"
            self.warn(AgentRule.SCORE, f"{text}; narrow the space if that happens often")
        if given != config:
            text = f"train must not change its argument, got {given} where {config} was given"
            self.warn(AgentRule.CONFIG, f"{text}; let it work on a copy")
        self.confirm(AgentRule.SCORE, AgentRule.CONFIG)
        return score

    def judge_applied(self, config: Config, applied: Mapping[str, Any]) -> None:
        """Note whether the hyperparameters that `applied` returned are those given to `train`."""
        wrong = self._time("applied", lambda: differences(config, applied))
        self.reported |= {name for name, _, _ in compared(config, applied)}
        text = f"got others: {'; '.join(wrong)}; let train set them after a load, also in the optimizer"
        self.note(AgentRule.APPLIED, *(("problem", text) if wrong else ("ok", "")))

    def evaluate(self, agent: Agent, trace: Trace) -> None:
        """Note whether evaluations of an agent, which was just saved, are repeatable and leave it as it is."""
        if (evaluate := find_evaluate(agent)) is None or not math.isfinite(trace.score):
            return
        one, other = (
            self._time("evaluate", lambda: as_outcome(evaluate(seed=1), "evaluate").score, "evaluate(seed=1)")
            for _ in range(2)
        )
        if one != other:  # Two NaNs too: a checkpoint without a finite score is not handed over.
            text = f"evaluations with the same seed got {one!r} and {other!r}; draw all that is random from the seed"
            self.warn(AgentRule.EVALUATED, text)
        if not self.alike(trace, self._save(agent, trace.score)):
            text = "evaluate changed what save writes; let it leave weights, counters and generators alone"
            self.blame(AgentRule.EVALUATED, text)
        self.confirm(AgentRule.EVALUATED)

    def resume(self, agent: Agent, trace: Trace, config: Config, why: str) -> Trace:
        """Load a checkpoint, train for an interval, and save."""
        moved = self._folder / f"moved-{next(self._numbers)}"
        shutil.copytree(trace.checkpoint, moved, symlinks=True)
        before = self._time("verify", lambda: fingerprint(moved))
        self._load(agent, trace, moved)
        after = self.train(agent, config, why)
        for files, who in ((before, "save, still writing after it returned,"), (fingerprint(moved), "load or train")):
            if changed := sorted({name for name, _ in files.items() ^ trace.files.items()}):
                text = f"{who} changed {', '.join(changed)}; many members may load one checkpoint, so only read it"
                self.blame(AgentRule.UNCHANGED, text)
        self.confirm(AgentRule.UNCHANGED)
        shutil.rmtree(moved)
        return after

    def alike(self, one: Trace, other: Trace) -> bool:
        """Tell whether two intervals ended equal: in score and, if files count, in the saved files."""
        if not same_score(one, other):
            return False
        if one.files == other.files or not self.files_count:
            return True
        first, second = self._rewrite(one), self._rewrite(other)
        return first is None or second is None or first == second

    def forget(self, trace: Trace) -> None:
        """Remove a checkpoint that is no longer needed."""
        shutil.rmtree(trace.checkpoint)

    def confirm(self, *rules: AnyRule) -> None:
        """Record that rules hold."""
        for rule in rules:
            self.note(rule, "ok")

    def give_up(self, rule: AnyRule, text: str) -> NoReturn:
        """Note a problem after which nothing more can be checked."""
        self.blame(rule, text)
        raise CheckAborted

    @contextmanager
    def give_up_on_error(
        self, what: str, rule: AnyRule = AgentRule.RUNS, explained: type[PopbanditsError] = IncompleteAgentError
    ) -> Iterator[None]:
        """Give up if the block, which calls the agent's code, raises.

        Args:
            what: What the block does, for the finding.
            rule: Rule that an error breaks.
            explained: Class of errors whose message says all; others are shown with their traceback.
        """
        try:
            yield
        except (CtrlC, CheckAborted):
            raise
        except explained as error:
            self.give_up(rule, str(error))
        except BaseException as error:
            self.give_up(rule, describe_error(what, error))

    def _save(self, agent: Checkpointable, score: float) -> Trace:
        number = next(self._numbers)
        draft, checkpoint = self._folder / f"draft-{number}", self._folder / f"checkpoint-{number}"
        draft.mkdir()
        self._time("save", lambda: agent.save(draft))
        self._size = sum(path.stat().st_size for path in draft.rglob("*") if path.is_file())
        start = time.perf_counter()
        try:
            seal(draft)
        except AgentError as error:
            self.give_up(AgentRule.RUNS, str(error))
        self._seconds["seal"].append(time.perf_counter() - start)
        draft.rename(checkpoint)
        return Trace(score, checkpoint, fingerprint(checkpoint), draft)

    def _load(self, agent: Agent, trace: Trace, folder: Path) -> None:
        """Load a checkpoint; if that fails, note whether it loads from where it was saved, and give up."""
        try:
            self._time("load", lambda: agent.load(folder))
        except CheckAborted:
            if (raised := self.retract(AgentRule.RUNS)) is None:
                raise
            shutil.copytree(trace.checkpoint, trace.saved_at, symlinks=True)
            with self.give_up_on_error("load"):
                call(agent.load, trace.saved_at)
            self.give_up(
                AgentRule.MOVED,
                f"a run moves checkpoints, and load must find everything in the folder it is given, but {raised.text}\n"
                "where it was saved, the checkpoint loads; let save write no path, or one relative to the folder",
            )
        self.confirm(AgentRule.MOVED)

    def _rewrite(self, trace: Trace) -> Files | None:
        """Load a checkpoint into a new agent, save it again, and return its files; None if that fails.

        Two equal checkpoints may differ in their bytes, depending on which objects shared memory when they were
        written. Loaded and saved again, they do not; pickles are written
        once more, with nothing shared.
        """
        if trace not in self._rewrites:
            folder = self._folder / f"rewritten-{next(self._numbers)}"
            folder.mkdir()
            self._rewrites[trace] = None
            with suppress(Exception), self.agent(0) as agent:  # It may fail: no run saves without training.
                call(agent.load, trace.checkpoint)
                call(agent.save, folder)
                for path in filter(Path.is_file, folder.rglob("*")):
                    path.write_bytes(_unshare(path.read_bytes()))
                self._rewrites[trace] = fingerprint(folder)
        return self._rewrites[trace]

    def _time(self, what: str, do: Callable[[], T], named: str = "") -> T:
        """Call the agent's code, and add the seconds to those of `what`."""
        start = time.perf_counter()
        with self.give_up_on_error(named or what):
            result = call(do)
        self._seconds[what].append(time.perf_counter() - start)
        return result


def same_score(one: Trace, other: Trace) -> bool:
    """Tell whether two intervals ended with equal scores; failures are equal."""
    return one.score == other.score or (math.isnan(one.score) and math.isnan(other.score))


def fingerprint(folder: Path) -> Files:
    """Return the checksum of every file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): checksum(path) for path in files}


def _unshare(content: bytes) -> bytes:
    """Return a pickle of the same object in which nothing is shared; other content as it is.

    >>> text = "".join(["a", "b"])
    >>> one, other = pickle.dumps([text, text]), pickle.dumps([text, "".join(["a", "b"])])
    >>> one == other, _unshare(one) == _unshare(other)
    (False, True)
    """
    if not content.startswith(pickle.PROTO):
        return content
    with suppress(Exception), io.BytesIO() as file:  # Not a pickle after all, or an object that refers to itself.
        pickler = pickle.Pickler(file)
        pickler.fast = True
        pickler.dump(pickle.loads(content))
        return file.getvalue()
    return content


def describe_error(what: str, error: BaseException) -> str:
    """Describe an error with the end of its traceback in the agent."""
    lines = traceback.format_exception(type(error), error, agents_frames(error), limit=-_TRACEBACK_FRAMES, chain=False)
    return f"{what} raised\n{''.join(lines).rstrip()}"
