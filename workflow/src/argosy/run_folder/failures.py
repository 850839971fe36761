"""Why an attempt came to nothing, in words: one way for the driver, the live table and the report."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from argosy.run_folder.folder import RunFolder
from argosy.run_folder.log_tail import TAIL_BYTES, last_line, tail
from argosy.run_folder.models import Failure, RunFolderError, Verdict
from argosy.runtime.contract.layout import CHECKPOINTS, RANK_LOGS
from argosy.runtime.contract.run import RANKS_MEET
from argosy_common.errors import plain

MOST_LINES_AFTER = 30
"""What programs print at their exit, after a traceback; an older traceback was handled, it seems."""

_HEADER = re.compile(
    r"(?P<prefix>.*?)(?:\+ )?(?:Exception Group )?Traceback \(most recent call last\):$"
)
_BOX = re.compile(r"\s*╭[─ ]*Traceback \(most recent call last\)[─ ]*╮$")
_IGNORED = "Exception ignored in"
_OF_ANOTHER_PROCESS = re.compile(
    r"(?:[\w.]+\.)?(?:ChildFailedError|CalledProcessError|ProcessExitedException|ProcessRaisedException"
    r"|EOFError|BrokenPipeError|BrokenProcessPool|ConnectionResetError)\b"
)
"""Exceptions of torchrun and its like: a process that they had started or listened to has ended."""
_LAST_WORD = re.compile(r"(?:[\w./-]+: )?(?:error|fatal): ", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2}")


@dataclass(frozen=True)
class _Raised:
    """An exception that ended a traceback; `line` is where it stands."""

    text: str
    line: int


def error_line(path: Path, top: Path) -> str:
    """Return why the program ended that printed this log, in one line; "" where it printed nothing.

    This is the exception of the last traceback. Where that only says that another process has ended, it is
    the first exception that says more. Without a traceback near the end it is the last line.
    """
    lines = [
        _shown(line) for line in tail(path, top, TAIL_BYTES).decode(errors="replace").split("\n")
    ]
    raised = [*_exceptions(lines)]
    if not raised or _goes_on_after(lines, raised[-1].line):
        return last_line(path, top)
    if _OF_ANOTHER_PROCESS.match(raised[-1].text):
        return next(
            (each.text for each in raised if not _OF_ANOTHER_PROCESS.match(each.text)),
            raised[-1].text,
        )
    return raised[-1].text


def _shown(line: str) -> str:
    """Return a line without colours, and of a progress bar its last state."""
    return plain(line.rstrip("\r").rpartition("\r")[2]).rstrip()


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
    """Return the line of the exception: the first one of this traceback that is not indented."""
    begin = _begin(prefix)
    for number in range(first, len(lines)):
        # A line of another process may stand between.
        if lines[number].startswith(begin):
            rest = lines[number][len(begin) :]
            if rest and not rest[0].isspace():
                return number
    return None


def _begin(prefix: str) -> str:
    """Return how the lines of a traceback begin; those of an exception group have a bar."""
    return f"{prefix}| " if prefix and prefix.isspace() else prefix


def _after_box(lines: Sequence[str], first: int) -> int | None:
    ends = (number for number in range(first, len(lines) - 1) if lines[number].startswith("╰"))
    return next((number + 1 for number in ends), None)


def _message(lines: Sequence[str], number: int, prefix: str) -> str:
    """Return type and message; where the first line only announces the message, with the line below."""
    begin = _begin(prefix)
    text = lines[number].removeprefix(begin)
    following = (line.removeprefix(begin).strip() for line in lines[number + 1 :])
    more = next((line for line in following if _WORD.search(line)), "")
    return f"{text} {more}".strip() if text.endswith(":") else text


def _goes_on_after(lines: Sequence[str], number: int) -> bool:
    """Return whether the program went on after the exception: it printed much, or another error at last."""
    after = [line for line in lines[number + 1 :] if line]
    return len(after) > MOST_LINES_AFTER or bool(after and _LAST_WORD.match(after[-1]))


_READ_ONLY = "Read-only file system"
_NO_MODULE = "ModuleNotFoundError: "
_IN_USE = "address already in use"
_OF_ITS_OWN = re.compile(
    r"exit code|killed by signal 6 |it called MPI_Abort|.+ without MPI_Finalize|.+, ended: "
)
"""Causes of programs that gave up by themselves: their last words say why."""
_BESIDE = re.compile(r"; see (beside-[0-9]+-[0-9]+\.log)$")
_OF_CONTAINER = re.compile(r"(?<![\w./-])/job/(?=(?:records|logs|attempts|output)\b)")
"""Where agents and ranks have the run's folder, and whoever reads has not."""


