"""Defines and prints the findings of checks."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

from argosy.terminal import plural
from argosy_common.errors import plain

Verdict = Literal["ok", "wrong", "warning", "unknown"]
"""warning: runs work, or wait; unknown: the check could not run."""


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Args:
        check: name of the check.
        evidence: the observation, with the relevant file and key.
        remedy: an instruction; empty if none.
    """

    check: str
    verdict: Verdict
    evidence: str
    remedy: str = ""


def ok(check: str, evidence: str) -> Finding:
    """Return a finding without a fault."""
    return Finding(check, "ok", evidence)


def wrong(check: str, evidence: str, remedy: str) -> Finding:
    """Return a fault that keeps runs from starting."""
    return Finding(check, "wrong", evidence, remedy)


def warning(check: str, evidence: str, remedy: str) -> Finding:
    """Return a problem that runs survive or wait for."""
    return Finding(check, "warning", evidence, remedy)


def unknown(check: str, why: str) -> Finding:
    """Return the finding of a check that could not run."""
    return Finding(check, "unknown", why)


WIDTH = 8


def print_findings(findings: Iterable[Finding], *, as_json: bool) -> bool:
    """Print all findings; return whether anything is wrong."""
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
        print(f"{plural(len(found), 'check')}: {counts}")
    return bool(wrong)


def print_finding(finding: Finding) -> None:
    """Print a finding and its remedy."""
    print(f"{finding.verdict:<{WIDTH}} {finding.check}: {plain(finding.evidence)}")
    if finding.remedy:
        print(f"{'':<{WIDTH}} hint: {plain(finding.remedy)}")
    sys.stdout.flush()
