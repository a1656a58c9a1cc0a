"""Signatures for what a run's record names and for its checkpoints, so that an account resumes its own runs unasked.

A record from someone else can name any code, and its checkpoints can hold any. Its sender does not have this account's
key: 32 random bytes in a file that only this account can read, outside every run's folder. If the key cannot be stored,
nothing is signed, and a resume needs `trust`.

Whatever is signed is signed for one run: a folder that was shared and came back, or parts of it in another folder, do
not pass for what this account wrote. An agent that unpickles its checkpoint runs the code in it, whoever put it there,
so only checkpoints that this account signed for this run are loaded without permission.
"""

import hashlib
import hmac
import json
import os
import secrets
import shlex
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from popbandits.basics.records import Key
from popbandits.errors import CheckpointError, RunError
from popbandits.storage.checkpoints import CHECKPOINTS, Checkpoints, fingerprint, verify
from popbandits.storage.store import Store

BYTES = 32
ID = "id"
"""Name of the random text in a record that tells a run from every other."""


def new_id() -> str:
    """Return the id of a new run."""
    return secrets.token_hex(16)


class Signer:
    """Signs parts of a run, and tells those that this account signed.

    Args:
        run: The id of the run, or None for one of an earlier version: nothing is signed then.
        space: The space of the run as its record has it.
    """

    def __init__(self, run: str | None, space: str):
        self._run, self._space = run, space

    @staticmethod
    def of(store: Store) -> "Signer":
        """Make the signer of a stored run."""
        run = store.about.get(ID)
        return Signer(run if isinstance(run, str) else None, store.space_text)

    def recipe(self, content: Mapping[str, Any]) -> str | None:
        """Sign a recipe, for this run and its space; return None if there is no key and none can be made."""
        return self._sign({"recipe": dict(content), "space": self._space})

    def checkpoint(self, key: Key, manifest: str | None) -> str | None:
        """Sign the checkpoint of (member, round), by its `fingerprint`; return None if it has none."""
        return None if manifest is None else self._sign({"checkpoint": list(key), "manifest": manifest})

    def _sign(self, content: Mapping[str, Any]) -> str | None:
        if self._run is None or self._key is None:
            return None
        text = json.dumps({"run": self._run} | dict(content), sort_keys=True)
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    @cached_property
    def _key(self) -> bytes | None:
        """This account's key; one is made if there is none."""
        try:
            path = _state() / "popbandits" / "key"
            if not path.is_absolute():
                return None
            if not path.exists():
                _make(path)
            key = path.read_bytes()
        except (OSError, RuntimeError):  # RuntimeError: an account without a home folder.
            return None
        return key if len(key) == BYTES else None


def is_same(own: str | None, recorded: object) -> bool:
    """Tell whether a record has the signature that this account would give, which is None if nothing can be signed."""
    if own is None or not isinstance(recorded, str) or not recorded.isascii():
        return False
    return hmac.compare_digest(own, recorded)


def _state() -> Path:
    """Return the folder for an account's state; a relative one is ignored, as it could be in a folder that was sent."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".local" / "state"


def _make(path: Path) -> None:
    """Write a new key, complete or not at all; if two processes do so at once, the first one's key stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"key-{secrets.token_hex(8)}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(BYTES))
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def require_own(store: Store, signer: Signer) -> None:
    """Raise RunError if the run has a checkpoint that could be loaded and that this account did not sign."""
    run, signatures, completed = store.path.parent, store.signatures(), store.completed()
    for key, folder in sorted(Checkpoints(run / CHECKPOINTS).present().items()):
        if key not in completed or is_same(signer.checkpoint(key, fingerprint(folder)), signatures.get(key)):
            continue
        try:
            verify(folder)
        except CheckpointError:  # It is not loaded: its interval counts as lost.
            continue
        typed = shlex.join(["popbandits", "resume", str(run)])
        raise RunError(
            f"{folder} was not written by this account for this run, or was changed: an agent that unpickles its "
            "checkpoint would run the code in it, so it is not loaded unasked. If you trust the folder, or began the "
            f"run with an earlier version: {typed} --trust (in Python: trust=True)"
        )


def sign_all(store: Store, signer: Signer) -> None:
    """Sign every checkpoint of a run that is trusted, so that the next resume needs no permission."""
    found = Checkpoints(store.path.parent / CHECKPOINTS).present()
    signed = {key: signer.checkpoint(key, fingerprint(folder)) for key, folder in found.items()}
    store.write(signatures={key: text for key, text in signed.items() if text is not None})
