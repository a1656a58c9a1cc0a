"""Checkpoints: immutable folders named by member and round, each with a manifest of checksums.

An agent writes to a draft beside them; the draft is sealed with its manifest, and renamed into place when its interval
is accepted. So a folder under its final name is whole, whenever a process was killed; what a disk did to it since then
is found by `verify`, before anybody trains on it.

Only folders with names of this module's making are ever removed or renamed. Whatever else is there is left alone, links
included.
"""

import hashlib
import json
import os
import re
import shutil
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from uuid import uuid4

from popbandits.errors import AgentError, CheckpointError, DiskError, RunError
from popbandits.records import Key
from popbandits.settings import Keep
from popbandits.storage.disk import reason, required

CHECKPOINTS = "checkpoints"
"""The folder of the checkpoints, in a run's folder."""
MANIFEST = "popbandits.manifest.json"
_NAME = re.compile(r"member-(0|[1-9][0-9]*)-round-(0|[1-9][0-9]*)")
_TEMPORARY = re.compile(r"(draft|removed|seen)-[0-9a-f]+-[0-9]+")


def seal(directory: Path) -> None:
    """Write the manifest of what an agent saved, and see that all of it reaches the disk.

    A machine that loses power must not lose the checkpoints that others were removed for.
    """
    manifest = {}
    with required("write all of", directory):
        for path in sorted(path for path in directory.rglob("*") if path.is_file()):
            name = path.relative_to(directory).as_posix()
            if name == MANIFEST:
                raise AgentError(f"save must not write {MANIFEST}, got one in {directory}; name that file otherwise")
            try:
                manifest[name] = {"bytes": path.stat().st_size, "sha256": _checksum(path)}
                _flush(path)
            except FileNotFoundError:
                raise AgentError(f"what save wrote must stay, but {name} is gone from {directory}") from None
        written = directory / MANIFEST
        written.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        _flush(written)


def verify(directory: Path) -> None:
    """Raise CheckpointError unless everything that was saved is there, unchanged; DiskError if that cannot be seen."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        for name, expected in manifest.items():
            path = directory / name
            if path.stat().st_size != expected["bytes"] or _checksum(path) != expected["sha256"]:
                raise CheckpointError(f"the checkpoint {directory} is damaged: {name} is not what was saved")
        if not manifest and any(path.name != MANIFEST for path in directory.iterdir()):
            raise CheckpointError(f"the checkpoint {directory} is damaged: its manifest lists none of its files")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        if not directory.parent.is_dir():  # All of them at once: a disk that is not there.
            raise DiskError(f"could not read {directory.parent}: {reason(error)}") from error
        text = f"{error.strerror}: {error.filename}"
        raise CheckpointError(f"the checkpoint {directory} cannot be read: {text}") from error
    except OSError as error:  # Perhaps not for long: others must not be told that it is lost.
        raise DiskError(
            f"could not read {error.filename or directory}: {reason(error)}; if that stays so, remove the checkpoint "
            f"{directory} to go on without it"
        ) from error
    except (json.JSONDecodeError, UnicodeDecodeError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"the checkpoint {directory} is damaged: its manifest cannot be read") from error


class Checkpoints:
    """The checkpoints of a run. Whoever needs one holds it; those that nobody holds are removed, but for `keep`."""

    def __init__(self, directory: Path, keep: Keep = 0):
        self.directory, self.keep = directory, keep
        self._holds: Counter[Key] = Counter()
        self._spare: dict[int, deque[Key]] = {}  # of each member, those that nobody holds, the oldest first
        self._numbers, self._token = count(), uuid4().hex

    def require_new(self) -> None:
        """Raise RunError unless a new run can keep its checkpoints here; nothing is written."""
        self._require_own()
        with required("read", self.directory):
            found = sorted(path.name for path in self.directory.iterdir()) if self.directory.is_dir() else []
        if found:
            names = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
            raise RunError(f"{self.directory} must be empty for a new run, got {names}; give another directory")

    def _require_own(self) -> None:
        with required("read", self.directory):
            if self.directory.is_symlink():
                got = f"a link to {os.readlink(self.directory)}"
            elif self.directory.exists() and not self.directory.is_dir():
                got = "a file"
            else:
                return
        raise RunError(f"{self.directory} must be a folder of the run's own, got {got}; give another directory")

    def path(self, key: Key) -> Path:
        """Where the checkpoint of (member, round) is, or would be."""
        return self.directory / f"member-{key[0]}-round-{key[1]}"

    def draft(self) -> Path:
        """Return a new name beside the checkpoints, for an agent to write to."""
        return self._temporary("draft")

    def _temporary(self, kind: str) -> Path:
        # Not the process's id: a thread that was left behind may still write while the same process resumes the run.
        return self.directory / f"{kind}-{self._token}-{next(self._numbers)}"

    def publish(self, draft: Path, key: Key) -> None:
        """Give a sealed draft its final name."""
        final = self.path(key)
        with required(f"rename {draft} to", final):
            os.rename(draft, final)

    def hold(self, key: Key) -> None:
        """Say that a checkpoint is needed, once more."""
        self._holds[key] += 1

    def release(self, key: Key) -> None:
        """Say that it is needed once less; the last one to say so lets it be removed."""
        self._holds[key] -= 1
        if self._holds[key] > 0:
            return
        del self._holds[key]
        self._set_aside(key)

    def _set_aside(self, key: Key) -> None:
        """Nobody needs it: it is among the `keep` of its member, or removed when it is the oldest of them."""
        if self.keep == "all":
            return
        spare = self._spare.setdefault(key[0], deque())
        spare.append(key)
        while len(spare) > self.keep:
            self.discard(self.path(spare.popleft()))

    def discard(self, folder: Path) -> None:
        """Remove a folder of ours. It loses its name first: nobody must find half of a checkpoint under it."""
        doomed = self._temporary("removed")
        with suppress(OSError):  # What cannot be removed now is removed when the run is next opened.
            if folder.is_symlink() or not folder.is_dir():  # Nothing that a run makes.
                return
            os.rename(folder, doomed)
            shutil.rmtree(doomed)

    def tidy(self, recorded: Callable[[Key], bool]) -> None:
        """Remove what a killed run left behind: drafts, checkpoints that were never recorded, and those that nobody
        holds but for `keep`."""
        self._require_own()
        with required("write to", self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            folders = list(self.directory.iterdir())
        spare: dict[int, list[Key]] = {}
        for folder in folders:
            match = _NAME.fullmatch(folder.name)
            if match is None:
                if _TEMPORARY.fullmatch(folder.name):
                    self.discard(folder)
                continue
            key = int(match[1]), int(match[2])
            if not recorded(key):
                self.discard(folder)
            elif not self._holds[key]:
                spare.setdefault(key[0], []).append(key)
        for keys in spare.values():
            for key in sorted(keys):
                self._set_aside(key)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Wait until a file is on the disk. Names follow with the record's next commit, on file systems with a journal."""
    # An agent may have made its files read-only; only Windows insists on writing.
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
