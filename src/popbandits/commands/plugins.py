"""Commands of other distributions, such as the experiments: the entry points of the group `popbandits.commands`.

Each names a function like those of `popbandits.commands`.
"""

from importlib.metadata import entry_points

from popbandits.basics.extras import not_installed
from popbandits.commands import COMMANDS
from popbandits.commands.registry import Definition, Parser

GROUP = "popbandits.commands"
EXPERIMENTS = ("synthetic", "procgen")


def load_plugins() -> tuple[dict[str, Definition], dict[str, str]]:
    """Load the commands of other distributions; return those, and by name why others cannot be used.

    One that fails is a problem of its own, not of the others.
    """
    commands: dict[str, Definition] = {}
    problems = {name: not_installed(name, "a command") for name in EXPERIMENTS}
    for point in entry_points(group=GROUP):
        if point.name in COMMANDS:  # Ours cannot be replaced.
            continue
        problems.pop(point.name, None)
        try:
            define: Definition = point.load()
            define(Parser(prog=point.name))  # Try it.
            commands[point.name] = define
        except Exception as error:  # Whatever a stranger's module raises.
            origin = point.dist.name if point.dist else point.value
            problems[point.name] = (
                f"the command {point.name} of {origin} cannot be loaded: {type(error).__name__}: {error}; install it "
                "again, or uninstall it"
            )
    return commands, problems
