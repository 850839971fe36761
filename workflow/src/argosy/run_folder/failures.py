"""Descriptions of failures, the same for the driver, the live table and the report."""

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from argosy.run_folder.folder import RunFolder
from argosy.run_folder.log_tail import TAIL_BYTES, final_state, last_line, tail
from argosy.run_folder.models import Failure, RunFolderError, Verdict
from argosy.runtime.contract.layout import CHECKPOINTS, RANK_LOGS
from argosy.runtime.contract.run import RANKS_MEET

MOST_LINES_AFTER = 30
"""Lines that a program may print after its last traceback; with more, the exception counts as handled."""

_HEADER = re.compile(
    r"(?P<prefix>.*?)(?:\+ )?(?:Exception Group )?Traceback \(most recent call last\):$"
)
_OF_TORCHRUN = "  traceback : "
"""Prefix of a worker's traceback in torchrun's summary; its lines have the spaces alone."""
_WORKER_ENDED = re.compile(
    r"^  rank +: (\d+) \(local_rank: \d+\)\n  exitcode +: (-?\d+) .*\n  error_file: .*\n  traceback : (.*)",
    re.MULTILINE,
)
_BOX = re.compile(r"\s*╭[─ ]*Traceback \(most recent call last\)[─ ]*╮$")
_IGNORED = "Exception ignored in"
_OF_ANOTHER_PROCESS = re.compile(
    r"(?:[\w.]+\.)?(?:ChildFailedError|CalledProcessError|ProcessExitedException|ProcessRaisedException"
    r"|EOFError|BrokenPipeError|BrokenProcessPool|ConnectionResetError)\b"
)
"""Exceptions that only report the end of another process, as those of torchrun."""
_LAST_WORD = re.compile(r"(?:[\w./-]+: )?(?:error|fatal): ", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2}")


@dataclass(frozen=True)
class _Raised:
    """The exception at the end of a traceback, and its line number."""

    text: str
    line: int


def error_line(path: Path, top: Path) -> str:
    """Return the line of a program's log that explains its end; "" for an empty log.

    It is the exception of the last traceback. If that only reports the end of another process, it is the
    first other exception. Without a traceback near the end it is the error of another language, or else the
    last line.
    """
    text = tail(path, top, TAIL_BYTES).decode(errors="replace")
    lines = [final_state(line).rstrip() for line in text.split("\n")]
    raised = [*_exceptions(lines)]
    if not raised or _goes_on_after(lines, raised[-1].line):
        return _error_before_stack(lines) or last_line(path, top)
    if worker := _ended_first(lines):
        return worker
    if _OF_ANOTHER_PROCESS.match(raised[-1].text):
        return next(
            (each.text for each in raised if not _OF_ANOTHER_PROCESS.match(each.text)),
            raised[-1].text,
        )
    return raised[-1].text


def _exceptions(lines: Sequence[str]) -> Iterator[_Raised]:
    for number, line in enumerate(lines):
        if number and lines[number - 1].startswith(_IGNORED):
            continue
        if header := _HEADER.match(line):
            last = _after_frames(lines, number + 1, header["prefix"])
            prefix = header["prefix"]
        elif _BOX.match(line):
            last, prefix = _after_box(lines, number + 1), ""
        else:
            continue
        if last is not None:
            yield _Raised(_message(lines, last, prefix), last)


def _after_frames(lines: Sequence[str], first: int, prefix: str) -> int | None:
    """Return the number of the exception's line: the first line after the frames without indentation."""
    start = _line_start(prefix)
    for number in range(first, len(lines)):
        # Lines of other processes may be interleaved.
        if lines[number].startswith(start):
            rest = lines[number][len(start) :]
            if rest and not rest[0].isspace():
                return number
    return None


