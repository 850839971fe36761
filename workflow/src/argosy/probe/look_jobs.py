"""Runs small jobs that inspect nodes from the inside."""

import json
import re
import secrets
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from argosy.probe.looks import Marks, NodeLook, Questions, read_looks, read_problems
from argosy.schedulers.base import (
    BusyError,
    NotNowError,
    Say,
    SchedulerError,
    State,
    Status,
    speaking,
)
from argosy.schedulers.batch_system import LookJob, Surveyor
from argosy_common.files import write_text

POLL_S = 1.0
SHOWN_LATE_S = 20.0
"""Seconds that a shared file system may take to show the nodes' files."""

NOTHING_KNOWN = Status(State.WAITING)

OF_LAUNCHER = re.compile(r"\w+: error: .*Exited with exit code \d+")
"""The launcher's last line; the lines before it contain the cause."""


@dataclass(frozen=True)
class Looked:
    """The reports of a kind of nodes, and a problem if some are missing.

    `is_fault`: the site or a node is at fault, so that a longer wait would not help.
    """

    name: str
    looks: tuple[NodeLook, ...] = ()
    problem: str = ""
    is_fault: bool = False


@dataclass
class PendingLook:
    """A submitted job that inspects nodes, and the seconds in which the scheduler did not answer.

    `job_id` is empty while the scheduler accepts no more jobs.
    """

    name: str
    job: LookJob
    marks: Marks
    job_id: str = ""
    status: Status = NOTHING_KNOWN
    silent_s: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def looks(self) -> list[NodeLook]:
        """The reports that its nodes have written so far."""
        return read_looks(self.job.folder, self.job.most)

    @property
    def waited_s(self) -> float:
        """Seconds since submission, without the scheduler's silence."""
        return time.monotonic() - self.began - self.silent_s

    @property
    def is_whole(self) -> bool:
        """Whether all nodes have written a report."""
        looks = self.looks
        return len(looks) >= max((look.nodes for look in looks), default=self.job.nodes)

    def collect(self) -> Looked:
        """Return the reports of an ended job, after waiting for the file system to show them."""
        until = time.monotonic() + SHOWN_LATE_S
        log = self.job.folder / "job.log"
        while not self.is_whole and not log.exists() and time.monotonic() < until:
            time.sleep(POLL_S)
        looks = tuple(self.marks.checked(self.looks, SHOWN_LATE_S))
        if self.is_whole:
            return Looked(self.name, looks)
        return Looked(self.name, looks, self._why_not_all(log), is_fault=True)

    def _why_not_all(self, log: Path) -> str:
        """Return why reports of an ended job are missing."""
        if said := read_problems(self.job.folder, self.job.most):
            return "; ".join(said)
        if not log.exists():
            where = self.job.folder
            return (
                f"its job wrote nothing into {where}: nodes lack this folder, or cannot write to it"
            )
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if own := [line for line in lines if line.startswith("argosy: ")]:
            return "; ".join(line.removeprefix("argosy: ") for line in dict.fromkeys(own))
        rest = [line for line in lines if not OF_LAUNCHER.search(line)] or lines
        return f"its job failed: {rest[-1].strip() if rest else 'it printed nothing'}; see {log}"


RUNTIME = Path(__file__).parents[1] / "runtime"
PYTHONS = (
    "python3",
    *(f"python3.{minor}" for minor in range(14, 5, -1)),
    "/usr/libexec/platform-python",
)
WORD_S = 15.0
"""Seconds between two lines of progress."""

LONGEST_SILENCE_S = 300.0
"""Seconds of the scheduler's silence after which a job without results is cancelled."""


def look_at(
    jobs: Mapping[str, LookJob], questions: Questions, surveyor: Surveyor, wait_s: float, say: Say
) -> list[Looked]:
    """Submit all jobs, wait for them together, and return their reports.

    Args:
        jobs: jobs by the kind of their nodes; their folders and commands are made here.
        wait_s: seconds after which unfinished jobs are cancelled, not counting the scheduler's silence.
    """
    found: list[Looked] = []
    pending: list[PendingLook] = []
    written: list[PendingLook] = []
    try:
        for name, job in jobs.items():
            one = _write_questions(name, job, questions)
            written.append(one)
            if refused := _submit(one, surveyor, say):
                found.append(refused)
            else:
                pending.append(one)
        return found + _wait(pending, surveyor, wait_s, say)
    except BaseException:
        # Leave nothing in the queue, for instance after an interrupt. Finished jobs are ignored.
        for one in filter(lambda each: each.job_id, pending):
            say(f"cancelling job {one.job_id}{_try_to_cancel(one.job_id, surveyor)}")
        raise
    finally:
        for one in written:
            one.marks.remove(one.job.most)


