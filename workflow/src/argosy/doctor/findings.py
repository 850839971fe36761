"""What a check found."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "wrong", "warning", "unknown"]
"""warning: runs will go on with it, or wait; unknown: it could not be checked."""


@dataclass(frozen=True)
class Finding:
    """One check's verdict, with what it was seen by, and what to do.

    Args:
        check: its name.
        evidence: what was found, with the file and key where one decides it.
        remedy: what to do; empty where nothing is.
    """

    check: str
    verdict: Verdict
    evidence: str
    remedy: str = ""


def ok(check: str, evidence: str) -> Finding:
    """Return that all is well."""
    return Finding(check, "ok", evidence)


def wrong(check: str, evidence: str, remedy: str) -> Finding:
    """Return what will keep runs from starting."""
    return Finding(check, "wrong", evidence, remedy)


def warning(check: str, evidence: str, remedy: str) -> Finding:
    """Return what runs will have to bear, or wait for."""
    return Finding(check, "warning", evidence, remedy)


def unknown(check: str, why: str) -> Finding:
    """Return that it could not be checked."""
    return Finding(check, "unknown", why)
