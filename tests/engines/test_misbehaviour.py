"""Whatever an agent raises, forks or leaves behind, it is that interval's failure and nobody else's."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import popbandits
from popbandits import PBT, History, RunError
from popbandits.engines.batched import copy_members
from popbandits.engines.work import failure_of
from popbandits.history import Event, Observation
from popbandits.run import Result, resume, tune
from popbandits.run.replay import replay
from popbandits.views.view import View
from tests.engines.agents import Once, Walker, space
from tests.engines.batches import together
from tests.engines.misbehaving import RAISED, FailsIn, Raising
from tests.engines.test_engines import ENGINES, events
from tests.processes import until

SETTINGS: dict[str, Any] = {"method": PBT(), "rounds": 3, "population": 3, "progress": False}


# What agents raise


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", ["__init__", "train", "save", "load"])
def test_a_traceback_begins_with_the_agents_own_frames(engine: Any, method: str, tmp_path: Path) -> None:
    make: Any = partial(FailsIn, method=method)
    make, begins = (together(make), "batches.py") if engine == "batched" else (make, "misbehaving.py")
    workers = None if engine in ("batched", "in-process") else 1
    settings = SETTINGS | {"engine": engine, "workers": workers, "max_failures": 0}
    if engine == "batched" and method == "load":  # Only a resumed batch loads.
        tune(make, space(), directory=tmp_path, **settings)
        run = partial(resume, tmp_path, agent=make, rounds=4, progress=False)
    else:
        run = partial(tune, make, space(), directory=tmp_path, **settings)
    with pytest.raises(RunError) as caught:
        run()
    recorded = [event.data["traceback"] for event in events(tmp_path, "raised")]
    assert recorded
    for trace in recorded:
        begin, first, *_, last = trace.splitlines()
        assert begin == "Traceback (most recent call last):"
        assert f'{begins}", line ' in first
        assert f"in {method}\n" in trace
        assert str(Path(popbandits.__file__).parent) not in trace
        assert last == "ValueError: the loss exploded"
    assert recorded[-1].strip() in str(caught.value)


class NoScore(Walker):
    """Returns nothing."""

    def train(self, config: dict[str, Any]) -> Any:
        return None


def test_an_error_of_ours_needs_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(RunError) as caught:
        tune(NoScore, space(), directory=tmp_path, **SETTINGS)
    assert str(caught.value).endswith("fix the agent, then start the run again")
    assert [event.data for event in events(tmp_path, "raised")] == [{}] * 3


def test_an_error_that_no_agent_raised_keeps_its_whole_traceback(tmp_path: Path) -> None:
    try:
        copy_members(object(), [1, 0])  # type: ignore[arg-type]
    except AttributeError as error:
        failure = failure_of(error, tmp_path)
    assert "test_misbehaviour.py" in failure.traceback.splitlines()[1]
    assert "in copy_members\n" in failure.traceback


@pytest.mark.parametrize(
    ("engine", "way"),
    [(engine, way) for engine in ("in-process", "threads") for way in RAISED]
    + [("processes", "interrupt"), ("processes", "surrogates")],  # only text goes to other processes
)
def test_whatever_an_agent_raises_is_recorded_and_the_run_goes_on(engine: Any, way: str, tmp_path: Path) -> None:
    result = tune(partial(Raising, way=way), space(), directory=tmp_path, engine=engine, workers=1, **SETTINGS)
    assert result.done
    failed = [o.key for o in result.history if o.failed]
    recorded = events(tmp_path, "raised")
    assert failed
    assert [(event.member, event.round) for event in recorded] == failed
    assert all(event.text.startswith(RAISED[way][1]) for event in recorded)
    assert all("in misbehave" in event.data["traceback"] for event in recorded)


def test_an_agent_that_hides_a_second_ctrl_c_does_not_stop_it(tmp_path: Path) -> None:
    class Hiding(Walker):
        def train(self, config: dict[str, Any]) -> Any:
            if trained.append(1) or len(trained) == 5:
                try:
                    signal.raise_signal(signal.SIGINT)
                    signal.raise_signal(signal.SIGINT)
                except KeyboardInterrupt:
                    raise RuntimeError("interrupted") from None
            return super().train(config)

    trained: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        tune(Hiding, space(), directory=tmp_path / "x", **SETTINGS)
    assert not any(o.failed for o in History.load(tmp_path / "x"))
    whole = tune(Walker, space(), directory=tmp_path / "whole", **SETTINGS)
    assert resume(tmp_path / "x", agent=Walker, progress=False).history == whole.history


def test_ctrl_c_still_stops_a_replay(tmp_path: Path) -> None:
    class Stopped(Walker):
        def train(self, config: dict[str, Any]) -> Any:
            signal.raise_signal(signal.SIGINT)
            return super().train(config)

    tune(Walker, space(), directory=tmp_path, **SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        replay(tmp_path, agent=Stopped)


# What agents fork


FORKING = """
import sys
from functools import partial
from pathlib import Path
from popbandits import PBT, tune
from tests.engines.agents import space
from tests.engines.batches import together
from tests.engines.misbehaving import Forking

