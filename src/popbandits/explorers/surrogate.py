"""The two halves of a decision that the PB2 methods share: a time-varying GP for numbers, bandits for labels."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from functools import cache, cached_property
from itertools import islice, pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from threadpoolctl import ThreadpoolController

from popbandits.basics.rules import EDITION, real, whole
from popbandits.basics.typing import BoolArray, FloatArray, IntArray
from popbandits.explorers.explorer import Configs, Explorer, Parents, Proposal
from popbandits.history import History, Observation, Rows
from popbandits.models.acquisition import UpperConfidenceBound, candidates, confidence, maximise
from popbandits.models.bandit import TVEXP3M
from popbandits.models.gp import Likelihood, NotFittedError, Posterior, Structure, fit, starts
from popbandits.models.kernel import Embedding
from popbandits.space import Points, Space
from popbandits.space.drawing import complete_point, draw_points

REFRESH = 0.1
"""Share of new rows after which a fit tries cold starts again. Warm starts alone can stay in a bad optimum for the rest
of a run; cold starts at every refit cost several times as much."""

CANDIDATES = 128
"""Number of uniform starting points for the climb, besides recently tried ones."""

PENDING = 64
"""Maximum number of pending configurations that a model uses, the last ones."""

KNOWN = 64
"""Maximum number of recently seen numbers that are added as candidates."""


@dataclass(frozen=True)
class BeforeScale:
    """The scale of the score before as an input of the model: its range over the rows is [0, 1]; unknown ones are 0.5.

    Without a range, because no score before is known yet or all are equal, every score is 0.5. A parent's score may be
    new: it is taken to lie at most one range outside.
    """

    low: float
    high: float
    edition: int

    @staticmethod
    def of(before: FloatArray, edition: int) -> "BeforeScale":
        """Return the scale of some scores."""
        known = before[np.isfinite(before)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        return BeforeScale(low, high, edition)

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Return the scores on the scale."""
        spread = self.high - self.low
        if self.edition == 1:
            scaled = (scores - self.low) / (spread or 1.0)
        elif spread > 0:
            scaled = np.clip((scores - self.low) / spread, -1.0, 2.0)
        else:
            scaled = np.full(scores.shape, 0.5)
        return np.where(np.isfinite(scores), scaled, 0.5)


@dataclass(frozen=True)
class Surrogate:
    """A fitted model of the change in score, used for the next round."""

    space: Space
    structure: Structure
    posterior: Posterior
    weight: float
    known: FloatArray
    """(k, d) recently tried numbers."""
    context: BeforeScale | None
    """Scale of the score before, if it is an input."""
    record: Mapping[str, Any]

    def bound(self, history: History, parent: Observation | None) -> UpperConfidenceBound:
        """Return the acquisition function for a member that starts its next round from `parent`."""
        time = float(history.stage(None if parent is None else parent.key))
        context = None
        if self.context is not None:
            score = np.nan if parent is None else history.sign * parent.score
            context = self.context(np.array([[score]]))
        return UpperConfidenceBound(self.structure, self.posterior, self.weight, time, context)

    def candidates(
        self, labels: IntArray, pending: FloatArray, count: int, rng: np.random.Generator
    ) -> tuple[Points, IntArray]:
        """Return starting points for the climb, for each row of labels: uniform, recently tried and pending ones."""
        known = np.concatenate([self.known, pending])
        return candidates(self.space, labels, known, rng.random((count + len(known), len(self.space.numerical))))


