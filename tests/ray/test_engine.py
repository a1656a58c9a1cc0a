"""Ray as an engine: the same runs as in process, on actors that come and go."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import ray

from popbandits import PBT, History, StopWhen, resume, tune
from popbandits.engines.ray_engine import Host, RayEngine, pack, unpack
from popbandits.engines.work import JobReport
from popbandits.errors import AgentError, RunError
from popbandits.history import Observation
from popbandits.run import Result
from popbandits.storage.store import Store
from popbandits.views.view import View
from tests.engines.agents import Deaf, Releasing, Walker, space
from tests.processes import until
from tests.ray.members import Fatal
from tests.run.evaluated import SPACE, Evaluated

pytestmark = pytest.mark.usefixtures("cluster")


def tuned(agent: Any, directory: Path, **settings: Any) -> Result:
    settings = {"method": PBT(), "rounds": 3, "progress": False, "engine": "ray"} | settings
    return tune(agent, space(), directory=directory, **settings)


def said(directory: Path, *kinds: str) -> dict[tuple[int, int], str]:
    with Store.open(directory, readonly=True) as store:
        return {(e.member, e.round): e.text for e in store.events() if e.kind in kinds}


@pytest.fixture(scope="module")
def in_process(tmp_path_factory: pytest.TempPathFactory) -> History:
    """The history that there should be."""
    return tuned(Walker, tmp_path_factory.mktemp("in-process"), engine="in-process").history


def test_ray_makes_the_history_that_is_made_in_process_with_an_actor_for_each_member(
    in_process: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, start = [], RayEngine._start

    def start_counted(engine: RayEngine) -> Any:
        started.append(start(engine))
        return started[-1]

    monkeypatch.setattr(RayEngine, "_start", start_counted)
    (closed := tmp_path / "closed").mkdir()
    result = tuned(partial(Releasing, folder=closed), tmp_path, resources={"cpus": 0.5, "gpus": 0})
    assert result.done
    assert result.history == in_process
    assert len(started) == len({o.member for o in in_process}) < len(in_process)
    assert not list(tmp_path.rglob("*seen-*"))
    assert len(list(closed.iterdir())) >= 4, "a member has an agent wherever it trained, and all are closed"


def test_a_callback_stops_a_run_on_ray_and_it_can_be_resumed(in_process: History, tmp_path: Path) -> None:
    stopped = tuned(Walker, tmp_path, callbacks=[StopWhen(lambda history: len(history) >= 4)])
    assert len(stopped.history) == 4
    # Two of four actors still waited for a processor when the run ended: nobody keeps one.
    until(lambda: ray.available_resources().get("CPU") == 2, seconds=60)
    assert resume(tmp_path, progress=False).history == in_process


def test_actors_that_wait_for_resources_end_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, ended = RayEngine(Walker, 4, tmp_path), list[Any]()
    monkeypatch.setattr(engine._ray, "kill", ended.append)
    ready, waiting = engine._workers[:2], engine._workers[2:]
    for worker in ready:
        worker.node = "node"
    engine.close()
    monkeypatch.undo()
    for actor in ended:
        ray.kill(actor)
    assert ended == [worker.actor for worker in (*waiting, *ready)]


def test_without_a_shared_folder_checkpoints_travel_as_bytes(
    in_process: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = RayEngine._start

    def start_unseen(engine: RayEngine) -> Any:
        with suppress(FileNotFoundError):
            engine._marker.rmdir()  # so no actor finds the mark that it looks for
        return start(engine)

    monkeypatch.setattr(RayEngine, "_start", start_unseen)
    monkeypatch.setattr(Host, "do", None)
    assert tuned(Walker, tmp_path).history == in_process
    settings: dict[str, Any] = {"rounds": 3, "seed": 1, "progress": False, "evaluations": 3}
    here = tune(Evaluated, SPACE, directory=tmp_path / "here", **settings)
    there = tune(Evaluated, SPACE, directory=tmp_path / "there", engine="ray", **settings)
    assert there.choice == here.choice
    assert there.choice.reason == "evaluated"


def test_actors_that_hang_or_die_are_replaced(tmp_path: Path) -> None:
    result = tuned(Fatal, tmp_path, rounds=8, round_timeout=2.0)
    assert result.done
    assert sorted(o.key for o in result.history) == [(m, r) for m in range(4) for r in range(8)]
    failures = said(tmp_path, "timeout", "died")
    assert failures.keys() == {o.key for o in result.history if o.failed}
    assert "did not end within 2 seconds" in failures.values()
    assert any(text.startswith("its actor died: ") for text in failures.values())


def test_a_report_that_does_not_come_through_is_made_again(
    in_process: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, failed = ray.get, []

    def get_or_not(answer: Any) -> Any:
        report = get(answer)
        if isinstance(report, JobReport) and not failed:
            failed.append(report.key)
            raise ray.exceptions.ActorUnavailableError("out of reach", None)
        return report

    monkeypatch.setattr(ray, "get", get_or_not)
    assert tuned(Walker, tmp_path).history == in_process
    assert failed


class Vandal(View):
    def __init__(self, directory: Path):
        self.directory = directory

    def told(self, observation: Observation) -> None:
        if observation.key == (1, 0):
            (self.directory / "checkpoints" / "member-1-round-0" / "arrays.npz").unlink()


def test_a_spoilt_checkpoint_is_found_before_training_on_it(tmp_path: Path) -> None:
    result = tuned(Walker, tmp_path, progress=Vandal(tmp_path))
    lost = [o for o in result.history if o.status == "lost"]
    assert {o.parent for o in lost} == {(1, 0)}
    assert all("arrays.npz" in text for text in said(tmp_path, "lost").values())


def test_a_run_stops_when_an_agent_trains_with_other_hyperparameters(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"must train with the hyperparameters it is given.*expected"):
        tuned(Deaf, tmp_path, explore="all")


def unbuildable(seed: int) -> Walker:
    raise ValueError("no such environment")


def test_an_agent_that_cannot_be_built_fails_as_it_does_in_process(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"(?s)no interval has completed yet.*ValueError: no such environment") as caught:
        tuned(unbuildable, tmp_path)
    _, begin, first, *_ = str(caught.value).splitlines()  # The user's own frames come first.
    assert begin == "Traceback (most recent call last):"
    assert first.endswith("in unbuildable")


def test_a_folder_comes_back_from_bytes(tmp_path: Path) -> None:
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "deep" / "file").write_bytes(b"\x00\x01")
    unpack(pack(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "b" / "deep" / "file").read_bytes() == b"\x00\x01"
