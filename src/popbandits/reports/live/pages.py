"""The fixed HTML of the two pages. Their scripts fill in the rest, as text."""

from html import escape

from popbandits.reports.html import axis_choice, breakable, document, figure_frame, filled_table, markup
from popbandits.reports.live.news import MEMBER_COLUMNS
from popbandits.reports.status import COLUMNS

WARNINGS_BOX = '<div id="warned" class="warned" hidden><h3>Worth a look</h3><ul></ul></div>'


NOTHING = '<p class="words">Nothing to draw yet.</p>'
HEAD = '<link rel="icon" href="data:,"><link rel="stylesheet" href="assets/style.css">'


def live_document(title: str, heading: str, main: str, script: str, **attributes: str) -> str:
    """Return a page around its content, with attributes of its body."""
    end = markup("script", type="module", src=f"assets/{script}")
    parts = markup("main", main, id="main"), end
    return document(title, HEAD, heading, "This page needs JavaScript.", *parts, **attributes)


def list_page(root: str) -> str:
    """Return the page that lists the runs of a folder."""
    main = '<p id="told" role="status" class="soft">Looking for runs …</p>' + filled_table(
        "runs", COLUMNS, "Updated live. Click a heading to sort.", "demo running"
    )
    heading = markup("div", markup("h1", "Runs"), markup("p", breakable(root)))
    return live_document("Runs", heading, main, "runs.js")


def run_page(name: str, title: str) -> str:
    """Return the page of one run."""
    back = markup("a", "All runs", href="runs") + " · " + markup("a", "Current report", id="report")
    heading = markup("div", markup("h1", breakable(title)), markup("p", '<span id="method"></span>'), markup("p", back))
    main = "".join(
        [
            '<div class="controls"><button id="pause" type="button" aria-pressed="false">Pause</button>'
            '<span id="link" class="soft">Connecting …</span></div>',
            '<p id="told" role="status" class="heard"></p>',
            '<p id="wrong" role="alert" class="bad" hidden></p>',
            '<dl class="cards" id="facts"></dl>',
            markup("div", WARNINGS_BOX, role="status"),
            section("Learning", figure_frame("learning", NOTHING, "Nothing yet", axis_choice())),
            section(
                "Members",
                filled_table("members", MEMBER_COLUMNS, "Choose a member for details.", "training crop")
                + '<section id="member" aria-live="off" hidden></section>',
            ),
            section("Hyperparameters", figure_frame("schedules", NOTHING, "Nothing yet")),
            section("What happened", '<ol id="log" class="log" tabindex="0" aria-label="Log, the latest first"></ol>'),
        ]
    )
    return live_document(title, heading, main, "live.js", data_run=name)


def section(heading: str, inside: str) -> str:
    """Return a part of the page under its heading."""
    return markup("section", markup("h2", escape(heading)), inside, aria_label=heading)
