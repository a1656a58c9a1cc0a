"""Checkpoints that this account wrote, told from those that came with a folder.

An agent that unpickles its checkpoint runs the code in it, whoever put it there. So only checkpoints that this account
signed for this run are loaded without permission.
"""

import shlex

from popbandits.errors import CheckpointError, RunError
from popbandits.run.signing import Signer
from popbandits.storage.checkpoints import CHECKPOINTS, Checkpoints, fingerprint, verify
from popbandits.storage.store import Store


def require_own(store: Store, signer: Signer) -> None:
    """Raise RunError if the run has a checkpoint that could be loaded and that this account did not sign."""
    run, signatures, completed = store.path.parent, store.signatures(), store.completed()
    for key, folder in sorted(Checkpoints(run / CHECKPOINTS).present().items()):
        if key not in completed or signer.is_checkpoint(key, fingerprint(folder), signatures.get(key)):
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
