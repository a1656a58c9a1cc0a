"""Give the package index a README whose links work there: those into the repository become addresses."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:|mailto:|#)(?P<path>[^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    """Fill in `project.readme`, by the name under which hatchling looks for a hook."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README to a project's metadata."""
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, metadata["urls"]["Source"])}


def absolute(text: str, source: str) -> str:
    """Return Markdown in which relative links lead to the repository at `source`."""

    def address(link: re.Match[str]) -> str:
        kind = "raw" if link["image"] else "blob"
        return f"{link['image']}[{link['text']}]({source}/{kind}/main/{link['path']})"

    return LINK.sub(address, text)
