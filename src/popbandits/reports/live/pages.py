"""The two pages: live.html and runs.html of the page folder. Their scripts fill in the rest, as text."""

from popbandits.reports.html import breakable, document, figure_frame, fill, filled_table, markup
from popbandits.reports.live.news import MEMBER_COLUMNS
from popbandits.reports.status import COLUMNS

NOTHING = '<p class="words">Nothing to draw yet.</p>'
HEAD = '<link rel="icon" href="data:,"><link rel="stylesheet" href="assets/style.css">'
NEEDS = "This page needs JavaScript."


def list_page(root: str) -> str:
    """Return the page that lists the runs of a folder."""
    heading = markup("div", markup("h1", "Runs"), markup("p", breakable(root)))
    runs = filled_table("runs", COLUMNS, "Updated live. Click a heading to sort.", "demo running")
    return document("Runs", HEAD, heading, NEEDS, fill("runs", runs=runs))


def run_page(name: str, title: str) -> str:
    """Return the page of one run."""
    back = markup("a", "All runs", href="runs") + " · " + markup("a", "Current report", id="report")
    heading = markup("div", markup("h1", breakable(title)), markup("p", '<span id="method"></span>'), markup("p", back))
    body = fill(
        "live",
        learning=figure_frame("learning", NOTHING, "Nothing yet", fill("axes")),
        members=filled_table("members", MEMBER_COLUMNS, "Choose a member for details.", "training crop"),
        schedules=figure_frame("schedules", NOTHING, "Nothing yet"),
    )
    return document(title, HEAD, heading, NEEDS, body, data_run=name)
