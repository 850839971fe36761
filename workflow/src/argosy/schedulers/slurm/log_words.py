"""Reads Slurm's messages in a job's log about the job's end and failed tasks.

Runs on compute nodes beside runtime/verdict.py, by its path: standard library only, Python 3.8.
"""

from __future__ import annotations

import calendar
import re
import subprocess
import time
from collections.abc import Iterator, Sequence

NAME = "Slurm"

# Error messages, except those of a cancellation.
TELLING = (re.compile(r"((?:srun|slurmstepd\S*): error: (?!.*CANCELLED|\S+: tasks? [\d,-]+: ).+)"),)

# slurmstepd's last words, such as: *** JOB 7 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***
_ENDED = re.compile(
    r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT ([^*\n]{1,40}?)(?: DUE TO ([A-Z ]+)[^*\n]{0,80}?)? \*\*\*"
)
# Jobs have one task per node, so a task's number is its node's index.
_FAILED = re.compile(r"srun: error: (\S+): tasks? ([\d,-]+): Exited with exit code (\d+)")

_TIMEOUT = re.compile(r"^SlurmdTimeout\s*=\s*(\d+)", re.MULTILINE)
# Slurm's default, and the time limit of the query; seconds.
_SLURMD_TIMEOUT = 300.0
_ANSWER_TIME = 60.0


def why_ended(text: str) -> str | None:
    """Return Slurm's reason for ending the job; None if Slurm did not end it."""
    ends = [(found.group(2) or "CANCELLED").lower() for found in _ENDED.finditer(text)]
    # A bare CANCELLED may be a consequence of another end, so a reason takes precedence.
    return max(ends, key=lambda reason: reason != "cancelled", default=None)


# Messages about killed agents or their launcher, the most specific first; the group captures the evidence.
_KILLED = (
    (r"^srun: error: (Task launch for \S+ failed on node \S+: .+)$", "{}"),
    (
        r"^(?:srun|slurmstepd)\S*: error: (.*(?:oom[-_ ]kill|out of memory|exceeded memory limit).*)$",
        "Slurm reports a lack of memory ({}): raise resources.memory_per_rank",
    ),
    (
        r"\*\*\* ((?:JOB|STEP) \S+ ON \S+ CANCELLED) AT (?![^*\n]* DUE TO)",
        "Slurm was told to end it ({})",
    ),
    (r': line \d+: +\d+ (\S[^"\n]*?) +"\$\{srun_command', "its launcher srun was ended ({})"),
)


def why_killed(text: str) -> str:
    """Return why all processes of a node were killed; empty if unknown."""
    for pattern, words in _KILLED:
        if found := re.search(pattern, text, re.IGNORECASE | re.MULTILINE):
            return words.format(found[1].strip())
    return ""


def ended_at(text: str) -> float | None:
    """Return the time of Slurm's first end message, read as UTC, in unix time; None without one."""
    found = _ENDED.search(text)
    try:
        return (
            float(calendar.timegm(time.strptime(found[1], "%Y-%m-%dT%H:%M:%S"))) if found else None
        )
    except ValueError:
        return None


def failed_nodes(line: str) -> tuple[str, Sequence[int], int] | None:
    """Return host, node numbers and exit code from a line of srun about failed tasks."""
    said = _FAILED.fullmatch(line)
    return (said[1], list(_numbers(said[2])), int(said[3])) if said else None


def misses_node_after() -> float:
    """Return SlurmdTimeout in seconds, after which Slurm requeues the job of a lost node."""
    try:
        done = subprocess.run(
            ["scontrol", "show", "config"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_ANSWER_TIME,
        )
    except (OSError, subprocess.TimeoutExpired):
        return _SLURMD_TIMEOUT
    found = _TIMEOUT.search(done.stdout.decode("utf-8", "replace"))
    return float(found.group(1)) if found else _SLURMD_TIMEOUT


def _numbers(text: str) -> Iterator[int]:
    """Yield the numbers of a list of tasks such as ``0,2-4``."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
