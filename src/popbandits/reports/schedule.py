"""The winning schedule: its hyperparameters, interval by interval."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from popbandits.basics.wording import number, printable, setting
from popbandits.history import History, Observation


def table(history: History, last: Observation | None = None) -> Table:
    """Make a table of a lineage, the winner's unless said, a row for each interval; unchanged values are left out."""
    lineage = history.lineage(last)
    flat = [history.space.flatten(history.applied(observation)) for observation in lineage]
    names = [name for name in history.space.names if any(name in config for config in flat)]
    view = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("round", "member", "score"):
        view.add_column(name, justify="right", no_wrap=True)
    for name in names:
        view.add_column(Text(printable(name)), no_wrap=True)
    before: dict[str, Any] = {}
    for observation, config in zip(lineage, flat, strict=True):
        view.add_row(
            str(observation.round),
            str(observation.member),
            number(observation.score),
            *(Text(_cell(before, config, name)) for name in names),
        )
        before = config
    return view


def _cell(before: dict[str, Any], config: dict[str, Any], name: str) -> str:
    if name not in config:
        return "–" if name in before else ""
    return "" if name in before and before[name] == config[name] else setting(config[name])


def print_schedule(history: History, last: Observation | None = None, console: Console | None = None) -> None:
    """Print the table at its full width."""
    console = console or Console()
    view = table(history, last)
    console.width = max(console.width, console.measure(view, options=console.options.update(width=10_000)).maximum)
    console.print(view, highlight=False)
