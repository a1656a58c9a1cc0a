"""Signatures for the code that a run's record names, so that an account resumes its own runs without `trust`.

A record from someone else can name any code. Its sender does not have this account's key: 32 random bytes in a file
that only this account can read, outside every run's folder. If the key cannot be stored, nothing is signed, and a
resume needs `trust`.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

BYTES = 32


def signature(content: Mapping[str, Any]) -> str | None:
    """Sign plain values; return None if there is no key and none can be made."""
    key = _key(make=True)
    return None if key is None else _digest(key, content)


def is_ours(content: Mapping[str, Any], signed: object) -> bool:
    """Tell whether this account signed these values."""
    key = _key(make=False)
    return key is not None and isinstance(signed, str) and hmac.compare_digest(_digest(key, content), signed)


def _digest(key: bytes, content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _key(make: bool) -> bytes | None:
    """Read this account's key; make one first if there is none."""
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        path = Path(state) / "popbandits" / "key"
        if make and not path.exists():
            _make(path)
        key = path.read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: an account without a home folder.
        return None
    return key if len(key) == BYTES else None


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
