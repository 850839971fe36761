"""All colours of the report: of its charts, and of its page in a light and a dark theme.

Those of charts are Okabe and Ito's, told apart by readers with any colour vision.
"""

from collections.abc import Mapping

ORANGE, SKY, GREEN, BLUE = "#E69F00", "#56B4E9", "#009E73", "#0072B2"
VERMILION, PURPLE, GREY, DARK = "#D55E00", "#CC79A7", "#999999", "#555555"

SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
"""Of lines, in their order."""

ON_DARK = {BLUE: "#56b4e9", DARK: "#c9d1d9"}
"""What is too dark for a dark page, and what it is replaced by; bars keep all their colours."""

GOOD, FAIR, POOR, UNKNOWN = "#2e7d32", "#8a6d00", "#b3261e", "#5f6368"
"""Of badges."""

_PRINTED_QUIET = "#57606a"
_LIGHT_PAGE = {
    "ink": "#1b1f24",
    "quiet": _PRINTED_QUIET,
    "page": "#ffffff",
    "card": "#f6f8fa",
    "line": "#d0d7de",
    "link": "#0059a8",
    "good": "#00694c",
    "bad": "#a83c00",
}
_DARK_PAGE = {
    "ink": "#e6e9ec",
    "quiet": "#a2abb5",
    "page": "#14181d",
    "card": "#1d232a",
    "line": "#3a434d",
    "link": "#79b8f0",
    "good": "#3fc79a",
    "bad": "#ff9152",
}


def coloured(css: str) -> str:
    """Return a style sheet with colours in place of its marks `$light`, `$dark`, `$charts`, `$quiet`."""
    charts = [
        f'  figure:not(.phases, .stalls, .timeline) [{kind}="{colour}"] {{ {kind}: {other}; }}'
        for colour, other in ON_DARK.items()
        for kind in ("stroke", "fill")
    ]
    marks = {
        "  $light": _variables(_LIGHT_PAGE, "  "),
        "    $dark": _variables(_DARK_PAGE, "    "),
        "  $charts": "\n".join(charts),
        "$quiet": _PRINTED_QUIET,
    }
    for mark, text in marks.items():
        css = css.replace(mark, text)
    return css


def _variables(theme: Mapping[str, str], indent: str) -> str:
    return "\n".join(f"{indent}--{name}: {colour};" for name, colour in theme.items())