@dataclass(frozen=True)
class ModelExplorer(Explorer):
    """Common part of the GP methods: their arguments, the fit, the climb, and the fallback to sampling.

    A method may define how labels are chosen (`choose_labels`) and which rows a model learns from (`relevant`), and its
    docstring describes the arguments.
    """

    earlier: ClassVar[Mapping[str, Any]] = {"edition": 1}

    c1: float = 0.2
    c2: float = 0.4
    window: int | None = 300
    per_dimension: bool = False
    score_before: bool = False
    _: KW_ONLY
    continued_only: bool = False
    edition: int = 2

    ages: ClassVar[bool] = True
    """True if observations lose weight with time."""
    sees_labels: ClassVar[bool] = True
    """True if the kernel compares labels."""
    bandit: ClassVar[Mapping[str, Any]] = {}
    """Settings in which the bandits (`Arms`) differ from TV.EXP3.M."""

    def __post_init__(self) -> None:
        whole(1).or_none("for all").check("window", self.window)
        real("finite and at least 0", lambda number: 0 <= number < np.inf).check("c1", self.c1)
        real("finite and above 0", lambda number: 0 < number < np.inf).check("c2", self.c2)
        EDITION.check("edition", self.edition)

    def choose_labels(
        self, space: Space, history: History, parents: Parents, rng: np.random.Generator
    ) -> tuple[IntArray, Mapping[str, Any]]:
        """Return (k, m) the labels of every member that explores, drawn by the bandits, and a record of the choice."""
        arms = self.arms(space, history)
        return arms.draw(len(parents), rng), arms.record()

    def arms(self, space: Space, history: History) -> "Arms":
        """Replay the bandits over the observations in the window, from new ones: the window limits their horizon."""
        span = None if self.window is None else max(1, self.window // (history.size or 1))
        horizon = min((limit for limit in (history.rounds, span) if limit is not None), default=None)
        return Arms(space, history.recent(self.window), horizon, fenced=self.edition > 1, **self.bandit)

    def relevant(self, rows: Rows, labels: IntArray) -> BoolArray | None:
        """Return the mask of rows to fit the model for these labels to; None for one model of all rows and labels."""
        return None

    def explore_round(
        self, space: Space, history: History, pending: Configs, parents: Parents, rng: np.random.Generator
    ) -> list[Proposal]:
        """Choose configurations for several members with one model."""
        with one_blas_thread():
            return self.propose(space, history, space.encode(pending[-PENDING:]), parents, rng)

    def propose(
        self, space: Space, history: History, pending: Points, parents: Parents, rng: np.random.Generator
    ) -> list[Proposal]:
        """Choose labels for all members, then numbers for one after another: each is pending for the next."""
        labels, about = self.choose_labels(space, history, parents, rng)
        models = Models(self, space, history)
        proposals = []
        for parent, wanted in zip(parents, labels, strict=True):
            point, decision = self._numbers(models, wanted, parent, pending, rng)
            pending = Points.concatenate([pending, point])
            proposals.append(Proposal(space.decode(point)[0], {**about, **decision}))
        return proposals

    def _numbers(
        self, models: "Models", labels: IntArray, parent: Observation | None, pending: Points, rng: np.random.Generator
    ) -> tuple[Points, Mapping[str, Any]]:
        """Return the numbers that maximise the bound at these labels; without a model, draw them."""
        space = models.space
        if not space.numerical:
            return draw_for(space, labels, rng), {}
        try:
            model = models.at(labels)
            bound = model.bound(models.history, parent).with_pending(pending)
            best = maximise(bound, space, *model.candidates(labels[None], pending.x, CANDIDATES, rng), groups=1)
            if not np.isfinite(best.values[0]):
                raise NotFittedError(f"no legal configuration was found at the labels {labels}")
        except NotFittedError as error:
            return draw_for(space, labels, rng), {"fallback": str(error)}
        return best.points, model.record


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread. The matrices are small and the other cores are busy training: with more threads, which
    wait for one another, a decision takes many times as long."""
    limited: AbstractContextManager[Any] = _blas().limit(limits=1, user_api="blas")
    return limited


_blas = cache(ThreadpoolController)
"""Finds the BLAS libraries once: that takes longer than a decision."""


class Models:
    """The models of one round: each is fitted once, when it is first needed."""

    def __init__(self, explorer: ModelExplorer, space: Space, history: History, since: int = 0):
        self.explorer, self.space, self.history = explorer, space, history
        rows = history.recent(explorer.window) if explorer.continued_only else history.informative(explorer.window)
        if explorer.continued_only:
            rows = rows[~rows.new]
        self.rows = rows[rows.round >= since] if since else rows
        self._fitted: dict[tuple[int, ...], Surrogate] = {}

    def at(self, labels: IntArray) -> Surrogate:
        """Return the model for these labels."""
        mask = self.explorer.relevant(self.rows, labels)
        scope = () if mask is None else tuple(self._active(labels).tolist())
        if scope not in self._fitted:
            self._fitted[scope] = self._fit(self.rows if mask is None else self.rows[mask], list(scope))
        return self._fitted[scope]

    def _active(self, labels: IntArray) -> IntArray:
        """Return the labels with -1 for variables that another label makes inactive: their labels do not matter."""
        numbers = np.full((1, len(self.space.numerical)), 0.5)
        active: IntArray = self.space.activate(Points(self.space.snap(numbers), labels[None])).h[0]
        return active

    def _fit(self, rows: Rows, scope: list[int]) -> Surrogate:
        explorer, space = self.explorer, self.space
        structure = Structure(
            Embedding(np.array([number.conditional for number in space.numerical], dtype=np.bool_)),
            context=int(explorer.score_before),
            labels=explorer.sees_labels and not scope and bool(space.categorical),
            time=explorer.ages,
            per_dimension=explorer.per_dimension,
        )
        rows = rows[np.isfinite(rows.change) | rows.failed]
        if not len(rows):
            raise NotFittedError("nothing was observed with these labels yet" if scope else "nothing was observed yet")
        dimensions = int(np.isfinite(rows.points.x).any(axis=0).sum())
        if len(rows) < dimensions + 1:
            raise NotFittedError(f"{len(rows)} observations are too few for {dimensions} numerical parameters")
        if not structure.free[:-1].any():
            raise NotFittedError("there is nothing to model: no numbers, and no labels that the kernel sees")
        y = standardise(rows.targets())
        context = BeforeScale.of(rows.before, explorer.edition) if explorer.score_before else None
        column = None if context is None else context(rows.before[:, None])
        inputs = structure.inputs(rows.points.x, rows.points.h, rows.stage.astype(np.float64), column)
        guesses, refreshed = _guesses(structure, self._previous(scope), len(rows), len(self.history))
        shifted = None if rows.guessed.all() else rows.guessed
        result = fit(Likelihood(structure, inputs, y, shifted), guesses)
        theta = result.theta[structure.free].tolist()
        record = {"theta": theta, "refreshed": refreshed, "log_posterior": result.log_posterior}
        return Surrogate(
            space,
            structure,
            Posterior.at(structure, result.theta, inputs, y, shifted),
            confidence(len(rows), explorer.c1, explorer.c2),
            _recent_distinct(rows.points.x),
            context,
            {**record, "scope": scope} if scope else record,
        )

    def _previous(self, scope: list[int]) -> Mapping[str, Any]:
        """Return the last recorded fit of this model in the window, whatever the order of results in a round."""
        size = self.history.size or 1
        found = [
            observation
            for observation in islice(reversed(self.history), -(-len(self.rows) // size) * size)
            if "theta" in observation.decision and observation.decision.get("scope", []) == scope
        ]
        return max(found, key=lambda o: (o.round, o.member)).decision if found else {}


@dataclass(frozen=True)
class Arms:
    """The bandits of a decision: a TV.EXP3.M for each categorical variable, replayed over some rows of history.

    Paper: the batch is drawn, played and fed back. Here: only replaced members draw, while every member's outcome is
    feedback for its label, because there is four times as much of it.
    """

    space: Space
    rows: Rows
    horizon: int | None = None
    exploration: Literal["corrected", "paper"] = "corrected"
    sharing: float | None = None
    fenced: bool = True
    """True if one collapse must not flatten the other gains (`Rows.gains`)."""

    @cached_property
    def _rounds(self) -> list[slice]:
        edges = np.flatnonzero(np.diff(self.rows.round, prepend=-1, append=-1))
        return [slice(start, stop) for start, stop in pairwise(edges)]

    @cached_property
    def _bandits(self) -> list[tuple[TVEXP3M, FloatArray]]:
        gains = self.rows.gains(self.fenced)
        known = []
        for column, variable in enumerate(self.space.categorical):
            bandit = TVEXP3M(len(variable.labels), self.horizon, exploration=self.exploration, sharing=self.sharing)
            played = self.rows.points.h[:, column]
            active = played >= 0
            feedback = [(played[r][active[r]], gains[r][active[r]]) for r in self._rounds]
            known.append((bandit, bandit.replay(feedback)))
        return known

    @cached_property
    def _feedback(self) -> int:
        """Mean number of members that give feedback in a round; it sets the bandits' exploration."""
        return max(1, round(len(self.rows) / max(1, len(self._rounds))))

    @cached_property
    def probabilities(self) -> list[FloatArray]:
        """For each variable, the probability of each label when one member draws."""
        return [
            bandit.expected_plays(weights, 1, len(self._rounds), self._feedback) for bandit, weights in self._bandits
        ]

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """Draw (count, m) labels for members of one round by dependent rounding: distinct if there are enough."""
        drawn = [
            bandit.draw(weights, count, rng, len(self._rounds), self._feedback) for bandit, weights in self._bandits
        ]
        return np.stack(drawn, axis=1) if drawn else np.empty((count, 0), dtype=np.int64)

    def record(self) -> dict[str, dict[str, list[float]]]:
        """Return the probabilities by variable, for the record of the decision."""
        names = (variable.name for variable in self.space.categorical)
        by_name = {name: p.tolist() for name, p in zip(names, self.probabilities, strict=True)}
        # Under their own key: a user's variable may be called "fallback" or "theta".
        return {"probabilities": by_name} if by_name else {}


def draw_for(space: Space, labels: IntArray, rng: np.random.Generator) -> Points:
    """Draw a point with these labels; if no such point is legal, any point."""
    point = complete_point(space, Points(np.full((1, len(space.numerical)), np.nan), labels[None]), rng)
    return draw_points(space, 1, rng) if point is None else point


def standardise(y: FloatArray) -> FloatArray:
    """Scale y to mean 0 and deviation 1. The floor is relative to y: a fixed one would shrink small changes."""
    y = y / (np.abs(y).max() or 1.0)  # so that no square over- or underflows
    spread = y.std()
    return (y - y.mean()) / spread if spread > 1e-10 else np.zeros_like(y)


def _guesses(structure: Structure, previous: Mapping[str, Any], rows: int, seen: int) -> tuple[FloatArray, int]:
    """Return the thetas to start from, and the number of observations at the last fit with cold starts."""
    cold, free = starts(structure), structure.free
    if len(previous.get("theta", ())) != free.sum():
        return cold, seen
    warm = structure.theta(previous["theta"])
    if seen - previous["refreshed"] >= REFRESH * rows:
        return np.concatenate([warm[None], cold]), seen
    return warm[None], previous["refreshed"]


def _recent_distinct(x: FloatArray) -> FloatArray:
    """Return the numbers seen last, without repetition."""
    _, first = np.unique(x[::-1], axis=0, return_index=True)
    return x[::-1][np.sort(first)[:KNOWN]]
