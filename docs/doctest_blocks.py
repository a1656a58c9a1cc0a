"""An extension of Griffe, for the reference: doctests in docstrings become blocks of code."""

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"(?:^>>>.*\n(?:(?!>>>|$).*\n?)*)+", re.MULTILINE)
"""Lines that begin with a prompt, and the output after them, until an empty line."""


class DoctestBlocks(griffe.Extension):
    """Wraps each doctest in a fence."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = DOCTEST.sub(
                lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value
            )
