"""popbandits tunes the hyperparameters of training runs while they train. A small
population trains side by side; now and then the weak copy the strong, and a
bandit and a model of what was seen so far pick what to try next.

from nothing to a tuned agent:
  popbandits demo                             see it work, on a PPO agent

  in train.py, wrap your training in a class with train, save and load:
    from popbandits import Experiment
    space = {"clip": (0.01, 0.5), "epochs": (1, 10), "augmentation": ["crop", "flip"]}
    experiment = Experiment(Agent, space, population=4, rounds=50)

  popbandits check train.py:experiment        does the agent keep the contract?
  popbandits run train.py --dry-run           what would run
  popbandits run train.py -o runs/first       run it; Ctrl-C stops it
  popbandits resume runs/first                resume it, after whatever ended it
  popbandits status runs/*                    show the progress of runs
  popbandits watch runs                       follow them in a browser
  popbandits replay runs/first --seeds 5      is the schedule good, or was it luck?
  popbandits report runs/first                what happened, as one page
  popbandits export runs/first --csv          every observation, for other programs

in Python: popbandits.tune(Agent, space, population=4, rounds=50) does the same.

exit status:
  0 done, 1 it failed for the reason it printed, 2 the arguments are wrong,
  130 stopped by Ctrl-C (a run says how to resume it)
"""

import argparse
import inspect
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from popbandits.basics.wording import suggestion, visible
from popbandits.commands import COMMANDS
from popbandits.commands.registry import STOPPED, Definition, Parser
from popbandits.errors import ArgumentError, PopbanditsError, PopbanditsWarning

ABOUT, _, MORE = str(__doc__).strip().partition("\n\n")
"""Text of `popbandits --help` before and after the list of commands: this module's docstring."""


def parser(definitions: Mapping[str, Definition] = COMMANDS) -> argparse.ArgumentParser:
    """Build the argument parser of some commands."""
    texts = {name: inspect.getdoc(define) or name for name, define in definitions.items()}
    summaries = [f"  {name:<11} {text.partition(chr(10))[0]}" for name, text in texts.items()]
    top = Parser(
        prog="popbandits",
        usage="popbandits COMMAND [options]    (popbandits COMMAND --help explains a command)",
        description="\n".join([ABOUT, "", "commands:", *summaries]),
        epilog=MORE,
    )
    version = import_module("popbandits").__version__
    top.add_argument("--version", action="version", version=f"popbandits {version}", help="print it and exit")
    commands = top.add_subparsers(metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    for name, define in definitions.items():
        one = commands.add_parser(name, prog=f"popbandits {name}", description=texts[name])
        one.set_defaults(do=define(one), refuse=one.error)
    return top


def _format_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> str:
    """Format a warning of popbandits for people, without a line of code; others as Python does."""
    if issubclass(category, PopbanditsWarning):
        return f"Warning: {visible(str(message))}\n"
    return _python_format(message, category, *where, **more)


_python_format = warnings.formatwarning


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    definitions = dict(COMMANDS)
    if not given or given[0] not in COMMANDS:
        from popbandits.commands.plugins import load_plugins  # Other commands do not wait for it.

        others, problems = load_plugins()
        definitions |= others
        if given and given[0] in problems:
            print(f"popbandits: {visible(problems[given[0]])}", file=sys.stderr)
            return 1
    if given and not given[0].startswith("-") and given[0] not in definitions:
        known = ", ".join(definitions)
        parser(definitions).error(
            f"COMMAND must be one of {known}, got {given[0]!r}{suggestion(given[0], definitions)}"
        )
    arguments = parser(definitions).parse_args(given)
    warnings.formatwarning = _format_warning
    try:
        return arguments.do(arguments) or 0
    except ArgumentError as error:
        return arguments.refuse(visible(str(error))) or 2
    except PopbanditsError as error:
        print(f"popbandits: {visible(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("popbandits: stopped", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:  # The reader closed the pipe, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