def _submit(one: PendingLook, surveyor: Surveyor, say: Say) -> Looked | None:
    """Submit a job, or record why the scheduler accepts none now; return a result if it never will."""
    try:
        with speaking(say, f"the scheduler to accept a job for {one.name}"):
            one.job_id = surveyor.submit(one.job)
    except BusyError as problem:
        one.status = Status(State.WAITING, reason=str(problem))
    except SchedulerError as problem:
        is_fault = not isinstance(problem, NotNowError)
        return Looked(one.name, problem=f"its job was not accepted: {problem}", is_fault=is_fault)
    return None


def _try_to_cancel(job_id: str, surveyor: Surveyor) -> str:
    """Cancel a job; return the problem in words, or an empty string."""
    try:
        surveyor.cancel(job_id)
    except SchedulerError as problem:
        return f": {problem}"
    return ""


def _write_questions(name: str, job: LookJob, questions: Questions) -> PendingLook:
    """Write the nodes' questions into the job's new folder on the shared file system."""
    folder = job.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    asked = folder / "questions.json"
    marks = Marks(secrets.token_hex(16), questions.paths)
    content = {
        "nodes": job.nodes,
        "secret": marks.secret,
        "marked": marks.leave(),
        **asdict(questions),
    }
    write_text(asked, json.dumps(content))
    look = str(RUNTIME / "node_look.py")
    command = ("bash", str(RUNTIME / "look-node.sh"), look, str(asked), str(folder), "--")
    return PendingLook(name, replace(job, command=(*command, sys.executable, *PYTHONS)), marks)


def _wait(
    pending: Sequence[PendingLook], surveyor: Surveyor, wait_s: float, say: Say
) -> list[Looked]:
    began = said = time.monotonic()
    found: dict[str, Looked] = {}
    while len(found) < len(pending):
        for each in pending:
            if each.name not in found and (looked := _look_in(each, surveyor, wait_s, say)):
                found[each.name] = looked
        if left := [each for each in pending if each.name not in found]:
            now = time.monotonic()
            if now - said > WORD_S or now - began < POLL_S:
                said = now
                say(_progress_line(left, now - began, wait_s))
            time.sleep(POLL_S)
    return list(found.values())


def _look_in(each: PendingLook, surveyor: Surveyor, wait_s: float, say: Say) -> Looked | None:
    """Return a job's reports, or why waiting is pointless; None to continue waiting.

    Files from nodes take precedence over the scheduler's answers.
    """
    if each.is_whole:
        return each.collect()
    if not each.job_id and (refused := _submit(each, surveyor, say)):
        return refused
    asked = time.monotonic()
    try:
        with speaking(say, f"the scheduler's status of the job for {each.name}"):
            each.status = surveyor.status(each.job_id) if each.job_id else each.status
    except SchedulerError as problem:
        each.silent_s += time.monotonic() - asked + POLL_S
        if each.silent_s > LONGEST_SILENCE_S:
            words = f"the scheduler has not reported it for {each.silent_s:.0f} s ({problem})"
            return _give_up(each, words, surveyor)
        return None
    if not each.status.state.active:
        return each.collect()
    return _tired_of(each, each.status, surveyor, wait_s)


def _tired_of(
    each: PendingLook, status: Status, surveyor: Surveyor, wait_s: float
) -> Looked | None:
    """Cancel a job that is stuck or late; return None while there is time."""
    if status.stuck:
        words = f"waiting will not help its job: {status.stuck}"
        return _give_up(each, words, surveyor, is_fault=True)
    if each.waited_s <= wait_s:
        return None
    waited = f"{each.waited_s:.0f} s"
    if not each.job_id:
        words = f"its job was not submitted in {waited}: {status.reason}"
    elif status.reason:
        words = f"its job waited for {waited} and was cancelled: {status.reason}"
    else:
        words = f"its job ran for {waited} and was cancelled"
    return _give_up(each, words, surveyor)


def _progress_line(left: Sequence[PendingLook], waited: float, wait_s: float) -> str:
    first = left[0]
    if first.status is NOTHING_KNOWN:
        doing = "has an unknown state: the scheduler does not answer"
    else:
        doing = f"waits: {first.status.reason}" if first.status.reason else "runs"
    more = f", and {len(left) - 1} more" if len(left) > 1 else ""
    job = f"job {first.job_id}" if first.job_id else "a job"
    return (
        f"{job} on {first.name} {doing}{more} "
        f"({waited:.0f} s; given up after {wait_s:.0f} s, --wait)"
    )


def _give_up(
    each: PendingLook, problem: str, surveyor: Surveyor, *, is_fault: bool = False
) -> Looked:
    """Cancel a job and return its reports; it may have ended meanwhile."""
    not_cancelled = _try_to_cancel(each.job_id, surveyor) if each.job_id else ""
    if each.is_whole:
        return each.collect()
    return Looked(each.name, tuple(each.looks), problem + not_cancelled, is_fault)
