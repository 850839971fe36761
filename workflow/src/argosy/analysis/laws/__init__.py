"""Scaling laws: fitted to throughputs, with intervals, and compared."""

from argosy.analysis.laws.choice import CONTRADICTED, NO_LOSS, Choice, choose
from argosy.analysis.laws.fits import Fit, Goodness, Refused, fit
from argosy.analysis.laws.formulas import AMDAHL, GUSTAFSON, LINEAR, USL, Law
from argosy.analysis.laws.intervals import Interval

__all__ = [
    "AMDAHL",
    "CONTRADICTED",
    "GUSTAFSON",
    "LINEAR",
    "NO_LOSS",
    "USL",
    "Choice",
    "Fit",
    "Goodness",
    "Interval",
    "Law",
    "Refused",
    "choose",
    "fit",
]
