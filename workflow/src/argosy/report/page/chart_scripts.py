"""The JavaScript of Vega, as bundled by vl-convert."""

import contextlib
import sysconfig
from importlib.metadata import version
from pathlib import Path

from argosy_common.files import write_text

VEGA_LITE = "6.4"
"""Version of Vega-Lite, in vl-convert's format."""
SHIPPED = "vega-embed.js"
"""File name of the script that setup.py puts beside this module in a wheel."""


def chart_scripts() -> str:
    """Return a script that defines `vegaEmbed` and fetches nothing.

    A wheel contains it. In a checkout vl-convert bundles it within seconds; the environment caches it if
    it is writable.
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
        # Several users may share an environment.
        kept.chmod(0o644)
    return made


def made_scripts() -> str:
    """Bundle the script with vl-convert."""
    # A slow import, which a cached script avoids.
    import vl_convert

    made: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return made