def _ended_first(lines: Sequence[str]) -> str:
    """Return the end of the torchrun worker that caused the others' exceptions without one; "" if none did.

    The last worker is torchrun's root cause. It may be one that torchrun ended for another's exit code.
    """
    ended = _WORKER_ENDED.findall("\n".join(lines))
    if not ended:
        return ""
    rank, code, said = ended[-1]
    if code == str(-signal.SIGTERM):
        others = (each for each in ended if each[1] != code and each[2].startswith("To enable"))
        return next((f"rank {rank} of torchrun: exit code {code}" for rank, code, _ in others), "")
    return f"rank {rank} of torchrun: {said}" if said.startswith("Signal ") else ""


def _line_start(prefix: str) -> str:
    """Return the start of a traceback's lines; an exception group adds a bar."""
    if prefix == _OF_TORCHRUN:
        return "  "
    return f"{prefix}| " if prefix and prefix.isspace() else prefix


def _after_box(lines: Sequence[str], first: int) -> int | None:
    ends = (number for number in range(first, len(lines) - 1) if lines[number].startswith("╰"))
    return next((number + 1 for number in ends), None)


def _message(lines: Sequence[str], number: int, prefix: str) -> str:
    """Return type and message; add the next line if the first one ends with a colon."""
    start = _line_start(prefix)
    text = lines[number].removeprefix(start)
    following = (line.removeprefix(start).strip() for line in lines[number + 1 :])
    more = next((line for line in following if _WORD.search(line)), "")
    return f"{text} {more}".strip() if text.endswith(":") else text


def _goes_on_after(lines: Sequence[str], number: int) -> bool:
    """Return whether the program continued after the exception: it printed many lines or a later error."""
    after = [line for line in lines[number + 1 :] if line]
    return len(after) > MOST_LINES_AFTER or bool(after and _LAST_WORD.match(after[-1]))


_FRAME = re.compile(r"\s|at |#\d+ |\[\d+\] ")
_AFTER_AN_ERROR = re.compile(
    r"Node\.js v\d|Execution halted$|Calls: |Stacktrace:|stack traceback:|in expression starting at "
    r"|note: run with |Error termination\. Backtrace|error: called from|Extension modules: |.*hread 0x"
)
"""Lines after an error of Node.js, R, Julia, Lua, Rust, Fortran, Octave and Python's faulthandler."""
_ERROR = re.compile(r"error|exception|caused by", re.IGNORECASE)


def _error_before_stack(lines: Sequence[str]) -> str:
    """Return the error after which a language other than Python printed its stack, or a note; else ""."""
    is_known = has_frames = False
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if _AFTER_AN_ERROR.match(line):
            is_known = has_frames = True
        elif line and not _FRAME.match(line):
            is_error = is_known or _ERROR.search(line)
            return _message(lines, number, "") if has_frames and is_error else ""
        else:
            has_frames |= bool(line)
    return ""


_READ_ONLY = "Read-only file system"
_NO_MODULE = "ModuleNotFoundError: "
_IN_USE = "address already in use"
_OF_ITS_OWN = re.compile(
    r"exit code|killed by signal 6 |it called MPI_Abort|.+ without MPI_Finalize|.+, ended: "
)
"""Causes of programs that gave up by themselves: their last words say why."""
_BESIDE = re.compile(r"; see (beside-[0-9]+-[0-9]+\.log)$")
_OF_CONTAINER = re.compile(r"(?<![\w./-])/job/(?=(?:records|logs|attempts|output)\b)")
"""The run's folder as seen in the container."""


def who_failed(failure: Failure, host: str | None = None) -> str:
    """Return the failed rank or node, such as `rank 1 (node 0, n1)`; "" for the whole job."""
    if failure.rank is None:
        return _node(failure, f" ({host})" if host else "")
    where = _node(failure, f", {host}" if host else "")
    return f"rank {failure.rank} ({where})" if where else f"rank {failure.rank}"


def _node(failure: Failure, host: str) -> str:
    return "" if failure.node is None else f"node {failure.node}{host}"