def who_failed(failure: Failure, host: str | None = None) -> str:
    """Return the rank or node that failed, `rank 1 (node 0, n1)`; "" where it is the whole job."""
    if failure.rank is None:
        return _node(failure, f" ({host})" if host else "")
    where = _node(failure, f", {host}" if host else "")
    return f"rank {failure.rank} ({where})" if where else f"rank {failure.rank}"


def _node(failure: Failure, host: str) -> str:
    return "" if failure.node is None else f"node {failure.node}{host}"


def describe_failure(failure: Failure, host: str | None = None) -> str:
    """Return who failed, where it is known, and why."""
    who = who_failed(failure, host)
    return f"{who}: {failure.cause}" if who else failure.cause


def log_of(run: RunFolder, attempt: str, failure: Failure) -> Path | None:
    """Return the log of the rank, or of the command beside the program, that failed; None for others."""
    if failure.rank is not None:
        return run.rank_log(attempt, failure.rank)
    beside = _BESIDE.search(failure.cause)
    return run.logs(attempt) / RANK_LOGS / beside[1] if beside else None


def describe_verdict(run: RunFolder, verdict: Verdict) -> str:
    """Return who failed, on which host, and why, "" without a failure.

    A program that gave up by itself is quoted with its exception, or with its last line.
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
        said = error_line(log, run.site)
        text += f": {said or 'it printed nothing'}"
        if _READ_ONLY in said:
            text += f"; if the program may write there, {_permission(run, said)}"
        with suppress(RunFolderError):
            if said.startswith(_NO_MODULE) and run.spec.image:
                text += "; if a package is missing, list it in the file of image.python (docs/images.md)"
            if _IN_USE in said.lower():
                text += _at_a_port(run)
        text += _of_checkpoint(run, verdict.attempt)
    return text


def _of_checkpoint(run: RunFolder, attempt: str) -> str:
    """Return the checkpoint from which an attempt went on to save none: it may be the cause."""
    claim = run.claim(attempt)
    if claim is None or claim.continues is None or run.has_saved(attempt):
        return ""
    folder = run.path / CHECKPOINTS / claim.continues.attempt
    step = claim.continues.step
    return f"; it went on from step {step}: if that checkpoint is damaged, delete its folder in {folder}"


def _at_a_port(run: RunFolder) -> str:
    """Return the remedy for a program that cannot listen at a port that is kept for it."""
    if run.spec.launcher == "torch":
        return "; if the program listens at MASTER_PORT itself: docs/launchers.md has the remedy"
    if any("_port}" in each for each in run.spec.formats):
        return (
            "; to listen at a port of its launcher, a program sets SO_REUSEADDR (docs/launchers.md)"
        )
    return ""


def _permission(run: RunFolder, said: str) -> str:
    """Return which key lets the program write to the path that an error names."""
    with suppress(RunFolderError):
        for target in run.spec.data or {}:
            if re.search(rf"{re.escape(target)}(?=$|[/'\"\s:])", said):
                return f"add write: true to the experiment's data: {target}"
    return "name that path in the experiment's outputs"


def describe_doubts(run: RunFolder, verdict: Verdict) -> str:
    """Return what a completed run's numbers may be worth less for; "" without anything."""
    return "; ".join([*_apart(run, verdict.groups or 1), *verdict.remarks])


def _apart(run: RunFolder, groups: int) -> list[str]:
    if groups == 1:
        return []
    names, remedy = RANKS_MEET
    with suppress(RunFolderError):
        names, remedy = run.spec.meeting_names
    return [f"{names} never met: they are {groups} groups, and it has no throughput ({remedy})"]


def last_words(run: RunFolder, job_id: str | None, attempt: str | None) -> str:
    """Return the last line of an attempt's log, or of the scheduler's where it did not come so far."""
    logs = [run.scheduler_log(job_id)] if job_id else []
    if attempt:
        logs.insert(0, run.logs(attempt) / "job.log")
    return next((said for log in logs if (said := last_line(log, run.site))), "")
