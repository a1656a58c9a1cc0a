"""Ask and tell: who trains next with what, from which weights. It knows nothing of processes or devices."""

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from popbandits.errors import ArgumentError, HistoryError, SpaceError
from popbandits.explorers import Explorer, PB2Fuse, Proposal, as_explorer
from popbandits.history import Assignment, Config, History, Key, Mode, Observation
from popbandits.history.records import plain
from popbandits.population.initial import initial_points
from popbandits.population.selection import select
from popbandits.space import Space
from popbandits.typing import is_real, is_whole

INITIAL, SELECT, EXPLORE = range(3)
"""What a stream of random numbers is for."""


class Population:
    """A population in training.

    Everything it decides is a function of the history and the seed, so it can be built from a stored history at any
    point and goes on as if it had never stopped.

    A population of one has nobody to be replaced by: only `explore="all"` changes its configuration.

    >>> population = Population({"x": (0.0, 1.0)}, size=2, rounds=3, seed=0)
    >>> while not population.done:
    ...     for assignment in population.ask():
    ...         population.tell(assignment, score=assignment.round + assignment.config["x"])
    >>> len(population.history)
    6
    """

    def __init__(
        self,
        space: Any,
        method: Explorer | Any = None,
        size: int = 4,
        rounds: int | None = 50,
        seed: int = 0,
        mode: Mode = "max",
        quantile: float = 0.25,
        explore: Literal["replaced", "all"] = "replaced",
        synchronous: bool = True,
        initial_score: float | None = None,
        history: Iterable[Observation] = (),
    ):
        self.space = Space(space)
        self.method = PB2Fuse() if method is None else as_explorer(method)
        self.size, self.rounds, self.seed = size, rounds, seed
        self.quantile, self.explore, self.synchronous = quantile, explore, synchronous
        self.initial_score = math.nan if initial_score is None else initial_score
        """What a member scores before any training, where that is known; it is guessed otherwise."""
        self._check_arguments()
        if isinstance(history, History) and history.mode != mode:
            raise HistoryError(f"mode must be the history's, {history.mode!r}, got {mode!r}; make the two equal")
        self.history = History(self.space, history, mode=mode, size=self.size, rounds=self.rounds)
        self._open: dict[Key, Assignment] = {}  # decided, and not told yet
        self._asked: set[Key] = set()
        self._first = initial_points(self.space, self.size, self._rng(INITIAL))
        self._check_history()
        self._idle = sorted(range(self.size), key=self._idle_since)  # members to decide for, in asynchronous mode

    def ask(self) -> list[Assignment]:
        """Those ready to train now; none while a round is incomplete."""
        self._plan()
        ready = [assignment for key, assignment in sorted(self._open.items()) if key not in self._asked]
        self._asked.update(assignment.key for assignment in ready)
        # Copies, because users change dicts that they are handed.
        return [copy.deepcopy(assignment) for assignment in ready]

    def tell(
        self,
        assignment: Assignment,
        score: float | None,
        steps: float | None = None,
        metrics: Mapping[str, Any] | None = None,
        seconds: float | None = None,
    ) -> None:
        """What came of an assignment. NaN, an infinity or None as the score mean that it failed."""
        mine = self._open.get(getattr(assignment, "key", (-1, -1)))
        if mine is None or mine.key not in self._asked:
            raise HistoryError(self._refusal(assignment))
        value = _number(score)
        parent = None if mine.parent is None else self.history.find(mine.parent)
        observation = Observation(
            member=mine.member,
            round=mine.round,
            config=mine.config,
            parent=mine.parent,
            score_before=self.initial_score if parent is None else parent.score,
            score=value,
            steps=steps,
            seconds=seconds,
            status="completed" if math.isfinite(value) else "failed",
            metrics={} if metrics is None else metrics,
            decision=mine.decision,
        )
        self.history.append(observation)
        del self._open[mine.key]
        self._asked.discard(mine.key)
        self._idle.append(mine.member)

    def _idle_since(self, member: int) -> int:
        finished = self.history.finished(member)
        return self.history.place((member, finished - 1)) if finished else -1

    @property
    def pending(self) -> list[Assignment]:
        """Those that were asked for and not told yet."""
        return [copy.deepcopy(assignment) for key, assignment in sorted(self._open.items()) if key in self._asked]

    @property
    def done(self) -> bool:
        """Whether every member has finished its last round."""
        return self.rounds is not None and len(self.history) >= self.size * self.rounds

    @property
    def best(self) -> Observation | None:
        """The completed observation with the best score."""
        return self.history.best

    # Planning: every function below depends on a state of the history and on the seed, on nothing else.

    def _plan(self) -> None:
        """Decide all that can be decided now."""
        if not self.synchronous:
            # In the order in which they became idle: what a member is given must not depend on when it is asked for.
            for member in self._idle:
                self._plan_member(member)
            self._idle.clear()
        elif not self._open and not self.done:
            self._plan_round(len(self.history) // self.size)

    def _plan_round(self, round_: int) -> None:
        """All members' assignments of a synchronous round, from the rounds before it."""
        members = list(range(self.size))
        if round_ == 0:
            planned = {member: self._initial(member) for member in members}
        else:
            known = self.history.until(round_ * self.size)
            latest = {member: known[known.place((member, round_ - 1))] for member in members}
            planned = self._decide(members, latest, known, [], (round_,))
        for member in members:
            if self.history.finished(member) == round_:
                self._open[member, round_] = planned[member]

    def _plan_member(self, member: int) -> None:
        """One member's next assignment in asynchronous mode, from what was known when it became idle."""
        round_ = self.history.finished(member)
        if self.rounds is not None and round_ >= self.rounds:
            return
        if round_ == 0:
            self._open[member, 0] = self._initial(member)
            return
        known = self.history.until(self.history.place((member, round_ - 1)) + 1)
        latest = {m: o for m in range(self.size) if (o := known.latest(m)) is not None}
        training = [config for m in range(self.size) if m != member and (config := self._in_training(m, known))]
        self._open[member, round_] = self._decide([member], latest, known, training, (round_, member))[member]

    def _in_training(self, member: int, known: History) -> Config | None:
        """What another member was training with when `known` was all that was known; None if it had finished."""
        key = (member, known.finished(member))
        later = self.history.find(key)
        if later is not None:
            return later.config
        return self._open[key].config if key in self._open else None

    def _initial(self, member: int) -> Assignment:
        return Assignment(member, 0, self.space.decode(self._first[[member]])[0])

    def _decide(
        self,
        members: Sequence[int],
        latest: Mapping[int, Observation],
        known: History,
        training: Sequence[Config],
        stream: tuple[int, ...],
    ) -> dict[int, Assignment]:
        """What members do next: exploit (whose weights to load), then explore (which configuration to use)."""
        parents = self._parents(members, latest, known, self._rng(SELECT, *stream))
        exploring = [
            m
            for m in members
            if self.explore == "all" or self.method.restarts or parents[m] is None or parents[m] is not latest[m]
        ]
        carried = {m: latest[m].config for m in members if m not in exploring}
        proposals = self._explore([parents[m] for m in exploring], known, [*training, *carried.values()], stream)
        chosen = dict(zip(exploring, proposals, strict=True)) | {m: Proposal(config) for m, config in carried.items()}
        return {
            m: Assignment(
                m,
                latest[m].round + 1,
                chosen[m].config,
                None if (parent := parents[m]) is None else parent.key,
                chosen[m].decision,
            )
            for m in members
        }

    def _parents(
        self, members: Sequence[int], latest: Mapping[int, Observation], known: History, rng: np.random.Generator
    ) -> dict[int, Observation | None]:
        """Whose weights each member starts from: its own, a stronger member's, or none."""
        if self.method.restarts:
            return dict.fromkeys(members)
        own = {m: latest[m] if not latest[m].failed else known.last_completed(m) for m in members}
        if not self.method.exploits:
            return own
        survivors = (
            [] if any(not o.failed for o in latest.values()) else filter(None, map(known.last_completed, latest))
        )
        copies = select(list(latest.values()), self.quantile, known.sign, rng, list(survivors))
        return {m: copies.get(m, own[m]) for m in members}

    def _explore(
        self, parents: Sequence[Observation | None], known: History, training: Sequence[Config], stream: tuple[int, ...]
    ) -> list[Proposal]:
        """Ask the method, and do not trust it: a user's own explorer is code like any other."""
        if not parents:
            return []
        rng = self._rng(EXPLORE, *stream)
        proposals = self.method.explore_round(self.space, known, training, parents, rng)
        name = type(self.method).__name__
        if len(proposals) != len(parents) or not all(isinstance(each, Proposal) for each in proposals):
            raise ArgumentError(f"{name} must return a Proposal for each of {len(parents)} members, got {proposals!r}")
        try:
            # As the space would write it: a user's explorer may hand back numpy's numbers, or a dict that it keeps.
            configs = [self.space.nest(self.space.check(each.config)) for each in proposals]
        except SpaceError as error:
            raise SpaceError(f"{name} proposed an illegal configuration: {error}") from error
        # Now rather than when it is stored, after an interval of training.
        decisions = [plain(each.decision, f"{name}'s decision") for each in proposals]
        return [Proposal(config, decision) for config, decision in zip(configs, decisions, strict=True)]

    def _rng(self, *stream: int) -> np.random.Generator:
        """A generator of its own for every purpose, round and member: none depends on how often another was used."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=stream))

    # Checks

    def _check_arguments(self) -> None:
        for name, value in (("size", self.size), ("rounds", self.rounds), ("seed", self.seed)):
            if value is None and name == "rounds":
                continue
            least = 0 if name == "seed" else 1
            if value is None or not is_whole(value, least):
                raise ArgumentError(f"{name} must be a whole number of at least {least}, got {value!r}; change it")
            setattr(self, name, int(value))  # Numpy's integers cannot be stored.
        if not (is_real(self.quantile) and 0 < self.quantile <= 0.5):
            raise ArgumentError(f"quantile must be above 0 and at most 0.5, got {self.quantile!r}; 0.25 is usual")
        if self.explore not in ("replaced", "all"):
            raise ArgumentError(f"explore must be 'replaced' or 'all', got {self.explore!r}; choose one")
        if not isinstance(self.synchronous, bool):
            raise ArgumentError(f"synchronous must be True or False, got {self.synchronous!r}; choose one")
        known = self.initial_score
        if not (known != known or (is_real(known) and math.isfinite(known))):
            raise ArgumentError(f"initial_score must be finite, or None if unknown, got {known!r}; leave it out")

    def _check_history(self) -> None:
        for place, observation in enumerate(self.history):
            if self.rounds is not None and observation.round >= self.rounds:
                raise HistoryError(
                    f"the run has rounds 0 to {self.rounds - 1}, got a history with round {observation.round} "
                    f"of member {observation.member}; raise rounds"
                )
            if self.synchronous and observation.round != place // self.size:
                raise HistoryError(
                    f"in a synchronous run of {self.size} members observation {place} is of round "
                    f"{place // self.size}, got a history with one of round {observation.round}; give its size, or "
                    "synchronous=False"
                )

    def _refusal(self, assignment: Any) -> str:
        if not isinstance(assignment, Assignment):
            return f"tell takes an assignment, got {assignment!r}; give what ask returned"
        what = f"round {assignment.round} of member {assignment.member}"
        if self.history.find(assignment.key) is not None:
            return f"an assignment is told once, got {what} again; ask for the next"
        return f"only what was asked for can be told, got {what}; call ask, and tell what it returned"


def _number(score: object) -> float:
    """The score as a float; NaN for what means failure."""
    if score is None:
        return math.nan
    try:
        if isinstance(score, str | bytes):  # float() would read some of them
            raise TypeError
        value = float(score)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ArgumentError(f"a score is a number, got {score!r}; tell NaN or None if the interval failed") from None
    return value if math.isfinite(value) else math.nan