def describe_failure(failure: Failure, host: str | None = None) -> str:
    """Return the failed rank or node, if known, and the cause."""
    who = who_failed(failure, host)
    return f"{who}: {failure.cause}" if who else failure.cause


def log_of(run: RunFolder, attempt: str, failure: Failure) -> Path | None:
    """Return the log of the rank, or of the command beside the program, that failed; None for others."""
    if failure.rank is not None:
        return run.rank_log(attempt, failure.rank)
    beside = _BESIDE.search(failure.cause)
    return run.logs(attempt) / RANK_LOGS / beside[1] if beside else None


def describe_verdict(run: RunFolder, verdict: Verdict) -> str:
    """Return the failed rank or node, its host and the cause; "" without a failure.

    If the program exited by itself, add its exception or its last line.
    """
    failure = verdict.failure
    if failure is None:
        return ""
    hosts = dict(enumerate(verdict.hosts))
    host = hosts.get(failure.node) if failure.node is not None else None
    text = _OF_CONTAINER.sub(lambda _: f"{run.path}/", describe_failure(failure, host))
    text = _BESIDE.sub("", text)
    log = log_of(run, verdict.attempt, failure)
    if log and _OF_ITS_OWN.match(failure.cause):
        line = error_line(log, run.site)
        text += f": {line or 'it printed nothing'}"
        if _READ_ONLY in line:
            text += f"; if the program may write there, {_permission(run, line)}"
        with suppress(RunFolderError):
            if line.startswith(_NO_MODULE) and run.spec.image:
                text += "; if a package is missing, list it in the file of image.python (docs/images.md)"
            if _IN_USE in line.lower():
                text += _at_a_port(run)
        text += _of_checkpoint(run, verdict.attempt)
    return text


def _of_checkpoint(run: RunFolder, attempt: str) -> str:
    """Name the checkpoint from which an attempt continued without saving another: it may be the cause."""
    claim = run.claim(attempt)
    if claim is None or claim.continues is None or run.has_saved(attempt):
        return ""
    folder = run.path / CHECKPOINTS / claim.continues.attempt
    step = claim.continues.step
    return f"; it went on from step {step}: if that checkpoint is damaged, delete its folder in {folder}"


def _at_a_port(run: RunFolder) -> str:
    """Return the remedy for a program that cannot listen at its reserved port."""
    if run.spec.launcher == "torch":
        return "; if the program listens at MASTER_PORT itself: docs/launchers.md has the remedy"
    if any("_port}" in each for each in run.spec.formats):
        return (
            "; to listen at a port of its launcher, a program sets SO_REUSEADDR (docs/launchers.md)"
        )
    return ""


def _permission(run: RunFolder, error: str) -> str:
    """Return the key that makes the path in an error writable."""
    with suppress(RunFolderError):
        for target in run.spec.data or {}:
            if re.search(rf"{re.escape(target)}(?=$|[/'\"\s:])", error):
                return f"add write: true to the experiment's data: {target}"
    return "name that path in the experiment's outputs"


def describe_doubts(run: RunFolder, verdict: Verdict) -> str:
    """Return reasons to doubt the numbers of a completed run; "" if there are none."""
    return "; ".join([*_apart(run, verdict.groups or 1), *verdict.remarks])


def _apart(run: RunFolder, groups: int) -> list[str]:
    if groups == 1:
        return []
    names, remedy = RANKS_MEET
    with suppress(RunFolderError):
        names, remedy = run.spec.meeting_names
    return [f"{names} never met: they are {groups} groups, and it has no throughput ({remedy})"]


def last_words(run: RunFolder, job_id: str | None, attempt: str | None) -> str:
    """Return the last line of an attempt's job.log, or else of the scheduler's log."""
    logs = [run.scheduler_log(job_id)] if job_id else []
    if attempt:
        logs.insert(0, run.logs(attempt) / "job.log")
    return next((line for log in logs if (line := last_line(log, run.site))), "")
