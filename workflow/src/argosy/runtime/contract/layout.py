"""Names of files in a run's folder, their schema version and their limits (docs/run-folder.md)."""

import re

SCHEMA_VERSION = 2
"""Version of JSON files and of the header of records."""
MOST_NODES = 1 << 20
MOST_RANKS_PER_NODE = 1 << 10
MOST_RANKS = 1 << 18

RUN = "run.json"
PROVENANCE = "provenance.json"
RESULT = "result.json"
JOBS = "job.json"
OWNER = "attempt"
"""Contains the name of the attempt that claimed the run last."""

ATTEMPTS = "attempts"
RECORDS = "records"
LOGS = "logs"
CHECKPOINTS = "checkpoints"
OUTPUT = "output"
RANK_LOGS = "ranks"
"""Folder in an attempt's logs."""

CLAIM = "claim.json"
DATA = "data.json"
VERDICT = "verdict.json"
NOT_STARTED = "not-started.json"
LOST = "lost.json"
WARNING = "warning"
RESTART = "restart"
"""The next attempt and its nodes, if the job restarts itself."""
TIME_LIMIT = "time-limit"
JOB_LOG = "job.log"

TIMELINE = "timeline.json"
WARNED = "warned"
CHECKPOINT = "checkpoint.json"
STEPS_SUFFIX = ".steps"
LINES_SUFFIX = ".jsonl"


def job_of(attempt: str) -> str:
    """Return the job id of an attempt."""
    return attempt.rpartition(".")[0]


def restarts_of(attempt: str) -> int:
    """Return the number of restarts within the job before an attempt: 2 for ``7.0-2``."""
    return int(attempt.rpartition(".")[2].partition("-")[2] or 0)


def next_attempt(attempt: str) -> str:
    """Return the attempt after a restart within the job: ``7.0-1`` after ``7.0``."""
    return f"{first_attempt(attempt)}-{restarts_of(attempt) + 1}"


def attempt_before(attempt: str) -> str:
    """Return the attempt before a restart within the job; empty for the first."""
    before = restarts_of(attempt) - 1
    return "" if before < 0 else first_attempt(attempt) + (f"-{before}" if before else "")


def first_attempt(attempt: str) -> str:
    """Return the attempt before all restarts within the job: ``7.0`` for ``7.0-2``."""
    return f"{job_of(attempt)}.{attempt.rpartition('.')[2].partition('-')[0]}"


scheduler_log = "scheduler-{}.log".format
"""The scheduler's log of a job, by job id; it covers all restarts."""
node_status = "node-{}.json".format
"""An agent's status file."""
node_links = "links-{}.json".format
"""Recorded connections of a node's ranks."""
node_telemetry = "telemetry-{}.jsonl".format
node_log = "node-{}.log".format
rank_log = "rank-{}.log".format
"""A rank's output."""
rank_steps = f"rank-{{}}{STEPS_SUFFIX}".format
rank_lines = f"rank-{{}}{LINES_SUFFIX}".format
"""A rank's records other than steps."""
PRINTED = re.compile(r"printed(?:-([0-9]{1,9}))?\.jsonl")
"""Matches the names that `printed` returns; without a number, rank 0's."""


def printed(rank: int) -> str:
    """Return the name of the file with a rank's printed throughput."""
    return f"printed-{rank}.jsonl" if rank else "printed.jsonl"
