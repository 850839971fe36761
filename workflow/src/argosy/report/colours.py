"""Colours of charts, badges and pages, for a light and a dark theme.

Charts use the palette of Okabe and Ito, which is safe for all kinds of colour vision.
"""

from collections.abc import Mapping

ORANGE, SKY, GREEN, BLUE = "#E69F00", "#56B4E9", "#009E73", "#0072B2"
VERMILION, PURPLE, GREY, DARK = "#D55E00", "#CC79A7", "#999999", "#555555"

SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
"""Colours of lines, in order."""

ON_DARK = {BLUE: "#56b4e9", DARK: "#c9d1d9"}
"""Replacements of dark colours on a dark page; bars keep their colours."""

GOOD, FAIR, POOR, UNKNOWN = "#2e7d32", "#8a6d00", "#b3261e", "#5f6368"
"""Colours of badges."""

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
    """Replace the marks `$light`, `$dark`, `$charts` and `$quiet` of a style sheet with colours."""
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
