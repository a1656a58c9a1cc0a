"""Observations in Weights & Biases, online or offline."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popbandits.basics.extras import library
from popbandits.errors import ArgumentError
from popbandits.population import Population
from popbandits.storage.disk import write_whole
from popbandits.trackers.tracker import Entry, Tracker, describe, prefix, tracking_id

RESERVED_ARGUMENTS = {"id", "resume", "reinit", "dir"}
"""Arguments of `wandb.init` that a tracker gives itself."""
QUIET_SETTINGS = {"silent": True, "console": "off"}
"""Settings of W&B: the terminal is the run's own."""


class WandbTracker(Tracker):
    """Log to Weights & Biases: numbers as metrics over rounds, labels and lineage as texts, one run or one a member.

    The id of its run is kept in the run's folder, so a resumed run goes on in the same one. Its steps are the index of
    the observation in the history, or with per_member the round; choose "round", "steps" or "seconds" as the x axis.
    W&B cannot resume a run offline: each process then writes a file of its own with the same id, which `wandb sync`
    uploads into one run.

    Args:
        project: Name of the project. Default "popbandits".
        per_member: Whether each member has a run of its own, grouped under the name of the run's folder. Default False:
            one run for the population, with the member in the names.
        settings: Other arguments of `wandb.init` by name, such as `entity` or `mode="offline"`.
    """

    def __init__(self, project: str = "popbandits", per_member: bool = False, **settings: Any):
        super().__init__(per_member)
        if own := RESERVED_ARGUMENTS & settings.keys():
            raise ArgumentError(f"settings must leave {sorted(RESERVED_ARGUMENTS)} to the tracker, got {sorted(own)}")
        self.project, self.settings = project, settings
        self._wandb = library("wandb", "wandb", "WandbTracker")
        self._runs: list[Any] = []

    def begin(self, population: Population, directory: Path) -> Mapping[int, int]:
        """Open its runs, and find what they have: online by their own steps, offline by a note in the run's folder."""
        name, identity = directory.name, tracking_id(directory)
        self._file = directory / f"tracking-wandb-{self.project}{'-members' if self.per_member else ''}.json"
        self._logged: list[int] = json.loads(self._file.read_text()) if self._file.exists() else []
        count = population.size if self.per_member else 1
        self._logged += [0] * (count - len(self._logged))
        about = describe(population)
        for number in range(count):
            given = {"name": name, "id": identity, "config": about}
            if self.per_member:
                given = {"name": f"{name}/{number}", "id": f"{identity}-{number}", "group": name}
                given["config"] = about | {"member": number}
            given |= {"resume": "allow", "reinit": "create_new", "dir": str(directory), "settings": QUIET_SETTINGS}
            run = self._wandb.init(project=self.project, **given | self.settings)
            for axis in ("round",) if self.per_member else [f"member_{m}/round" for m in range(population.size)]:
                run.define_metric(axis)
                run.define_metric(f"{axis.removesuffix('round')}*", step_metric=axis)
            self._runs.append(run)
            if run.resumed:  # It is asked, since what was logged last may not have arrived.
                self._logged[number] = run.starting_step
        if self.per_member:
            return dict(enumerate(self._logged))
        known = population.history.prefix(self._logged[0])
        return {member: known.finished(member) for member in range(population.size)}

    def write(self, entry: Entry) -> None:
        """Log it in one step, which W&B takes once."""
        begins = prefix(entry, self.per_member)
        number, step = (entry.member, entry.round) if self.per_member else (0, entry.index)
        logged: dict[str, Any] = {f"{begins}{name}": value for name, value in entry.numbers.items()}
        logged |= {f"{begins}{name}/text": said for name, said in entry.texts.items()}
        self._runs[number].log({f"{begins}round": entry.round, **logged}, step=step)
        self._logged[number] = step + 1
        write_whole(self._file, json.dumps(self._logged).encode())

    def closed(self) -> None:
        """End its runs."""
        for run in self._runs:
            run.finish()
        self._runs = []
