"""Extracts the answers of Slurm's commands from other output.

Wrappers, plugins and start-up files of a site print banners and `[INFO]` lines before, between and after
the lines of an answer. So each query's format makes its answer recognisable: columns end in a unique
separator, the first column is requested twice, and the header is required. Output without the header is not
an answer: a wrapper may swallow it, which does not mean an empty queue.
"""

import re
from collections.abc import Sequence

from argosy.schedulers.slurm.commands import NoAnswerError, shown

SEPARATOR = "|argosy|"
"""End of each column of squeue, sinfo and sacct."""

_JOB = re.compile(r"(?:Submitted batch job )?([1-9]\d*)(?:(?:;| on cluster )(\S+))?")
_JOB_ID = re.compile(r"[1-9]\d*(?:[_+]\d+)?")
_TO_START = re.compile(
    r"Job \d+ to start at \S+ using \d+ processors on nodes (\S+)(?: in partition (\S+))?"
)
_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z_]*)=")
_SETTING = re.compile(r"(\w+) *= (.*)", re.DOTALL)
_LISTED = re.compile(r"(?:[^,\[\]]|\[[^\]]*\])+")
_RANGES = re.compile(r"([^\[]*)\[([^\]]*)\](.*)")
_MOST_NODES = 100_000
_COLUMN = 26
"""Column of values in the output of `scontrol show config`."""


class UnreadableError(NoAnswerError):
    """A command succeeded, but its output, which the text quotes, contains no answer."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(f"{what}; it printed: {shown(text)}")


def columns(fields: Sequence[str], joint: str = "") -> str:
    """Return the columns in the syntax of sinfo's --format, or with `joint=":,"` of squeue's --Format."""
    before, between = joint[:1], joint[1:]
    return between.join(f"{field}{before}{SEPARATOR}" for field in (fields[0], *fields))


def read_table(text: str, count: int) -> list[list[str]]:
    """Return the rows of a table of `count` columns, the first of which was requested twice.

    Raises:
        UnreadableError: if the header is missing.
    """
    found = []
    for line in text.split("\n"):
        before, *row = line.split(SEPARATOR)
        # Other output without a line break precedes the first column.
        if len(row) == count + 1 and row[0] and before.endswith(row[0]) and not row.pop().strip():
            found.append([each.strip() for each in row])
    if not found:
        raise UnreadableError("the answer has no table", text)
    return found[1:]


def read_accounts(text: str, header: str) -> list[list[str]]:
    """Return the rows of `sacctmgr -p`, whose header begins with `header`.

    Raises:
        UnreadableError: if the header is missing.
    """
    lines = [line.strip().split("|") for line in text.split("\n")]
    begins = [number for number, row in enumerate(lines) if row[0].endswith(header) and row[1:]]
    if not begins:
        raise UnreadableError("the answer has no table", text)
    length = len(lines[begins[0]])
    rows = lines[begins[0] + 1 :]
    return [row[:-1] for row in rows if len(row) == length and row[0] and not row[-1]]


def read_records(text: str, first: str) -> list[dict[str, str]]:
    """Parse `scontrol show … -o` into a dictionary per line; each line begins with the key `first`.

    `--json` exists since 21.08, needs an optional plugin, and its keys change with nearly every version;
    the keys of these lines do not. A value may contain spaces and ends at the next key. The first
    occurrence of a key counts, since free text comes last.
    """
    found = []
    for line in text.split("\n"):
        begin = line.find(f"{first}=")
        record = _record(line[begin:]) if begin >= 0 else {}
        # A banner may name a partition, but not its state.
        if any(key.endswith("State") for key in record):
            found.append(record)
    return found


def _record(line: str) -> dict[str, str]:
    keys = list(_KEY.finditer(line))
    ends = [each.start() for each in keys[1:]] + [len(line)]
    found: dict[str, str] = {}
    for key, end in zip(keys, ends, strict=False):
        found.setdefault(key[1], line[key.end() : end].strip())
    return found


def read_config(text: str) -> dict[str, str]:
    """Parse `scontrol show config` into a dictionary.

    Raises:
        UnreadableError: if the output has no settings.
    """
    _, begun, settings = text.partition("Configuration data as of ")
    if not begun:
        raise UnreadableError("the answer has no settings", text)
    lines = [line for each in settings.split("\n") if (line := _SETTING.fullmatch(each))]
    found: dict[str, str] = {}
    # Slurm aligns its values; aligned lines precede others, and the first of a key counts.
    for line in sorted(lines, key=lambda line: line.start(2) < _COLUMN):
        found.setdefault(line[1], line[2].strip())
    return found


def read_submitted(text: str) -> tuple[str, str] | None:
    """Return the id and the cluster, mostly empty, of the job that sbatch submitted.

    None if no line, or several different ones, consist of a job id.
    """
    lines = [_JOB.fullmatch(line.strip()) for line in text.split("\n")]
    found = {(said[1], said[2] or "") for said in lines if said}
    return found.pop() if len(found) == 1 else None


def is_job_id(text: str) -> bool:
    """Return whether a text is a job id, also of an array task or a part of a heterogeneous job."""
    return _JOB_ID.fullmatch(text) is not None


def read_start(text: str) -> tuple[int, str] | None:
    """Return the number of nodes and the partition in the answer of `sbatch --test-only`; None without one.

    0 nodes: unknown. The partition is empty if this version of Slurm does not name it.
    """
    found = _TO_START.search(text)
    return (len(hostnames(found[1])), found[2] or "") if found else None


def hostnames(text: str) -> list[str]:
    """Return the host names of a Slurm node list such as `n[01-03,7],m1`, in order; none for `(null)`."""
    return [name for each in _LISTED.findall(text) if each != "(null)" for name in _expanded(each)]


def _expanded(text: str) -> list[str]:
    found = _RANGES.fullmatch(text)
    if not found:
        return [text]
    names = []
    for part in found[2].split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            numbers = range(int(first), int(last or first) + 1)
            names += [f"{found[1]}{number:0{len(first)}}" for number in numbers[:_MOST_NODES]]
    return [name for each in names for name in _expanded(each + found[3])]


_SPAN = re.compile(r"(?:(\d{1,9})-)?(\d{1,9}(?::\d{1,9}){0,2})")
_WITH_DAYS = (3600, 60, 1)
_WITHOUT = {1: (60,), 2: (60, 1), 3: (3600, 60, 1)}


def span_seconds(text: str) -> float | None:
    """Parse a time span into seconds; None for words such as `UNLIMITED`, `infinite` and `INVALID`.

    Formats of sbatch(1), --time: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
    days-hours:minutes and days-hours:minutes:seconds.
    """
    found = _SPAN.fullmatch(text.strip())
    if not found:
        return None
    days, clock = found.groups()
    parts = [int(part) for part in clock.split(":")]
    weights = _WITHOUT[len(parts)] if days is None else _WITH_DAYS
    of_clock = sum(part * weight for part, weight in zip(parts, weights, strict=False))
    return float(int(days or 0) * 86_400 + of_clock)
