"""The page of a report: one file that opens anywhere, offline, and shows users' names and labels as text."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from popbandits.reports.export import finite
from popbandits.reports.figures.figure import Figure
from popbandits.reports.figures.theme import config

PAGE = Path(__file__).parent / "page"


def markup(tag: str, *inside: str, **attributes: Any) -> str:
    """Return an element around markup; attributes are escaped, and left out if None.

    >>> markup("p", escape("1 < 2"), class_="note", hidden=None)
    '<p class="note">1 &lt; 2</p>'
    """
    return f"<{tag}{_written(attributes)}>{''.join(inside)}</{tag}>"


def _written(attributes: Mapping[str, Any]) -> str:
    given = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items() if value is not None}
    return "".join(f' {name}="{escape(str(value))}"' for name, value in given.items())


def fill(name: str, **parts: str) -> str:
    """Return a template of the page folder with its parts, which are markup."""
    return Template((PAGE / f"{name}.html").read_text("utf-8")).substitute(parts)


def breakable(text: str) -> str:
    """Return a text as markup in which long names may be broken after their separators; numbers are not broken.

    >>> breakable("learning_rate < 0.1")
    'learning_<wbr>rate &lt; 0.1'
    """
    return re.sub(r"([_./:=]+)(?=[^\s\d_./:=])", r"\1<wbr>", escape(text))


def strict_json(value: Any) -> str:
    """Return compact JSON that every browser reads: numbers that are not finite become null.

    >>> strict_json({"score": 1.5, "change": float("-inf")})
    '{"score":1.5,"change":null}'
    """
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:  # Rare: scores so large that their difference overflows.
        return json.dumps(finite(value), allow_nan=False, separators=(",", ":"))


def script_json(value: Any) -> str:
    r"""Return JSON for a script element: nothing in it can end the element or begin a comment.

    >>> script_json({"label": "</script><!--\u2028"})
    '{"label":"\\u003c/script\\u003e\\u003c!--\\u2028"}'
    """
    return strict_json(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def bullets(sentences: Iterable[str]) -> str:
    """Return a list of sentences."""
    return markup("ul", *(markup("li", breakable(sentence)) for sentence in sentences))


def findings(mattered: Sequence[str], not_clear: Sequence[str], never: Sequence[str] | None) -> str:
    """Return what mattered and what is not clear, next to what was never tried, unless there are no labels."""
    everything = "Every label was trained with."
    left = markup("h3", "What mattered") + (bullets(mattered) if mattered else "")
    left += "".join(markup("p", breakable(sentence)) for sentence in not_clear)
    if never is None:
        return left
    right = markup("h3", "Labels that were never tried") + (bullets(never) if never else markup("p", everything))
    return markup("div", markup("div", left), markup("div", right), class_="pair")


def cards(facts: Mapping[str, str]) -> str:
    """Return a row of key figures."""
    parts = (markup("div", markup("dt", escape(k)), markup("dd", breakable(v))) for k, v in facts.items())
    return markup("dl", *parts, class_="cards")


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Any]], numbers: bool = True) -> str:
    """Return a table; the first cell of each row is its heading."""
    align = "number" if numbers else None
    heads = (markup("th", escape(name), scope="col", class_=align if i else None) for i, name in enumerate(head))
    body = ""
    for first, *rest in rows:
        cells = (markup("td", escape(str(each)), class_=align) for each in rest)
        body += markup("tr", markup("th", escape(str(first)), scope="row"), *cells)
    return _scrolled(caption, markup("thead", markup("tr", *heads)), markup("tbody", body))


def _scrolled(caption: str, *parts: str, **attributes: Any) -> str:
    """Return a table that is scrolled sideways if it is wide, while its caption stays in view."""
    whole = markup("table", markup("caption", markup("span", breakable(caption))), *parts, **attributes)
    return markup("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def figure(one: Figure) -> str:
    """Return the element that a figure is drawn in, with its title and caption."""
    caption = markup("h3", escape(one.title)) + markup("p", escape(one.caption))
    return figure_frame(one.name, caption, f"{one.title}. {one.caption}", fill("axes") if one.axes else "")


def figure_frame(name: str, caption: str, label: str, controls: str = "") -> str:
    """Return the element that a script draws a figure in; `caption` and `controls` are markup above it."""
    place = markup("div", class_="chart", data_figure=name, role="img", aria_label=label, tabindex="0")
    sliders = markup("div", class_="sliders")
    return markup("figure", markup("figcaption", caption), controls, sliders, place, id=f"figure-{name}")


def filled_table(name: str, columns: Sequence[str], caption: str, example: str, more: str = "") -> str:
    """Return a table that a script fills, filters, sorts and pages (table.js); `more` is markup next to the filter."""
    heads = (markup("th", markup("button", escape(column), type="button"), scope="col") for column in columns)
    controls = (
        f'<label>Filter <input id="{name}-filter" type="search" placeholder="{example}" autocomplete="off"></label>'
        f'{more}<button id="{name}-previous" type="button">Previous</button>'
        f'<button id="{name}-next" type="button">Next</button><span id="{name}-found" role="status"></span>'
    )
    head = markup("thead", markup("tr", *heads))
    return markup("div", controls, class_="controls") + _scrolled(
        caption, head, "<tbody></tbody>", id=name, class_="rows"
    )


def scripts(*names: str) -> str:
    """Join scripts of the page folder."""
    return "\n".join((PAGE / f"{name}.js").read_text("utf-8") for name in names)


def page(
    title: str,
    subtitle: str,
    sections: Mapping[str, str],
    figures: Sequence[Figure],
    libraries: Callable[[], str],
    tables: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> str:
    """Return the whole page: sections by heading, the figures in them, the rows of tables, metrics of the curves."""
    specs = {one.name: bare(one.spec) for one in figures}
    data = {"figures": specs, "configs": themes(), "tables": tables or {}, "values": metrics or {}}
    data["axes"] = {one.name: one.axes for one in figures if one.axes}
    parts_of_script = [libraries(), scripts("theme", "charts", "axes", "table", "page")]
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in parts_of_script)
    # Nothing is loaded, and only these two scripts run. Vega compiles its expressions.
    policy = (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    names = {heading: f"section-{number}" for number, heading in enumerate(sections)}
    links = (markup("li", markup("a", escape(heading), href=f"#{name}")) for heading, name in names.items())
    parts = (
        markup("section", markup("h2", escape(heading), id=names[heading]), inside, aria_labelledby=names[heading])
        for heading, inside in sections.items()
    )
    return document(
        title,
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        + markup("style", (PAGE / "style.css").read_text("utf-8")),
        markup("div", markup("h1", breakable(title)), markup("p", breakable(subtitle))),
        "Figures and the table of intervals need JavaScript.",
        markup("nav", markup("ul", *links), aria_label="Sections"),
        markup("main", *parts, id="main"),
        markup("footer", "Made by popbandits. This file is complete: it needs no network."),
        f'<script type="application/json" id="data">{script_json(data)}</script>',
        *(f'<script type="module">{script}</script>' for script in parts_of_script),
    )


def document(title: str, head: str, heading: str, noscript: str, *body: str, **attributes: Any) -> str:
    """Return a whole page.

    Args:
        title: Text in the window's title.
        head: Markup for the head.
        heading: Markup in the header, beside the choice of a theme.
        noscript: Text for browsers without JavaScript.
        body: Markup below the header, with an element of the id "main".
        attributes: Attributes of the body.
    """
    parts = {"head": head, "heading": heading, "noscript": noscript, "body": "\n".join(body)}
    return fill("document", title=escape(title), attributes=_written(attributes), **parts)


def themes() -> dict[str, Any]:
    """Return the chart configurations of both themes."""
    return {"light": config(), "dark": config(dark=True)}


def bare(spec: dict[str, Any]) -> dict[str, Any]:
    """Remove title and colours from a specification: the page has its own."""
    return {name: value for name, value in spec.items() if name not in ("title", "config")}


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
