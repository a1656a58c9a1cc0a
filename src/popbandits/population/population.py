"""Ask and tell: which member trains next, with which configuration and weights. It has no processes or devices."""

import copy
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

import numpy as np

from popbandits.basics.records import plain, status_of, with_standard_error
from popbandits.basics.settings import Explore, Mode
from popbandits.basics.typing import IntArray
from popbandits.errors import ArgumentError, HistoryError, SpaceError
from popbandits.explorers.explorer import Parents, Proposal
from popbandits.history import Assignment, Config, Decision, History, Key, Observation
from popbandits.history.archive import Archive
from popbandits.history.memory import MemberStates
from popbandits.population.control import hold
from popbandits.population.initial import initial_points
from popbandits.population.plan import Plan
from popbandits.population.start import Start
from popbandits.selection import Picks, Selection
from popbandits.selection.selection import check_picks, start_afresh, stay
from popbandits.space import Space

INITIAL, SELECT, EXPLORE = range(3)
"""Purposes of random streams."""

RECORDED = 64
"""Maximum number of pending intervals in a decision's record, the last ones; the others follow from the history."""


class Population:
    """A population in training.

    Every decision is a function of the history and the seed, so a population can be built from a stored history at any
    point and continues as if it had never stopped.

    A population of one has no other member to copy: only `explore="all"` changes its configuration.

    `start` sets the first configurations of the first members; the others begin with random configurations, spread over
    the space, the same as without it. It is one of:

    - a configuration, or a list of at most one for each member; parameters that are left out take the space's default,
      and a number may be a schedule, `cosine(3e-4, 3e-5)` or any function of the progress between 0 and 1: then all
      members follow it, and what is tuned is the deviation from it;
    - "defaults": ConfigSpace's default configuration, for one member: the middle of a range (on its own scale), the
      first of the choices or the one with the largest weight, unless the hyperparameter sets its own default;
    - None: "defaults" if any hyperparameter sets its own default, else "random";
    - "random": all members begin with random configurations;
    - a past run, as a `History`: the last distinct configurations of the lineage that it would hand over by its scores,
      newest first, for all members but one. Parameters that are not in this space are dropped, missing ones take their
      default, numbers are clipped to this space's range, and labels that this space does not have are an error.

    >>> population = Population({"x": (0.0, 1.0)}, size=2, rounds=3, seed=0)
    >>> while not population.done:
    ...     for assignment in population.ask():
    ...         population.tell(assignment, score=assignment.round + assignment.config["x"])
    >>> len(population.history)
    6

    Args:
        space: Hyperparameters to tune: a dict of ranges (tuples, or `log(1e-5, 1e-1)` for a log scale), choices (lists)
            and constants, or a `ConfigurationSpace` of ConfigSpace for conditions and forbidden combinations.
        method: Method that finds new configurations: an explorer such as `PB2Mix()`, any object with an `explore`
            method, or a name such as "pb2-mix". None (default) is `NearPBT()` with a start, else `PBT()`. Change it
            to compare methods, or for one that models scores ("pb2-mix").
        size: Number of members. Default 4. Raise it if you can train more: more members try more.
        rounds: Number of intervals that each member trains. Default 50. None for a run without a set end.
        seed: Seed of all random choices of the tuning. Default 0. Change it to repeat a run with other random choices.
        mode: Direction of better scores. Default "max". Use "min" for losses and errors.
        quantile: Share of members that is replaced in a round, above 0 and at most 0.5. None (default) uses the
            selection's own, 0.25 unless you set it there. Raise it to give up weak members sooner.
        explore: Members that get a new configuration in a round: "replaced", those that load another's weights, or
            "all". None (default) is "replaced", unless a named method sets it. Use "all" to try more at the price of
            changing what works.
        synchronous: Whether members wait for one another at the end of a round. Default True. Use False if intervals
            take unequal time: no member waits, and decisions use the results known by then.
        initial_score: Score of an untrained member. None (default) if unknown; it is then guessed. If you know it,
            methods with a model learn from the first round too.
        history: Results so far, to resume from: observations, a `History`, or the `Store` of a run. With a store,
            results are read from it (its caller writes them), and memory does not grow with the run. The default, (),
            begins a new run.
        start: First configurations of the first members, to begin with what you know to work: one, in which a number
            may be a schedule such as `cosine(3e-4, 3e-5)`, or a list; "defaults"; a `History` or the folder of a run;
            "random", spread over the space. None (default) is "defaults" if the space names one, else "random".
            `help(Population)` says more.
        selection: Selection of the weights and configuration that a member continues with: an object such as
            `Truncation(0.5)`, or a name. None (default) is the method's own, or `Truncation()`. Change it for a
            selection of your own, or one of the experiments: if scores are noisy, or early scores mislead.
        control: Whether member 0 keeps the start to the end, so that the run ends no worse, by more than noise, and
            shows what tuning gained; others may load its weights. Needs a `start`. None (default) is True for `NearPBT`
            with at least four members. Use False if early scores cannot mislead, to search with all members.
    """

    def __init__(
        self,
        space: Any,
        method: Any = None,
        size: int = 4,
        rounds: int | None = 50,
        seed: int = 0,
        mode: Mode = "max",
        quantile: float | None = None,
        explore: Explore | None = None,
        synchronous: bool = True,
        initial_score: float | None = None,
        history: Iterable[Observation] | Archive = (),
        start: Start = None,
        selection: Selection | str | None = None,
        control: bool | None = None,
    ):
        given = {name: value for name, value in locals().items() if name not in ("self", "history")}
        self._open(Plan.make(**given), history)
        # Not for `of`: its plan is that of the record, whose space takes time to read.
        if isinstance(recorded := getattr(history, "space", None), Space):
            self._check_schedules(recorded)

    @classmethod
    def of(cls, plan: Plan, history: Iterable[Observation] | Archive = ()) -> Self:
        """Make the population of a plan."""
        population = cls.__new__(cls)
        population._open(plan, history)
        return population

    def _open(self, plan: Plan, history: Iterable[Observation] | Archive) -> None:
        self.plan = plan
        self.space, self.method, self.selection, self.explore = plan.space, plan.explorer, plan.selection, plan.explore
        self.size, self.rounds, self.seed, self.synchronous = plan.size, plan.rounds, plan.seed, plan.synchronous
        self.quantile, self.start = plan.quantile, plan.start
        self.initial_score = math.nan if plan.initial_score is None else plan.initial_score
        """Score of an untrained member; NaN if unknown, then it is guessed."""
        if not isinstance(history, Archive | Iterable):
            raise ArgumentError(
                f"history must be observations, a History, or the Store of a run, got {history!r}; leave it out for a "
                "new run"
            )
        recorded = getattr(history, "mode", None)
        if recorded not in (plan.mode, None):
            raise HistoryError(f"mode must be the history's, {recorded!r}, got {plan.mode!r}; make the two equal")
        given = () if isinstance(history, Archive) else history
        self.history = History(self.space, given, mode=plan.mode, size=self.size, rounds=self.rounds)
        if isinstance(history, Archive):
            self.history.attach_archive(history)
        self.decided: list[Decision] = []
        """Decisions of the last `ask` and what they were based on, in the order of its assignments; without times."""
        self._ready: dict[Key, Decision] = {}  # decided, but not returned by `ask` yet
        self._pending: dict[Key, Assignment] = {}  # returned by `ask`, but not told yet
        self._first = initial_points(self.space, self.size, self._rng(INITIAL))
        self._check_history()
        # Members to decide for, in asynchronous mode: the one idle for longest comes first.
        self._idle = deque(np.argsort(self.history.member_states().latest, kind="stable").tolist())

    def ask(self) -> list[Assignment]:
        """Return the assignments that can train now, in the order of deciding; none while a round is incomplete."""
        self._plan()
        self.decided = list(self._ready.values())
        self._pending |= {key: decision.assignment for key, decision in self._ready.items()}
        self._ready.clear()
        return [self._applied(decision.assignment) for decision in self.decided]

    def tell(
        self,
        assignment: Assignment,
        score: float | None,
        steps: float | None = None,
        metrics: Mapping[str, Any] | None = None,
        seconds: float | None = None,
        lost: bool = False,
        standard_error: float | None = None,
    ) -> None:
        """Record the result of an assignment.

        Args:
            assignment: Assignment that `ask` returned.
            score: Score at the end; NaN, an infinity or None if the interval failed.
            steps: Budget spent, such as environment steps. None (default) if every interval spends the same.
            metrics: Other values to record: numbers, strings, and lists and dicts of them. None (default) for nothing.
            seconds: Time it took. None (default) if unknown; decisions do not depend on it.
            lost: Whether the parent's checkpoint was missing or damaged, so that it never trained. Default False. A
                lost checkpoint is not loaded again, and its loss does not count against the configuration.
            standard_error: Standard error of the score, for selections that allow for noise; it is recorded as a metric
                of this name. None (default) if unknown.
        """
        mine = self._pending.get(getattr(assignment, "key", (-1, -1)))
        if mine is None:
            raise HistoryError(self._refusal(assignment))
        value = _number(score)
        parent = None if mine.parent is None else self.history.find(mine.parent)
        observation = Observation(
            **vars(mine),  # It is an assignment that has a result.
            score_before=self.initial_score if parent is None else parent.score,
            score=value,
            steps=steps,
            seconds=seconds,
            status=status_of(value, lost),
            metrics=with_standard_error({} if metrics is None else metrics, standard_error),
        )
        self.history.append(observation)
        del self._pending[mine.key]
        if not self.synchronous:
            self._idle.append(mine.member)

    @property
    def pending(self) -> list[Assignment]:
        """Assignments that `ask` returned and that were not told yet."""
        return [self._applied(assignment) for _, assignment in sorted(self._pending.items())]

    @property
    def done(self) -> bool:
        """True if every member has finished its last round."""
        return self.rounds is not None and len(self.history) >= self.size * self.rounds

    @property
    def best(self) -> Observation | None:
        """The completed observation with the best score."""
        return self.history.best

    # Planning: the functions below depend only on the history and the seed.

    def _plan(self) -> None:
        """Decide every assignment that can be decided now."""
        if self.synchronous:
            if not (self._ready or self._pending or self.done):
                self._plan_round(len(self.history) // self.size)
            return
        # In the order of becoming idle: an assignment must not depend on the time of `ask`.
        while self._idle:
            self._plan_member(self._idle[0])
            self._idle.popleft()

    def _plan_round(self, round_: int) -> None:
        """Decide all members' assignments of a synchronous round, from the rounds before it."""
        decided = self._decide(range(self.size), round_, self.history.prefix(round_ * self.size), (round_,))
        self._ready |= {d.assignment.key: d for d in decided if self.history.finished(d.assignment.member) == round_}

    def _plan_member(self, member: int) -> None:
        """Decide one member's next assignment in asynchronous mode, from the history when it became idle."""
        round_ = self.history.finished(member)
        if self.rounds is not None and round_ >= self.rounds:
            return
        known = self.history.prefix(self.history.index_of((member, round_ - 1)) + 1 if round_ else 0)
        [self._ready[member, round_]] = self._decide([member], round_, known, (round_, member))

    def _decide(self, members: Sequence[int], round_: int, known: History, stream: tuple[int, ...]) -> list[Decision]:
        """Decide what members do in a round: exploit (select weights), then explore (choose configurations)."""
        if round_ == 0:
            drawn = map(Proposal, self.space.decode(self._first[list(members)]))
            first = [self.start[m] if m < len(self.start) else each for m, each in zip(members, drawn, strict=True)]
            assigned = [Assignment(m, 0, p.config, None, p.decision) for m, p in zip(members, first, strict=True)]
            return [Decision(assignment, known=0) for assignment in assigned]
        picks = self._select(known, np.array(members), self._rng(SELECT, *stream))
        parents = {m: picks.parent(row, known) for row, m in enumerate(members)}
        picked = zip(members, picks.config.tolist(), picks.explores.tolist(), strict=True)
        carried = {m: self._hold(known[index].config, round_, parents[m], known) for m, index, new in picked if not new}
        exploring = [m for m in members if m not in carried]
        if self.synchronous:
            pending = Pending([(m, round_) for m in carried], lambda key: carried[key[0]])
        else:
            pending = Pending(self._find_others(members[0], known.member_states()) if exploring else [], self._config)
        proposals = self._explore([parents[m] for m in exploring], known, pending, stream)
        given = tuple(pending.keys[-RECORDED:])
        keys = {m: None if parent is None else parent.key for m, parent in parents.items()}
        decided = {m: Decision(Assignment(m, round_, config, keys[m]), len(known)) for m, config in carried.items()}
        for m, proposal in zip(exploring, proposals, strict=True):
            config = self._hold(proposal.config, round_, parents[m], known)
            assignment = Assignment(m, round_, config, keys[m], proposal.decision)
            decided[m] = Decision(assignment, len(known), given, explored=True)
        return [decided[m] for m in members]

    def _hold(self, config: Config, round_: int, parent: Observation | None, known: History) -> Config:
        """Keep what only falls or only rises from passing the values that the lineage trained with."""
        limited = {number.name for number in self.space.limited}
        # A selection may have picked weights of one observation with the configuration of another.
        loaded = None if parent is None else known.find(parent.key)
        before: Config = {}
        for ancestor in known.ancestors(loaded) if limited else ():
            before = self.space.flatten(known.applied(ancestor)) | before
            if limited <= before.keys():  # Else one of them is inactive there: its last value counts.
                break
        if not before:
            return config
        assert loaded is not None
        # A rule of the space, such as a forbidden clause, may not allow the limited value. The parent's own
        # configuration is limited too: an asynchronous member may be in an earlier round of a schedule.
        for each in (config, loaded.config):
            held = self.space.hold(each, round_, before)
            with suppress(SpaceError):
                self.space.check(held)
                return held
        return loaded.config

    def _find_others(self, member: int, states: MemberStates) -> list[Key]:
        """Return the intervals that the other members were training then: all that had a round left."""
        going = np.ones(self.size, dtype=np.bool_) if self.rounds is None else states.finished < self.rounds
        going[member] = False
        others = np.flatnonzero(going)
        return list(zip(others.tolist(), states.finished[others].tolist(), strict=True))

    def _config(self, key: Key) -> Config:
        """Return the configuration of an interval that is pending or was finished since."""
        if (assignment := self._pending.get(key)) is not None:
            return assignment.config
        if (decision := self._ready.get(key)) is not None:
            return decision.assignment.config
        return self.history[self.history.index_of(key)].config

    def _select(self, known: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Select the weights and configuration that members continue with, if the method exploits."""
        if self.method.restarts:
            picks = start_afresh(members)
        elif not self.method.exploits:
            picks = stay(known, members)
        else:
            picks = self.selection.select(known, members, rng)
            picks = check_picks(picks, known, members, type(self.selection).__name__)
        if self.explore == "all":
            picks = replace(picks, explores=np.full(len(members), True))
        return hold(picks, known, members) if self.plan.control else picks

    def _explore(
        self, parents: Parents, known: History, pending: Sequence[Config], stream: tuple[int, ...]
    ) -> list[Proposal]:
        """Get proposals from the method and check them: a user's explorer may break the contract."""
        if not parents:
            return []
        proposals = self.method.explore_round(self.space, known, pending, parents, self._rng(EXPLORE, *stream))
        name = type(self.plan.method).__name__  # `self.method` may be an adapter of it.
        if len(proposals) != len(parents) or not all(isinstance(each, Proposal) for each in proposals):
            raise ArgumentError(f"{name} must return a Proposal for each of {len(parents)} members, got {proposals!r}")
        try:
            # In the space's own types: a user's explorer may return numpy's numbers, or a dict that it changes later.
            configs = [self.space.nest(self.space.check(each.config)) for each in proposals]
        except SpaceError as error:
            raise SpaceError(f"{name} proposed an illegal configuration: {error}") from error
        # Checked now, rather than when it is stored after an interval of training.
        decisions = [plain(each.decision, f"{name}'s decision") for each in proposals]
        return [Proposal(config, decision) for config, decision in zip(configs, decisions, strict=True)]

    def _applied(self, assignment: Assignment) -> Assignment:
        """Copy an assignment for the user, who trains with what its configuration means in its round."""
        config, decision = copy.deepcopy((self.space.applied(assignment.config, assignment.round), assignment.decision))
        return replace(assignment, config=config, decision=decision)

    def _rng(self, *stream: int) -> np.random.Generator:
        """Return a separate generator for each purpose, round and member: none depends on the use of another."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=stream))

    # Checks

    def _check_history(self) -> None:
        members, rounds = self.history.intervals()
        if self.rounds is not None and (rounds >= self.rounds).any():
            index = int(np.argmax(rounds >= self.rounds))
            raise HistoryError(
                f"the run has rounds 0 to {self.rounds - 1}, got a history with round {rounds[index]} "
                f"of member {members[index]}; raise rounds"
            )
        expected = np.arange(len(rounds)) // self.size
        if self.synchronous and (rounds != expected).any():
            index = int(np.argmax(rounds != expected))
            raise HistoryError(
                f"in a synchronous run of {self.size} members observation {index} is of round {expected[index]}, "
                f"got a history with one of round {rounds[index]}; give its size, or synchronous=False"
            )

    def _check_schedules(self, recorded: Space) -> None:
        if differ := self.history.differing_schedules(recorded):
            raise HistoryError(
                f"{differ[0]!r}: its schedule must be the history's in the rounds that were done, got another; give "
                "history.space, which has its schedules, and a start without them"
            )

    def _refusal(self, assignment: Any) -> str:
        if not isinstance(assignment, Assignment):
            return f"tell takes an assignment, got {assignment!r}; give what ask returned"
        what = f"round {assignment.round} of member {assignment.member}"
        if self.history.find(assignment.key) is not None:
            return f"an assignment is told once, got {what} again; ask for the next"
        return f"only an assignment that ask returned can be told, got {what}; call ask first"


def _number(score: object) -> float:
    """Convert a score to a float; NaN for a failure."""
    if score is None:
        return math.nan
    try:
        if isinstance(score, str | bytes):  # float() would read some of them
            raise TypeError
        value = float(score)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"a score is a number, got {score!r}; tell NaN or None if the interval failed") from None
    return value if math.isfinite(value) else math.nan


class Pending(Sequence[Config]):
    """The configurations of pending intervals, each looked up only when it is read: methods read few, or none.

    >>> pending = Pending([(0, 3), (2, 3)], config=lambda key: {"x": key[0]})
    >>> len(pending), pending[-1], pending[:1]
    (2, {'x': 2}, [{'x': 0}])
    """

    def __init__(self, keys: Sequence[Key], config: Callable[[Key], Config]):
        self.keys, self._config = keys, config

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: Any) -> Any:
        chosen = self.keys[index]
        return list(map(self._config, chosen)) if isinstance(index, slice) else self._config(chosen)
