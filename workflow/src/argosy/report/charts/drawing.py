"""A chart of the report as Vega-Lite: the page draws it itself.

Colours are those of Okabe and Ito, told apart by readers with any colour vision. On the page, text and
axes are coloured by its style sheet, so that they follow a light or a dark page.
"""

from dataclasses import dataclass, field
from typing import Any

_WIDTH, _HEIGHT = 440, 185

_FONT = "Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Drawing:
    """A chart that is not drawn yet: `spec` is Vega-Lite with its data; `name` fits in a file's name.

    `kind` (`scaling`, `phases`, `stalls`, `timeline`, `prediction`, `history`) is its class in the style
    sheet, and ends the id of the table that holds its numbers. `text` says the same as the chart to a
    reader who does not see it. `series` are the names that the spec's parameter `shown` may hold, with
    their colours.
    """

    name: str
    kind: str
    caption: str
    text: str
    spec: dict[str, Any]
    series: dict[str, str] = field(default_factory=dict)


def finished(chart: dict[str, Any]) -> dict[str, Any]:
    """Return a chart with the size and the look that all have."""
    letters = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    return chart | {
        "width": _WIDTH,
        "height": _HEIGHT,
        "background": "transparent",
        "autosize": {"type": "fit", "contains": "padding"},
        "config": {
            "font": _FONT,
            "view": {"stroke": None},
            "axis": letters | {"titlePadding": 8},
            # All of it here: the page switches it off and has a legend of its own, made of buttons.
            "legend": letters
            | {"orient": "bottom", "columns": 4, "title": None, "symbolOpacity": 1},
        },
    }
