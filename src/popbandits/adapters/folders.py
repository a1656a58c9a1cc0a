"""Temporary folders of agents whose library resumes from files."""

import shutil
import weakref
from pathlib import Path
from tempfile import mkdtemp
from typing import Any


def own_folder(owner: Any) -> tuple[Path, Any]:
    """Make a folder that is removed with its owner.

    Args:
        owner: Agent that writes there.

    Returns:
        The folder, and a function that removes it earlier.
    """
    folder = Path(mkdtemp(prefix="popbandits-agent-"))
    return folder, weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
