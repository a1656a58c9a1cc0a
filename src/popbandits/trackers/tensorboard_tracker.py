"""Observations for TensorBoard, by its own writer: PyTorch and TensorFlow are not needed."""

import re
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from popbandits.basics.extras import library
from popbandits.basics.rules import one_of
from popbandits.population import Population
from popbandits.storage.disk import absolute_path
from popbandits.trackers.tracker import Entry, Tracker, prefix

Axis = Literal["rounds", "steps", "seconds"]
ROUND_TAG = "round"
"""Tag that every observation writes: what it says was written."""


class TensorBoardTracker(Tracker):
    """Write event files for TensorBoard: numbers as scalars, labels and lineage as texts too.

    Args:
        path: Folder that TensorBoard is shown. None (default) is `tensorboard` in the run's folder. Another folder gets
            a folder in it with the name of the run's.
        axis: Meaning of TensorBoard's steps: "rounds" (default), or the "steps" or "seconds" that the member has
            trained; rounds where an agent does not tell its steps.
        per_member: Whether each member has a folder, which TensorBoard draws as curves of one chart. Default False: one
            folder, with the member in the names.
    """

    def __init__(self, path: str | Path | None = None, axis: Axis = "rounds", per_member: bool = False):
        super().__init__(per_member)
        one_of(*get_args(Axis)).check("axis", axis)
        self.path, self.axis = None if path is None else absolute_path(path, "path"), axis
        self._events = _library("compat.proto.event_pb2")
        self._summaries = _library("compat.proto.summary_pb2")
        self._texts = _library("plugins.text.metadata")
        self._tensors = _library("util.tensor_util")
        self._writers: dict[Path, Any] = {}

    def begin(self, population: Population, directory: Path) -> Mapping[int, int]:
        """Read which observations earlier files have."""
        self._folder = directory / "tensorboard" if self.path is None else self.path / directory.name
        written: Counter[int] = Counter()
        loader = _library("backend.event_processing.event_file_loader").EventFileLoader
        named = re.compile(rf"{ROUND_TAG}$" if self.per_member else rf"member_(\d+)/{ROUND_TAG}$")
        for file in sorted(self._folder.rglob("events.out.tfevents.*")):
            for value in (value for event in loader(str(file)).Load() for value in event.summary.value):
                if found := named.match(value.tag):
                    member = file.parent.name.removeprefix("member_") if self.per_member else found[1]
                    written[int(member)] += 1
        return written

    def write(self, entry: Entry) -> None:
        """Write one event, so that a kill leaves all of it or nothing."""
        begins = prefix(entry, self.per_member)
        folder = self._folder / f"member_{entry.member}" if self.per_member else self._folder
        make, tensor = self._summaries.Summary.Value, self._tensors.make_tensor_proto
        values = [make(tag=f"{begins}{ROUND_TAG}", simple_value=entry.round)]
        values += [make(tag=f"{begins}{name}", simple_value=number) for name, number in entry.numbers.items()]
        for name, said in entry.texts.items():
            tag = f"{begins}{name}/text"
            about = self._texts.create_summary_metadata(display_name=tag, description="")
            values.append(make(tag=tag, metadata=about, tensor=tensor([said.encode("utf-8")])))
        step = entry.round if self.axis == "rounds" else int(entry.numbers.get(self.axis, entry.round))
        summary = self._summaries.Summary(value=values)
        if folder not in self._writers:
            self._writers[folder] = _library("summary.writer.event_file_writer").EventFileWriter(str(folder))
        self._writers[folder].add_event(self._events.Event(wall_time=time.time(), step=step, summary=summary))
        self._writers[folder].flush()

    def closed(self) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {}


def _library(module: str) -> Any:
    return library(f"tensorboard.{module}", "tensorboard", "TensorBoardTracker")
