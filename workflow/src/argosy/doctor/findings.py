"""The findings of checks, and how they are printed."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

from argosy.errors import plain

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


WIDTH = 8


def print_findings(findings: Iterable[Finding], *, as_json: bool) -> bool:
    """Print all; whether something is wrong."""
    found = []
    for each in findings:
        found.append(each)
        if not as_json:
            print_finding(each)
    wrong = [each for each in found if each.verdict == "wrong"]
    if as_json:
        print(json.dumps([asdict(each) for each in found], indent=2))
    else:
        counts = ", ".join(
            f"{sum(each.verdict == verdict for each in found)} {verdict}"
            for verdict in ("wrong", "warning", "unknown", "ok")
            if any(each.verdict == verdict for each in found)
        )
        print(f"{len(found)} check{'' if len(found) == 1 else 's'}: {counts}")
    return bool(wrong)


def print_finding(finding: Finding) -> None:
    """Print one, with what to do below it."""
    print(f"{finding.verdict:<{WIDTH}} {finding.check}: {plain(finding.evidence)}")
    if finding.remedy:
        print(f"{'':<{WIDTH}} hint: {plain(finding.remedy)}")
    sys.stdout.flush()
