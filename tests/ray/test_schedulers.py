"""The schedulers in Ray Tune itself."""

from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from ray import tune
from ray.tune import Callback
from ray.tune.error import TuneError

import popbandits.ray as schedulers
from popbandits import History
from popbandits.reports.live.member import member
from popbandits.reports.live.news import News
from popbandits.reports.report import write_report
from tests.ray.checking import check
from tests.ray.trainables import PARAM_SPACE, Climber, Fresh, Mortal, Stubborn, Together, climb

pytestmark = pytest.mark.usefixtures("cluster")

SIZE, INTERVAL, ROUNDS = 4, 2, 3


def tuner(trainable: Any, scheduler: Any, folder: Path, callbacks: Any = (), **settings: Any) -> tune.Tuner:
    return tune.Tuner(
        trainable,
        param_space=settings.pop("param_space", PARAM_SPACE),
        tune_config=tune.TuneConfig(
            scheduler=scheduler, num_samples=SIZE, metric="score", mode="max", reuse_actors=True
        ),
        run_config=tune.RunConfig(
            name="experiment",
            storage_path=str(folder),
            stop={"training_iteration": ROUNDS * INTERVAL},
            callbacks=list(callbacks),
            verbose=0,
            **settings,
        ),
    )


def scheduled(name: str = "PBT", **settings: Any) -> Any:
    settings = {
        "time_attr": "training_iteration",
        "perturbation_interval": INTERVAL,
        "quantile_fraction": 0.5,
    } | settings
    return getattr(schedulers, name)(**settings)


class Interruption(Callback):
    """Ends the driver's part in the middle of its work, after some results; again when it is restored.

    The second time every trial has finished an interval first: while the process of one starts, the others train on.
    """

    def __init__(self, results: int, before: Path):
        self.left, self.before = results, before

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **_: Any) -> None:
        self.left -= 1
        # What the scheduler knows of this trial may end before this result.
        done = [(t.last_result or {}).get("training_iteration", 0) - (t is trial) for t in trials]
        if self.left <= 0 and (not self.before.exists() or min(done) >= INTERVAL):
            self.before.touch()
            raise RuntimeError("interrupted")


@pytest.mark.parametrize(
    ("trainable", "synch"),
    [(Climber, False), (climb, True)],
)
@pytest.mark.slow  # One is restored below; in test_translation, after every result, in either mode.
def test_a_restored_experiment_decides_as_the_population_does(trainable: Any, synch: bool, tmp_path: Path) -> None:
    start = "defaults" if synch else None
    experiment = tuner(trainable, scheduled(synch=synch, start=start), tmp_path, [Interruption(9, tmp_path / "before")])
    with pytest.raises((RuntimeError, TuneError), match="interrupted"):
        experiment.fit()
    interrupted_at = len(History.load(tmp_path / "experiment"))
    assert interrupted_at > 0
    with pytest.raises((RuntimeError, TuneError), match="interrupted"):  # the callback is restored with the rest
        tune.Tuner.restore(str(tmp_path / "experiment"), trainable, param_space=PARAM_SPACE).fit()
    history = check(tmp_path / "experiment", "PBT", synch, SIZE, start)
    assert len(history) > interrupted_at
    assert {o.member for o in history} == set(range(SIZE))


class Everybody(Callback):
    """Keeps a file while every trial is running."""

    def __init__(self, path: Path):
        self.path = path

    def on_step_end(self, iteration: int, trials: Any, **_: Any) -> None:
        if all(trial.status == "RUNNING" or trial.is_finished() for trial in trials):
            self.path.touch()
        else:
            self.path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def asynchronous(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tune.ResultGrid]:
    """The folder and the results of an experiment in which nobody waits for a processor."""
    folder = tmp_path_factory.mktemp("asynchronous")
    space = {**PARAM_SPACE, "everybody": str(folder / "everybody")}
    trainable = tune.with_resources(Together, {"cpu": 0.5})
    watching = [Everybody(folder / "everybody")]
    return folder, tuner(trainable, scheduled(), folder, watching, param_space=space).fit()


def test_asynchronous_trials_that_need_not_wait_train_to_the_end_each_in_one_process(
    asynchronous: tuple[Path, tune.ResultGrid],
) -> None:
    folder, results = asynchronous
    assert not results.errors
    assert min(result.metrics["training_iteration"] for result in results) >= ROUNDS * INTERVAL
    history = check(folder / "experiment", "PBT", False, SIZE)
    assert any(o.parent is not None and o.parent[0] != o.member for o in history)
    assert len({o.metrics["pid"] for o in history}) == SIZE


