"""A terminal, as far as a view needs one."""

import re
from types import SimpleNamespace

import pytest

from popbandits.views import progress

_CONTROL = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])")


def displayed(output: str) -> list[str]:
    """The lines that a terminal shows, its history included, after it was sent this."""
    lines, row, column = [""], 0, 0
    at = 0
    while at < len(output):
        if control := _CONTROL.match(output, at):
            at = control.end()
            argument, kind = control[1], control[2]
            if kind == "A":
                row = max(0, row - int(argument or 1))
            elif kind == "K":
                assert argument == "2", f"a way to erase that is not known here: {control[0]!r}"
                lines[row] = ""
            else:
                assert kind in "mhl", f"a control that is not known here: {control[0]!r}"
            continue
        letter, at = output[at], at + 1
        if letter == "\n":
            row += 1
            column = 0  # As terminals are set up: the kernel adds a carriage return.
            if row == len(lines):
                lines.append("")
        elif letter == "\r":
            column = 0
        else:
            assert letter.isprintable(), f"a letter that is not known here: {letter!r}"
            lines[row] = lines[row][:column].ljust(column) + letter + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


def stop_the_clock(patch: pytest.MonkeyPatch) -> None:
    """Let no time pass for the view of a run, so that what it says of time does not depend on a busy machine."""
    now = progress.time.monotonic()
    patch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
