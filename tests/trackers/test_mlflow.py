"""MLflow with a database of its own, read back by its client."""

from pathlib import Path
from typing import Any

import pytest

from popbandits import MLflowTracker
from popbandits.trackers.tracker import tracking_id
from tests.trackers.runs import curves, killed_twice

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated"),  # MLflow's, in SQLAlchemy
    pytest.mark.filterwarnings(r"ignore:os.fork\(\) was called:RuntimeWarning"),  # JAX's, if its tests came before
]


def curve(client: Any, run: str, name: str) -> list[tuple[int, float]]:
    return sorted((each.step, each.value) for each in client.get_metric_history(run, name))


@pytest.mark.parametrize("per_member", [False, True])
def test_a_run_that_is_killed_twice_goes_on_in_the_same_run_of_the_tracker(per_member: bool, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    uri, directory = f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path / "run"

    def make() -> MLflowTracker:
        return MLflowTracker(uri, "tests", per_member=per_member)

    history = killed_twice(directory, make)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("tests")
    runs = {run.data.tags["popbandits.id"]: run for run in client.search_runs([experiment.experiment_id])}
    identity = tracking_id(directory)
    assert set(runs) == {identity, *(f"{identity}-{member}" for member in range(3) if per_member)}
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    assert runs[identity].info.run_name == "run"
    assert runs[identity].data.tags["popbandits.method"] == "PBT"
    for member in range(3):
        mine = [o for o in history if o.member == member]
        run = runs[f"{identity}-{member}" if per_member else identity]
        begins = "" if per_member else f"member_{member}/"
        for name, values in curves(mine).items():
            expected = [(o.round, value) for o, value in zip(mine, values, strict=True)]
            assert curve(client, run.info.run_id, begins + name) == expected, name
        parents = curve(client, run.info.run_id, f"{begins}lineage/parent_member")
        assert parents == [(o.round, o.parent[0]) for o in mine if o.parent is not None]
        assert run.data.tags[f"{begins}hyperparameters/optimizer"] == mine[-1].config["optimizer"]
        last = mine[-1].parent
        assert last is not None
        assert run.data.tags[f"{begins}lineage/parent"] == f"member {last[0]}, round {last[1]}"
        if per_member:
            assert run.data.tags["mlflow.parentRunId"] == runs[identity].info.run_id
