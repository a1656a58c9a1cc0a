"""Write docs/settings.md, the table of all settings: `python docs/make_settings.py`."""

from dataclasses import MISSING, fields
from pathlib import Path

from popbandits import Experiment
from popbandits.basics.settings import SETTINGS, flags_of
from popbandits.commands.options import TEXTS

PAGE = Path(__file__).with_name("settings.md")

ABOUT = """\
# Settings of a run

`tune` and `Experiment` take these by name, and in this order. `popbandits run` takes those that have an option;
`resume` and `popbandits resume` take those that may change. `python docs/make_settings.py` writes this page from
`Experiment` and `popbandits.basics.settings`.
"""

COLUMNS = ("setting", "default", "rule", "option", "may change", "what it is")


def option_of(name: str) -> str:
    """Return a setting's option as help shows it; none for a setting without one."""
    option = SETTINGS[name].option
    return "" if option is None else "`" + " ".join([", ".join(flags_of(name)), option[1]]).strip() + "`"


def page() -> str:
    """Return the page as it should be."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for field in fields(Experiment):
        setting, default = SETTINGS[field.name], field.default
        rows.append(
            (
                f"`{field.name}`",
                "" if default is MISSING else f"`{default!r}`",
                "" if setting.rule is None else setting.rule.words,
                option_of(field.name),
                "yes" if setting.resumes else "",
                TEXTS[field.name],
            )
        )
    cells = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join([ABOUT, *(f"| {' | '.join(row)} |" for row in cells), ""])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
