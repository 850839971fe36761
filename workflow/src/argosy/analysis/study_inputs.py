"""One digest of all that a study measures: the same on every site that runs the same study."""

import hashlib
import json
from collections.abc import Iterable, Iterator

from argosy.analysis.setups import NamedSetup, Setup, told
from argosy.results.tables import Run


def inputs_digest(setups: Iterable[NamedSetup], runs: Iterable[Run]) -> str:
    """Return the SHA-256 of what was asked for, as `sha256:…`.

    It covers the runs, and of each setup the program and its files, the image, the launcher, the
    resources of a rank and the experiment's own variables. Left out is what a site decides: its hardware
    and its variables.

    Args:
        setups: of the study.
        runs: all that were asked for, by experiment and run_id.
    """
    asked = {
        "setups": sorted([each.experiment, *_lines(each.setup)] for each in setups),
        "runs": sorted(set(runs)),
    }
    text = json.dumps(asked, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _lines(setup: Setup) -> Iterator[str]:
    """Yield what a setup is made of that no site decides."""
    own = {f"variable {name}" for name in setup.own_variables}
    for what, text in told(setup):
        of_site = what == "hardware" or (what.startswith("variable ") and what not in own)
        if not of_site:
            yield f"{what}: {text}"
