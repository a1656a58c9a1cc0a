"""Commands of other distributions, such as the experiments: the entry points of the group `popbandits.commands`.

Each names a function like those of `popbandits.commands`, without the decorator.
"""

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from popbandits.basics.extras import not_installed
from popbandits.commands.registry import COMMANDS, Definition, Parser

GROUP = "popbandits.commands"
EXPERIMENTS = ("synthetic", "procgen")


@dataclass(frozen=True)
class Plugins:
    """Commands that were found, and by name why others cannot be used."""

    commands: dict[str, Definition]
    problems: dict[str, str]


def load_plugins() -> Plugins:
    """Load the commands of other distributions; one that fails is a problem of its own, not of the others."""
    commands: dict[str, Definition] = {}
    problems = {name: not_installed(name, "a command") for name in EXPERIMENTS}
    for point in entry_points(group=GROUP):
        if point.name in COMMANDS:  # Ours cannot be replaced.
            continue
        problems.pop(point.name, None)
        try:
            commands[point.name] = _load(point)
        except Exception as error:  # Whatever a stranger's module raises.
            origin = point.dist.name if point.dist else point.value
            problems[point.name] = (
                f"the command {point.name} of {origin} cannot be loaded: {type(error).__name__}: {error}; install it "
                "again, or uninstall it"
            )
    return Plugins(commands, problems)


def _load(point: EntryPoint) -> Definition:
    """Import a command, and try its definition."""
    define: Definition = point.load()
    define(Parser(prog=point.name))
    return define
