"""What a run hands over is read from its file as it is from its history."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits.history import Event, History, Observation
from popbandits.selection.choice import Candidate, choose_by_evaluations, choose_by_scores
from popbandits.storage import Store
from popbandits.storage.handed_over import handed_over, read_handed_over


def noisy(mode: Any, size: int | None = 4, rounds: int = 24) -> History:
    """A run whose scores rise a little and are noisy, with copies and failures."""
    rng, history = np.random.default_rng(9), History({"x": (0.0, 1.0)}, mode=mode, size=size)
    for round_ in range(rounds):
        for member in range(4):
            parent = (int(rng.integers(4)) if rng.random() < 0.2 else member, round_ - 1) if round_ else None
            source = None if parent is None else history.find(parent)
            if source is not None and source.failed:
                parent = source = None
            before = float("nan") if source is None else source.score
            if rng.random() < 0.05:
                status: Any = "lost" if parent is not None and member == 3 else "failed"
                history.append(Observation(member, round_, {"x": 0.5}, parent, before, status=status))
                continue
            score = history.sign * (0.05 * round_ + float(rng.normal()))
            history.append(Observation(member, round_, {"x": 0.5}, parent, before, score))
    return history


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("size", [4, None])
def test_the_file_and_the_history_choose_the_same_at_every_moment(mode: Any, size: int | None, tmp_path: Path) -> None:
    whole, different = noisy(mode, size), 0
    with Store.create(tmp_path, whole.space, {"mode": mode, "size": size}) as store:
        assert handed_over(store) is None
        for count, observation in enumerate(whole, 1):
            store.write([observation])
            then = whole.prefix(count)
            choice = choose_by_scores(then)
            assert handed_over(store) == handed_over(store, then) == choice
            different += choice is not None and then.best is not None and choice.observation != then.best
    assert different > 10


def test_members_that_never_trained_are_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = noisy("max")
    asked: list[Any] = []
    ask = Store.ask

    def counted(store: Store, *query: Any) -> Any:
        asked.append(query)
        return ask(store, *query)

    with Store.create(tmp_path, whole.space, {"mode": "max", "size": 1_000_000}) as store:
        store.write(whole)
        monkeypatch.setattr(Store, "ask", counted)
        assert handed_over(store) is not None
    assert 0 < len(asked) < 50


def test_an_evaluation_on_record_decides_until_the_run_goes_on(tmp_path: Path) -> None:
    whole = noisy("max")
    some = whole.prefix(len(whole) - 1)
    candidates = [Candidate(some[index], 0.0) for index in (0, 1)]
    choice = choose_by_evaluations(candidates, np.array([[1.0, 2.0], [3.0, 4.0]]), 1.0)
    assert choice is not None
    with Store.create(tmp_path, whole.space, {"mode": "max", "size": 4}) as store:
        store.write(some, events=[Event("evaluated", str(choice), data=choice.to_record(some))])
        assert handed_over(store) == read_handed_over(tmp_path) == choice
        store.write([whole[-1]])
        assert handed_over(store) == choose_by_scores(whole)
