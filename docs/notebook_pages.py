"""A hook of MkDocs: each notebook is run, and becomes a page with what it printed and drew.

Notebooks are kept without outputs, so that none is out of date.
"""

import re
from base64 import b64encode
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of every notebook."""
    for path in sorted(Path(config.docs_dir).rglob("*.ipynb")):
        name = path.relative_to(config.docs_dir)
        note = f"*Download this notebook: [{name.name}]({name.name}).*"
        page = "\n\n".join([*map(cell_text, run(path).cells), note])
        files.append(File.generated(config, name.with_suffix(".md").as_posix(), content=page))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to notebooks, which readers of the repository follow, lead to their pages."""
    return re.sub(r"\((notebooks/\w+)\.ipynb\)", r"(\1.md)", markdown)


def run(path: Path) -> Any:
    """Run a notebook in an empty folder, and return it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        quiet = ["--log-level=ERROR"]  # It warns that messages within this machine are not encrypted.
        return NotebookClient(notebook, timeout=300, resources=place, extra_arguments=quiet).execute()


def cell_text(cell: Any) -> str:
    """Return a cell as Markdown, with its outputs."""
    if cell.cell_type == "markdown":
        return str(cell.source)
    return "\n\n".join([f"```python\n{cell.source}\n```", *map(output_text, cell.outputs)])


def output_text(output: Any) -> str:
    """Return an output as Markdown: a picture, a table or text."""
    data = output.get("data", {})
    if "image/svg+xml" in data:  # Apart from the page: names inside of two pictures may be the same.
        code = b64encode(data["image/svg+xml"].encode()).decode()
        return f'<img alt="{escape(data["text/plain"])}" src="data:image/svg+xml;base64,{code}">'
    if "text/html" in data:  # On one line, since an empty one would end the block.
        return f"<div class='md-typeset__scrollwrap'>{' '.join(data['text/html'].split())}</div>"
    return f"```text\n{(output.get('text') or data['text/plain']).rstrip()}\n```"
