"""Experiments on small images: `python -m popbandits_experiments.images --help` lists the commands."""

from popbandits_experiments.dispatch import dispatch

COMMANDS = {
    "sets": ("popbandits_experiments.images.sets", "write the images to a file, for machines without their packages"),
    "augmentation": (
        "popbandits_experiments.images.augmentation",
        "learn schedules of augmentation and compare them with their controls, or print what was measured",
    ),
    "architectures": (
        "popbandits_experiments.images.architectures",
        "tune architectures with and without distillation, or print what was measured",
    ),
}
"""Module and help by name."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command."""
    return dispatch("python -m popbandits_experiments.images", __doc__, COMMANDS, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
