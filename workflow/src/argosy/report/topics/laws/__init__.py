"""Scaling laws: fitted to throughputs, with intervals, and compared."""

from argosy.report.topics.laws.choice import CONTRADICTED, NO_LOSS, Choice, choose
from argosy.report.topics.laws.fits import Fit, Interval, Refused, fit
from argosy.report.topics.laws.formulas import AMDAHL, GUSTAFSON, LINEAR, USL, Law

__all__ = [
    "AMDAHL",
    "CONTRADICTED",
    "GUSTAFSON",
    "LINEAR",
    "NO_LOSS",
    "USL",
    "Choice",
    "Fit",
    "Interval",
    "Law",
    "Refused",
    "choose",
    "fit",
]
