"""The names of the files of a run's folder, their schema version and their limits (docs/run-folder.md)."""

import re

SCHEMA_VERSION = 2
"""Of each JSON file of a run, and of the header of records."""
MOST_NODES = 1 << 20
MOST_RANKS_PER_NODE = 1 << 10
MOST_RANKS = 1 << 18
"""Of a job."""

RUN = "run.json"
PROVENANCE = "provenance.json"
RESULT = "result.json"
JOBS = "job.json"
OWNER = "attempt"
"""Holds the name of the attempt that claimed the run last."""

ATTEMPTS = "attempts"
RECORDS = "records"
LOGS = "logs"
CHECKPOINTS = "checkpoints"
OUTPUT = "output"
RANK_LOGS = "ranks"
"""Below an attempt's logs."""

CLAIM = "claim.json"
DATA = "data.json"
VERDICT = "verdict.json"
NOT_STARTED = "not-started.json"
LOST = "lost.json"
WARNING = "warning"
RESTART = "restart"
"""The next attempt, and the nodes that it has left, where the job begins it by itself."""
TIME_LIMIT = "time-limit"
JOB_LOG = "job.log"

TIMELINE = "timeline.json"
WARNED = "warned"
CHECKPOINT = "checkpoint.json"
STEPS_SUFFIX = ".steps"
LINES_SUFFIX = ".jsonl"


def job_of(attempt: str) -> str:
    """Return the id of the job that an attempt belongs to."""
    return attempt.rpartition(".")[0]


def restarts_of(attempt: str) -> int:
    """Return how many attempts of the same start of its job came before: 2 of ``7.0-2``."""
    return int(attempt.rpartition(".")[2].partition("-")[2] or 0)


def next_attempt(attempt: str) -> str:
    """Return the name of the attempt that this one's job begins next: ``7.0-1`` after ``7.0``."""
    return f"{first_attempt(attempt)}-{restarts_of(attempt) + 1}"


def attempt_before(attempt: str) -> str:
    """Return the attempt after which the job began this one; empty for the first."""
    before = restarts_of(attempt) - 1
    return "" if before < 0 else first_attempt(attempt) + (f"-{before}" if before else "")


def first_attempt(attempt: str) -> str:
    """Return the attempt with which the same start of its job began: ``7.0`` of ``7.0-2``."""
    return f"{job_of(attempt)}.{attempt.rpartition('.')[2].partition('-')[0]}"


scheduler_log = "scheduler-{}.log".format
"""The log that the scheduler keeps of a job, by its id, through all its restarts."""
node_status = "node-{}.json".format
"""The file in which an agent describes its node."""
node_links = "links-{}.json".format
"""The connections of a node's ranks."""
node_telemetry = "telemetry-{}.jsonl".format
node_log = "node-{}.log".format
rank_log = "rank-{}.log".format
"""What a rank prints."""
rank_steps = f"rank-{{}}{STEPS_SUFFIX}".format
rank_lines = f"rank-{{}}{LINES_SUFFIX}".format
"""A rank's records but its steps."""
PRINTED = re.compile(r"printed(?:-([0-9]{1,9}))?\.jsonl")
"""Names of such files as `printed` returns; without a number it is rank 0's."""


def printed(rank: int) -> str:
    """Return the name of the file of the throughput that a rank prints."""
    return f"printed-{rank}.jsonl" if rank else "printed.jsonl"
