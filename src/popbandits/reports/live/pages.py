"""The fixed HTML of the two pages. Their scripts fill in the rest, as text."""

from html import escape

from popbandits.reports.html import axis_choice, breakable, filled_table, markup
from popbandits.reports.live.news import MEMBER_COLUMNS

WARNINGS_BOX = '<div id="warned" class="warned" hidden><h3>Worth a look</h3><ul></ul></div>'


def shell(title: str, heading: str, main: str, script: str, data: str = "") -> str:
    """Return a page around its content."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            markup("title", escape(f"{title} – popbandits")),
            '<link rel="stylesheet" href="assets/style.css">',
            "</head>",
            f"<body{data}>",
            '<a class="skip" href="#main">Skip to the content</a>',
            markup("header", heading, '<button id="theme" type="button">Dark</button>'),
            '<noscript><p class="bad">This page needs JavaScript.</p></noscript>',
            markup("main", main, id="main"),
            markup("script", type="module", src=f"assets/{script}"),
            "</body></html>\n",
        ]
    )


def list_page(root: str) -> str:
    """Return the page that lists the runs of a folder."""
    columns = ("run", "state", "method", "rounds", "best", "mean", "failed", "begun", "changed")
    main = '<p id="told" role="status" class="soft">Looking for runs …</p>' + filled_table(
        "runs", columns, "Updated live. Click a heading to sort.", "demo running"
    )
    heading = markup("div", markup("h1", "Runs"), markup("p", breakable(root)))
    return shell("Runs", heading, main, "runs.js")


def run_page(name: str, title: str) -> str:
    """Return the page of one run."""
    back = markup("a", "All runs", href="runs") + " · " + markup("a", "Current report", id="report")
    heading = markup(
        "div",
        markup("h1", breakable(title)),
        markup("p", '<span id="method"></span>'),
        markup("p", back),
    )
    main = "".join(
        [
            '<div class="controls"><button id="pause" type="button" aria-pressed="false">Pause</button>'
            '<span id="link" class="soft">Connecting …</span></div>',
            '<p id="told" role="status" class="heard"></p>',
            '<p id="wrong" role="alert" class="bad" hidden></p>',
            '<dl class="cards" id="facts"></dl>',
            markup("div", WARNINGS_BOX, role="status"),
            section("Learning", figure_place("learning", axis_choice())),
            section(
                "Members",
                filled_table("members", MEMBER_COLUMNS, "Choose a member for details.", "training crop")
                + '<section id="member" aria-live="off" hidden></section>',
            ),
            section("Hyperparameters", figure_place("schedules")),
            section("What happened", '<ol id="log" class="log" tabindex="0" aria-label="Log, the latest first"></ol>'),
        ]
    )
    return shell(title, heading, main, "live.js", f' data-run="{escape(name)}"')


def section(heading: str, inside: str) -> str:
    """Return a part of the page under its heading."""
    return markup("section", markup("h2", escape(heading)), inside, aria_label=heading)


def figure_place(name: str, controls: str = "") -> str:
    """Return the element that a figure is drawn in, once there are data; `controls` is markup above it."""
    place = markup("div", class_="chart", data_figure=name, role="img", tabindex="0", aria_label="Nothing yet")
    words = '<figcaption><p class="words">Nothing to draw yet.</p></figcaption>'
    return markup("figure", words, controls, place, id=f"figure-{name}")
