"""The scripts that draw charts in the page: Vega, Vega-Lite and Vega-Embed, as vl-convert has them."""

import contextlib
import sysconfig
from importlib.metadata import version
from pathlib import Path

from argosy.files import write_text

VEGA_LITE = "6.4"
"""The version in which charts are written, as vl-convert names it."""


def chart_scripts() -> str:
    """Return one script that defines `vegaEmbed` and fetches nothing.

    vl-convert takes seconds to put it together, so it is kept in the environment that holds vl-convert,
    and made anew where it is not or where nothing may be written.
    """
    folder = Path(sysconfig.get_path("data")) / "share" / "argosy"
    kept = folder / f"vega-embed-{version('vl-convert-python')}-{VEGA_LITE}.js"
    with contextlib.suppress(OSError):
        return kept.read_text(encoding="utf-8")
    # Loading it takes longer than finding what it made before.
    import vl_convert

    made: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    with contextlib.suppress(OSError):
        write_text(kept, made)
        # An environment may be one for many users.
        kept.chmod(0o644)
    return made
