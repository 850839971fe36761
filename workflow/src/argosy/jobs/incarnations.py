"""The executions of a run's jobs, and what each says it came to."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import Any

from argosy.files import attempt_folder
from argosy.reading import folders_in, read_object, site_of

MOST_INCARNATIONS = 100_000
STATES = ("completed", "failed", "interrupted", "cancelled")
"""Of a verdict."""


def newest_incarnation(run_dir: Path, job_id: str | None) -> str | None:
    """The job's last execution that left records or logs."""
    found = incarnations_of(run_dir, job_id)
    return found[-1] if found else None


def incarnations_of(run_dir: Path, job_id: str | None) -> list[str]:
    """The job's executions that left records or logs, the newest last."""
    found = {}
    for kind in ("attempts", "records", "logs"):
        with suppress(OSError):
            for name in folders_in(run_dir / kind, site_of(run_dir), MOST_INCARNATIONS):
                job, _, number = name.rpartition(".")
                if job == job_id and re.fullmatch(r"[0-9]{1,9}", number):
                    found[int(number)] = name
    return [found[number] for number in sorted(found)]


def read_verdict(run_dir: Path, incarnation: str) -> Mapping[str, Any] | None:
    """What the incarnation came to, as it said itself; None without, or for what is none."""
    path = attempt_folder(run_dir, incarnation) / "verdict.json"
    try:
        verdict = read_object(path, site_of(run_dir))
    except (OSError, ValueError):
        return None
    return verdict if _is_verdict(verdict) else None


def _is_verdict(found: Mapping[str, Any]) -> bool:
    failure = found.get("failure")
    return found.get("state") in STATES and (
        not failure
        or (
            isinstance(failure, dict)
            and isinstance(failure.get("cause"), str)
            and all(type(failure.get(key)) in (int, NoneType) for key in ("node", "rank"))
        )
    )