def test_reports_and_the_live_page_read_an_experiment_of_tune_as_any_run(
    asynchronous: tuple[Path, tune.ResultGrid], tmp_path: Path
) -> None:
    folder, _ = asynchronous
    (report,) = write_report([folder / "experiment"], tmp_path / "report.html")
    for figure in ("winner", "learning", "schedules"):
        assert f'data-figure="{figure}"' in report.read_text()
    news = News(folder / "experiment").since(None)
    assert news is not None
    assert news["state"] == "finished"
    assert [row[1] for row in news["members"]] == ["done"] * SIZE
    assert "explored" in {entry["kind"] for entry in news["log"]}
    shown = member(folder / "experiment", 0)
    assert shown is not None
    assert not shown["training"]


@pytest.mark.slow  # Beside those below, of which one dies and gets another.
@pytest.mark.parametrize("cpus", [0.5, 1])
def test_synchronous_trials_that_wait_for_each_other_keep_their_processes(cpus: float, tmp_path: Path) -> None:
    results = tuner(tune.with_resources(Climber, {"cpu": cpus}), scheduled(synch=True), tmp_path).fit()
    assert not results.errors
    history = check(tmp_path / "experiment", "PBT", True, SIZE)
    assert sorted(o.key for o in history) == [(m, r) for m in range(SIZE) for r in range(ROUNDS)]
    assert len({o.metrics["pid"] for o in history}) <= 2 / cpus  # The cluster has two processors.


@pytest.mark.slow
def test_a_class_that_cannot_be_reset_gets_new_processes(tmp_path: Path) -> None:
    everybody = tmp_path / "everybody"
    space = {**PARAM_SPACE, "everybody": str(everybody)}
    trainable = tune.with_resources(Fresh, {"cpu": 0.5})
    results = tuner(trainable, scheduled(), tmp_path, [Everybody(everybody)], param_space=space).fit()
    assert not results.errors
    history = check(tmp_path / "experiment", "PBT", False, SIZE)
    assert len({o.metrics["pid"] for o in history}) > SIZE


def test_the_record_is_kept_where_the_results_are(cluster: Any, tmp_path: Path) -> None:
    elsewhere = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())  # as far as anybody can tell, in a cloud
    interrupted = [Interruption(9, tmp_path / "before")]
    experiment = tuner(Climber, scheduled(synch=True), Path("bucket"), interrupted, storage_filesystem=elsewhere)
    with pytest.raises((RuntimeError, TuneError), match="interrupted"):
        experiment.fit()
    kept = tmp_path / "bucket" / "experiment"
    before = len(History.load(kept))
    assert before > 0
    session = Path(cluster.head_node.get_session_dir_path())  # not the latest one: other tests may have a Ray as well
    staged = list(session.glob("artifacts/*/experiment/record/run.sqlite*"))
    assert staged
    for file in staged:
        file.unlink()  # as on another machine
    again = tune.Tuner.restore("bucket/experiment", Climber, storage_filesystem=elsewhere, param_space=PARAM_SPACE)
    with pytest.raises((RuntimeError, TuneError), match="interrupted"):
        again.fit()
    assert len(check(kept, "PBT", True, SIZE)) > before


def test_synchronous_trials_keep_their_processes_and_one_whose_process_dies_is_tried_again(tmp_path: Path) -> None:
    space = {**PARAM_SPACE, "grave": str(tmp_path / "grave")}
    again = tune.FailureConfig(max_failures=1)
    results = tuner(Mortal, scheduled(synch=True), tmp_path, param_space=space, failure_config=again).fit()
    assert (tmp_path / "grave").exists()
    assert not results.errors
    history = check(tmp_path / "experiment", "PBT", True, SIZE)
    assert sorted(o.key for o in history) == [(m, r) for m in range(SIZE) for r in range(ROUNDS)]
    assert any(o.parent is not None and o.parent[0] != o.member for o in history)
    assert max(result.metrics["score"] for result in results) == history.best.score
    assert len({o.metrics["pid"] for o in history}) <= 2 + 1  # The cluster has two processors.


def test_a_trainable_that_ignores_its_new_configuration_ends_the_experiment(tmp_path: Path) -> None:
    with pytest.raises(TuneError, match=r"must train with the hyperparameters.*'applied' says otherwise: lr is"):
        tuner(Stubborn, scheduled(synch=True), tmp_path).fit()
