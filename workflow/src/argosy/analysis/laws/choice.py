"""Which law describes a study best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from argosy.analysis.laws.fits import Fit, Refused, fit
from argosy.analysis.laws.formulas import AMDAHL, GUSTAFSON, LINEAR, USL, Law

LAWS: Mapping[str, tuple[Law, ...]] = {
    "strong": (LINEAR, AMDAHL, USL),
    "weak": (LINEAR, GUSTAFSON, USL),
}


@dataclass(frozen=True)
class Choice:
    """All laws' fits, the simplest first, and the name of the one with the least AICc.

    `best` is None when no fit has an AICc.
    """

    fits: Mapping[str, Fit | Refused]
    best: str | None


def choose(scaling: str, sizes: Sequence[float], rates: Sequence[float | None]) -> Choice:
    """Fit the laws for `strong` or `weak` scaling to the same runs (see `fit`) and compare them.

    AICc differences below 2 say little (Burnham and Anderson, "Model Selection and Multimodel
    Inference", 2002, sec. 2.6).
    """
    fits = {law.name: fit(law, sizes, rates) for law in LAWS[scaling]}
    criteria = {
        name: found.goodness.aicc
        for name, found in fits.items()
        if isinstance(found, Fit) and found.goodness.aicc is not None
    }
    return Choice(fits, min(criteria, key=criteria.__getitem__) if criteria else None)
