"""Observations in MLflow: a server, or a database file."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popbandits.basics.extras import library
from popbandits.population import Population
from popbandits.trackers.tracker import Entry, Tracker, describe, prefix, tracking_id

ID_TAG = "popbandits.id"
"""Tag of a run in MLflow: which run of ours it shows."""
MAX_BATCH_METRICS = 900
"""Metrics of one batch: MLflow takes a thousand."""
MAX_TAG_CHARS = 5000
"""Characters of a tag that every server takes."""


class MLflowTracker(Tracker):
    """Log to MLflow: numbers as metrics with the round as step, the latest labels and lineage as tags.

    Its runs are found by a tag, whose value is kept in the run's folder, so a resumed run goes on in the same ones.

    Args:
        tracking_uri: Place where MLflow keeps runs, such as "sqlite:///mlflow.db" or a server's URL. None (default) is
            what MLflow is set to.
        experiment: Name of the experiment; it is made if there is none. Default "popbandits".
        per_member: Whether each member has a run of its own, below one for the population. Default False: one run for
            the population, with the member in the names.
    """

    def __init__(self, tracking_uri: str | None = None, experiment: str = "popbandits", per_member: bool = False):
        super().__init__(per_member)
        self.tracking_uri, self.experiment = tracking_uri, experiment
        self._mlflow = library("mlflow", "mlflow", "MLflowTracker")
        self._entities = library("mlflow.entities", "mlflow", "MLflowTracker")
        self._runs: dict[int | None, str] = {}

    def begin(self, population: Population, directory: Path) -> Mapping[int, int]:
        """Find its runs or make them, and read which rounds they have."""
        self._client = self._mlflow.MlflowClient(self.tracking_uri)
        known = self._client.get_experiment_by_name(self.experiment)
        where = self._client.create_experiment(self.experiment) if known is None else known.experiment_id
        identity, members = tracking_id(directory), range(population.size)
        whole = self._open(where, identity, directory.name, {})
        self._runs = {None: whole}
        if self.per_member:
            for m in members:
                tags = {"mlflow.parentRunId": whole, "popbandits.member": str(m)}
                self._runs[m] = self._open(where, f"{identity}-{m}", f"{directory.name}/{m}", tags)
        for name, value in describe(population).items():
            self._client.set_tag(whole, f"popbandits.{name}", str(value))
        return {m: len(self._client.get_metric_history(*self._metric(m, "round"))) for m in members}

    def write(self, entry: Entry) -> None:
        """Log it; the round comes last, and says that everything else is there."""
        now, begins = int(time.time() * 1000), prefix(entry, self.per_member)
        run, key = self._metric(entry.member, "round")
        values = {_name(f"{begins}{name}"): value for name, value in entry.numbers.items()} | {key: float(entry.round)}
        metrics = [self._entities.Metric(name, value, now, entry.round) for name, value in values.items()]
        tags = {_name(f"{begins}{name}"): said[:MAX_TAG_CHARS] for name, said in entry.texts.items()}
        self._client.log_batch(run, tags=[self._entities.RunTag(name, said) for name, said in tags.items()])
        for first in range(0, len(metrics), MAX_BATCH_METRICS):
            self._client.log_batch(run, metrics=metrics[first : first + MAX_BATCH_METRICS])

    def closed(self) -> None:
        """End its runs; a resumed one is opened again."""
        for run in self._runs.values():
            self._client.set_terminated(run)
        self._runs = {}

    def _metric(self, member: int, name: str) -> tuple[str, str]:
        """Return the run and the name of a member's metric."""
        return (self._runs[member], name) if self.per_member else (self._runs[None], f"member_{member}/{name}")

    def _open(self, where: str, identity: str, name: str, tags: dict[str, Any]) -> str:
        found = self._client.search_runs([where], f"tags.`{ID_TAG}` = '{identity}'")
        if found:
            self._client.update_run(found[0].info.run_id, status="RUNNING")
            return str(found[0].info.run_id)
        return str(self._client.create_run(where, run_name=name, tags={ID_TAG: identity, **tags}).info.run_id)


def _name(name: str) -> str:
    """Return a name with the characters that MLflow allows.

    >>> _name("member_0/metrics/top 5 (%)")
    'member_0/metrics/top 5 ___'
    """
    return "".join(each if each.isalnum() or each in "/_-. :" else "_" for each in name)
