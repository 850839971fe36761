"""How findings are printed: as they come, for people, or as JSON for a matrix of sites."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict

from argosy.doctor.findings import Finding
from argosy.errors import plain

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
