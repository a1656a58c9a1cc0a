"""Colours of figures, and the look of charts."""

from typing import Any

# Okabe and Ito's colours, which colour-blind readers can tell apart. Those that are too pale for a line on white are
# replaced by others, which have contrast with both grounds and are as far from the rest.
BLUE, BROWN, GREEN, PURPLE, SKY, RED = "#0072B2", "#846030", "#009E73", "#CC79A7", "#5490FC", "#D55E00"
GREY, VIOLET = "#6F757F", "#7830FC"
PALETTE = [BLUE, BROWN, GREEN, PURPLE, SKY, RED, GREY, VIOLET]
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3]]
"""Dash patterns for lines beyond the number of colours."""


def config(dark: bool = False) -> dict[str, Any]:
    """Return the configuration of charts, light or dark."""
    ink, soft, line, ground = (
        ("#e8eaed", "#b3b9c2", "#343943", "#17191e") if dark else ("#1d2129", "#555c66", "#e4e7eb", "#ffffff")
    )
    letters = "system-ui, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
    quiet: Any = {
        "labelColor": soft,
        "titleColor": soft,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 12,
    }
    return {
        "background": ground,
        "font": letters,
        "padding": 8,
        "view": {"stroke": None},
        "axis": quiet | {"gridColor": line, "domain": False, "ticks": False, "labelPadding": 5, "labelLimit": 130},
        "legend": quiet
        | {"orient": "top", "symbolSize": 90, "symbolOpacity": 1, "symbolStrokeWidth": 3, "labelLimit": 260},
        "title": {
            "color": ink,
            "subtitleColor": soft,
            "fontSize": 16,
            "subtitleFontSize": 12,
            "subtitlePadding": 6,
            "subtitleLineHeight": 16,
        },
        "header": quiet,
        "range": {"category": PALETTE},
        "rule": {"color": soft},
        "text": {"color": ink},
    }
