"""Methods compared on real training: `python -m popbandits_experiments.ground --help` lists the commands."""

from popbandits_experiments.dispatch import dispatch

COMMANDS = {
    "run": ("popbandits_experiments.ground.run", "train populations on real tasks and store the results"),
    "headroom": (
        "popbandits_experiments.ground.study",
        "measure what the usual settings leave to gain on a task, or print what was measured",
    ),
    "cost": ("popbandits_experiments.ground.cost", "time the parts of a round and compare them to their floors"),
    "table": (
        "popbandits_experiments.ground.tables",
        "print the tables of the stored results, or write them into a docs page",
    ),
    "pairs": (
        "popbandits_experiments.ground.pairs",
        "compare two methods seed by seed, with and without evaluation noise",
    ),
    "arms": (
        "popbandits_experiments.ground.arms",
        "print every method beside a baseline on the same seeds: scores, differences and cost",
    ),
    "effects": (
        "popbandits_experiments.ground.effects",
        "print the effect of each setting in a sweep of random variations",
    ),
    "figures": ("popbandits_experiments.ground.figures", "draw the figures of the stored results"),
}
"""Module and help by name."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command."""
    return dispatch("python -m popbandits_experiments.ground", __doc__, COMMANDS, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
