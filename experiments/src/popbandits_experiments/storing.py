"""Copies of finished runs to keep: one file each, without checkpoints and without names of hosts and folders."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from popbandits.storage.schema import RUN_FILE

HOST = re.compile(r"^(process \d+) on .*")
FOLDERS = re.compile(r'(File \\?")[^"\\]*/')
"""What stands before a file's name in a traceback, be it text or JSON."""
ROOT = "experiments/src"
"""Where the agents of stored runs are, from the checkout."""


def keep(run: Path, folder: Path) -> None:
    """Copy the record of a run to a new folder, which appears when it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = folder.parent / f".{folder.name}-draft"
    draft.mkdir(exist_ok=True)
    file = draft / RUN_FILE
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(run / RUN_FILE)) as source, closing(sqlite3.connect(file)) as copy:
        source.backup(copy)
        with copy:
            for name, value in copy.execute("SELECT name, value FROM run").fetchall():
                copy.execute("UPDATE run SET value = ? WHERE name = ?", (_without_root(value), name))
            for number, text, data in copy.execute("SELECT id, text, data FROM event").fetchall():
                told = FOLDERS.sub(r"\1", HOST.sub(r"\1", text)), FOLDERS.sub(r"\1", data)
                copy.execute("UPDATE event SET text = ?, data = ? WHERE id = ?", (*told, number))
        copy.execute("PRAGMA journal_mode = DELETE")
        copy.execute("VACUUM")
    draft.rename(folder)


def _without_root(value: str) -> str:
    """Return a recorded setting; where it is a recipe of something in this checkout, from there."""
    found = json.loads(value)
    return json.dumps(found | {"root": ROOT}) if isinstance(found, dict) and found.get("root") else value
