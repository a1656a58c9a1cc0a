"""Checkpoints: immutable folders named by member and round, each with a manifest of checksums.

An agent writes to a draft next to them. The draft is sealed with its manifest, and renamed when its interval is
accepted. So a folder under its final name is complete, even if a process was killed. Later damage by the disk is found
by `verify`, before the checkpoint is loaded.

Only folders that this module named are ever removed or renamed. Anything else is left alone, links included.
"""

import hashlib
import json
import os
import re
import shutil
import stat
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from uuid import uuid4

from popbandits.basics.records import Key
from popbandits.basics.settings import Keep
from popbandits.errors import AgentError, CheckpointError, DiskError, RunError
from popbandits.storage.disk import DISK_ERRNOS, reason, required

CHECKPOINTS = "checkpoints"
"""Name of the folder of the checkpoints, in a run's folder."""
MANIFEST = "popbandits.manifest.json"
_NAME = re.compile(r"member-(0|[1-9][0-9]*)-round-(0|[1-9][0-9]*)")
_TEMPORARY = re.compile(r"(draft|removed|seen)-[0-9a-f]+-[0-9]+")


def seal(directory: Path) -> None:
    """Write the manifest of an agent's files, and flush all of them to the disk.

    Older checkpoints are removed in favour of this one, so it must survive a power cut.
    """
    manifest: dict[str, dict[str, int | str]] = {}
    if directory.parent.is_dir() and not directory.is_dir():  # Without its parent, the disk is gone.
        raise AgentError(f"save must leave the folder that it is given, but {directory} is gone")
    with required("write all of", directory):
        for path in sorted(directory.rglob("*")):
            name, link = path.relative_to(directory).as_posix(), _inner_link(path, directory)
            if link is not None and os.path.isabs(link):
                raise AgentError(f"save must link by a relative path, got {name} to {link}, which gets a new name")
            if not path.is_file():
                if link is not None:  # What it leads to is in the manifest itself, if it is a folder.
                    manifest[name] = {"link": link}
                continue
            if name == MANIFEST:
                raise AgentError(f"save must not write {MANIFEST}, got one in {directory}; use another name")
            try:
                manifest[name] = {"bytes": path.stat().st_size, "sha256": checksum(path)}
                _flush(path)
            except FileNotFoundError:
                raise AgentError(f"files written by save must stay, but {name} is gone from {directory}") from None
        written = directory / MANIFEST
        written.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        _flush(written)


def verify(directory: Path) -> None:
    """Raise CheckpointError unless every saved file is there, unchanged; DiskError if the files cannot be read."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        for name, expected in manifest.items():
            path = directory / name
            if "link" in expected:
                if not path.is_symlink() or os.path.normpath(os.readlink(path)) != expected["link"]:
                    raise CheckpointError(f"the checkpoint {directory} is damaged: {name} is not what was saved")
                continue
            if not stat.S_ISREG(path.stat().st_mode):  # Reading a pipe would block.
                raise CheckpointError(f"the checkpoint {directory} is damaged: {name} is not a file")
            if path.stat().st_size != expected["bytes"] or checksum(path) != expected["sha256"]:
                raise CheckpointError(f"the checkpoint {directory} is damaged: {name} is not what was saved")
        if not manifest and any(path.name != MANIFEST for path in directory.rglob("*") if not _is_folder(path)):
            raise CheckpointError(f"the checkpoint {directory} is damaged: its manifest lists none of its files")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        if not directory.parent.is_dir():  # All checkpoints are gone: the disk is not mounted.
            raise DiskError(f"could not read {directory.parent}: {reason(error)}") from error
        text = f"{error.strerror}: {error.filename}"
        raise CheckpointError(f"the checkpoint {directory} cannot be read: {text}") from error
    except OSError as error:  # It may be temporary, so the checkpoint does not count as lost.
        raise DiskError(
            f"could not read {error.filename or directory}: {reason(error)}; if this persists, remove the checkpoint "
            f"{directory} to continue without it"
        ) from error
    except (json.JSONDecodeError, UnicodeDecodeError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"the checkpoint {directory} is damaged: its manifest cannot be read") from error


def _inner_link(path: Path, directory: Path) -> str | None:
    """Return where a link leads within a folder, a circle included; None for other links, and for what is no link."""
    inner = path.is_symlink() and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory))
    return os.path.normpath(os.readlink(path)) if inner else None  # As tarfile writes it, by which Ray sends it.


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def fingerprint(directory: Path) -> str | None:
    """Return the digest of a checkpoint's manifest; None if there is none, or it does not list all that is there."""
    try:
        content = (directory / MANIFEST).read_bytes()
        listed = json.loads(content).keys()
        for parent, folders, files in os.walk(directory):
            links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
            found = {Path(parent, name).relative_to(directory).as_posix() for name in (*files, *links)}
            if found - listed - {MANIFEST}:
                return None
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno in DISK_ERRNOS:  # It may be temporary.
            raise DiskError(f"could not read {directory}: {reason(error)}") from error
        return None
    return hashlib.sha256(content).hexdigest()


