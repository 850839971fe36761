"""The scripts that draw a page's charts: Vega as vl-convert puts it together."""

import contextlib
import sysconfig
from importlib.metadata import version
from pathlib import Path

from argosy_common.files import write_text

VEGA_LITE = "6.4"
"""The version in which charts are written, as vl-convert names it."""
SHIPPED = "vega-embed.js"
"""The file beside this one in a wheel, which setup.py writes."""


def chart_scripts() -> str:
    """Return one script that defines `vegaEmbed` and fetches nothing.

    A wheel holds it. For a checkout vl-convert takes seconds to make it, so it is kept in the environment
    that holds vl-convert, and made anew where it is not or where nothing may be written.
    """
    with contextlib.suppress(OSError):
        return Path(__file__).with_name(SHIPPED).read_text(encoding="utf-8")
    folder = Path(sysconfig.get_path("data")) / "share" / "argosy"
    kept = folder / f"vega-embed-{version('vl-convert-python')}-{VEGA_LITE}.js"
    with contextlib.suppress(OSError):
        return kept.read_text(encoding="utf-8")
    made = made_scripts()
    with contextlib.suppress(OSError):
        write_text(kept, made)
        # An environment may be one for many users.
        kept.chmod(0o644)
    return made


def made_scripts() -> str:
    """Return the script, newly made."""
    # Loading it takes longer than finding what it made before.
    import vl_convert

    made: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return made
