"""The attempts of a run: each is one execution of its batch script, `<job id>.<restart count>`."""

import re
from collections.abc import Iterable, Sequence

from argosy.runtime.contract.layout import ATTEMPTS, LOGS, RECORDS, job_of

KINDS = (ATTEMPTS, RECORDS, LOGS)
"""Folders of a run that have one for each attempt."""
MOST_ATTEMPTS = 100_000

_NAME = re.compile(r".+\.[0-9]{1,9}")


def is_attempt(name: str) -> bool:
    """Return whether a folder's name is that of an attempt."""
    return _NAME.fullmatch(name) is not None


def by_number(name: str) -> list[tuple[str, int]]:
    """Return a sort key that puts node-2 before node-10."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def in_order(names: Iterable[str], job_ids: Sequence[str]) -> list[str]:
    """Return attempts, the oldest first: in the order of their jobs' submission, then of their restarts.

    Args:
        names: of the attempts.
        job_ids: of the jobs that were submitted, the oldest first. Other jobs come before them.
    """
    places = {job_id: place for place, job_id in enumerate(job_ids)}

    def place(name: str) -> tuple[int, list[tuple[str, int]]]:
        return places.get(job_of(name), -1), by_number(name)

    return sorted(names, key=place)