class Checkpoints:
    """The checkpoints of a run, with reference counts. Those without references are removed, except the last `keep`."""

    def __init__(self, directory: Path, keep: Keep = 0):
        self.directory, self.keep = directory, keep
        self._holds: Counter[Key] = Counter()
        self._spare: dict[int, deque[Key]] = {}  # by member: checkpoints without references, oldest first
        self._numbers, self._token = count(), uuid4().hex

    def require_new(self) -> None:
        """Raise RunError unless a new run can store its checkpoints here; nothing is written."""
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
        raise RunError(f"{self.directory} must be the run's own folder, got {got}; give another directory")

    def path(self, key: Key) -> Path:
        """Return the path of the checkpoint of (member, round), whether it exists or not."""
        return self.directory / f"member-{key[0]}-round-{key[1]}"

    def is_empty(self, key: Key) -> bool:
        """Tell whether the agent saved nothing in the checkpoint of (member, round)."""
        with required("read", self.path(key)):
            return not any(path.name != MANIFEST for path in self.path(key).iterdir())

    def present(self) -> dict[Key, Path]:
        """Map member and round to every folder with the name of a checkpoint."""
        with required("read", self.directory):
            folders = list(self.directory.iterdir()) if self.directory.is_dir() else []
        return {key: folder for folder in folders if (key := _key_of(folder)) is not None}

    def draft(self) -> Path:
        """Return a new path next to the checkpoints, for an agent to write to."""
        return self._temporary("draft")

    def _temporary(self, kind: str) -> Path:
        # Not the process id: an abandoned thread may still write while the same process resumes the run.
        return self.directory / f"{kind}-{self._token}-{next(self._numbers)}"

    def publish(self, draft: Path, key: Key) -> None:
        """Give a sealed draft its final name."""
        final = self.path(key)
        with required(f"rename {draft} to", final):
            os.rename(draft, final)

    def hold(self, key: Key) -> None:
        """Add a reference to a checkpoint."""
        self._holds[key] += 1

    def release(self, key: Key) -> None:
        """Drop a reference to a checkpoint; without any, it may be removed."""
        self._holds[key] -= 1
        if self._holds[key] > 0:
            return
        del self._holds[key]
        self._set_aside(key)

    def _set_aside(self, key: Key) -> None:
        """Keep a checkpoint without references among the last `keep` of its member, and remove older ones."""
        if self.keep == "all":
            return
        spare = self._spare.setdefault(key[0], deque())
        spare.append(key)
        while len(spare) > self.keep:
            self.discard(self.path(spare.popleft()))

    def discard(self, folder: Path) -> None:
        """Rename a folder, then remove it, so that no partial checkpoint is ever under its final name."""
        doomed = self._temporary("removed")
        with suppress(OSError):  # What cannot be removed now is removed when the run is opened again.
            if folder.is_symlink() or not folder.is_dir():  # A run does not make these.
                return
            os.rename(folder, doomed)
            shutil.rmtree(doomed)

    def tidy(self, recorded: Callable[[Key], bool]) -> None:
        """Remove what a killed run left behind: drafts, unrecorded checkpoints, and those no longer needed."""
        self._require_own()
        with required("write to", self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            folders = list(self.directory.iterdir())
        spare: list[Key] = []
        for folder in folders:
            key = _key_of(folder)
            if _TEMPORARY.fullmatch(folder.name) or (key is not None and not recorded(key)):
                self.discard(folder)
            elif key is not None and not self._holds[key]:
                spare.append(key)
        for key in sorted(spare):
            self._set_aside(key)


def _key_of(folder: Path) -> Key | None:
    """Return member and round of a checkpoint by its name; None for other names."""
    match = _NAME.fullmatch(folder.name)
    return None if match is None else (int(match[1]), int(match[2]))


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Flush a file to the disk. On journaling file systems its name follows with the record's next commit."""
    # An agent may have made its files read-only; only Windows needs write access.
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