if __name__ == "__main__":
    settings = {"method": PBT(), "rounds": 3, "population": 3, "progress": False}
    for engine in sys.argv[2:]:
        folder = Path(sys.argv[1]) / engine
        maker = partial(Forking, pids=folder / "pids")
        maker = together(maker) if engine == "batched" else maker
        tune(maker, space(), directory=folder / "run", engine=engine, **settings)
        print(engine, "is over")
"""


def test_a_process_that_an_agent_forked_does_not_go_on_as_the_driver(tmp_path: Path) -> None:
    """With every engine in turn, in one program: whoever goes on prints something twice."""
    for engine in ENGINES:
        (tmp_path / engine / "pids").mkdir(parents=True)
    script = tmp_path / "script.py"
    script.write_text(FORKING)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-u", "-W", "ignore", script, tmp_path, *ENGINES]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (ran.stdout, ran.stderr) == ("".join(f"{engine} is over\n" for engine in ENGINES), "")
    whole = tune(Walker, space(), directory=tmp_path / "whole", **SETTINGS)
    for engine in ENGINES:
        assert Result(tmp_path / engine / "run").history == whole.history, engine
        forked = list((tmp_path / engine / "pids").iterdir())
        assert len(forked) >= (21 if engine == "batched" else 27), engine  # Batched members go on from memory.
        until(lambda forked=forked: not any(runs(pid.name) for pid in forked))


def runs(pid: str) -> bool:
    """Whether a process is there; one that has ended has no command line, even while its parent has not noticed."""
    with suppress(OSError):
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    return False


# What threads leave behind


class Held(Walker):
    """Trains for as long as it is held."""

    go_on = threading.Event()
    training = threading.Semaphore(0)
    ended: list[threading.Thread]

    def train(self, config: dict[str, Any]) -> Any:
        self.ended.append(threading.current_thread())
        Held.training.release()
        Held.go_on.wait()
        return super().train(config)


def test_a_run_on_threads_that_was_stopped_at_once_can_be_resumed_in_the_same_process(tmp_path: Path) -> None:
    whole = tune(Walker, space(), directory=tmp_path / "whole", **SETTINGS)
    Held.go_on.clear()
    Held.ended = []

    once = threading.Event()

    class Noticing(View):
        def happened(self, event: Event) -> None:
            if event.kind == "stopping":
                once.set()

    def stop_twice() -> None:
        for _ in range(3):
            Held.training.acquire()
        for _ in range(2):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            once.wait()

    stopper = threading.Thread(target=stop_twice)
    stopper.start()
    with pytest.raises(KeyboardInterrupt):
        tune(Held, space(), directory=tmp_path / "x", engine="threads", **(SETTINGS | {"progress": Noticing()}))
    stopper.join()
    left_behind = list(Held.ended)

    class Meanwhile(View):
        """Lets the threads of the first run go on, in the middle of the second."""

        def told(self, observation: Observation) -> None:
            if observation.key == (0, 1):
                Held.go_on.set()
                for thread in left_behind:
                    thread.join(300)

    result = resume(tmp_path / "x", agent=Walker, engine="threads", progress=Meanwhile())
    assert not any(thread.is_alive() for thread in left_behind)
    assert result.history == whole.history
    assert names(tmp_path / "x") == names(tmp_path / "whole")


def test_a_thread_that_was_given_up_leaves_nothing_behind(tmp_path: Path) -> None:
    Held.go_on.clear()
    Held.ended = []

    class Slow(Once):
        def misbehave(self) -> None:
            Held.ended.append(threading.current_thread())
            Held.go_on.wait()

    result = tune(
        partial(Slow, way="hang"), space(), directory=tmp_path, engine="threads", round_timeout=0.5, **SETTINGS
    )
    assert result.done
    before = names(tmp_path)
    Held.go_on.set()
    assert Held.ended
    for thread in Held.ended:
        thread.join(300)
    assert names(tmp_path) == before
    assert not [name for name in before if not name.startswith("member-")]


def names(directory: Path) -> set[str]:
    return {path.name for path in (directory / "checkpoints").iterdir()}
