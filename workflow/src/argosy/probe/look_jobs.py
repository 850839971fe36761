"""Small jobs that look at nodes from the inside."""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from argosy.files import write_text
from argosy.probe.looks import NodeLook, read_looks
from argosy.schedulers.base import BusyError, SchedulerError
from argosy.schedulers.cluster_facts import LookJob, Surveyor

RUNTIME = Path(__file__).parents[1] / "runtime"
PYTHONS = (
    "python3",
    *(f"python3.{minor}" for minor in range(14, 5, -1)),
    "/usr/libexec/platform-python",
)
SUFFIXES = ("i", "-ib", "ib", "-ib0", "-hsn", "-hsn0", "-opa", "-eth")
"""Of nodes' names on their fast network, as sites have them."""

SCRATCH = ("/tmp", "/var/tmp", "/scratch", "/lscratch", "/localscratch", "/local", "/dev/shm")
POLL_S = 1.0
WORD_S = 15.0
"""Nobody waits for longer without a word."""

SHOWN_LATE_S = 20.0
"""How long a shared file system may take to show what nodes wrote."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Questions:
    """What nodes are asked besides what every look finds.

    Args:
        folders: those that nodes may lack.
        scratch: folders for temporary files, which may hold variables.
        suffixes: of a node's name on other networks.
        outside: hosts and ports.
        paths: folders that nodes need, and whether they have to write there.
        commands: programs to run on a node, by name.
    """

    folders: Sequence[str] = ()
    scratch: Sequence[str] = ()
    suffixes: Sequence[str] = ()
    outside: Sequence[tuple[str, int]] = ()
    paths: Mapping[str, bool] = field(default_factory=dict)
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)


def of_any_cluster() -> Questions:
    """Return what is worth asking where nothing is known."""
    return Questions(
        folders=_folders_here(), scratch=SCRATCH, suffixes=SUFFIXES, outside=_outside()
    )


@dataclass(frozen=True)
class Planned:
    """A job for nodes of a kind, by the kind's name; its folder is made when it is submitted."""

    name: str
    options: Mapping[str, str | None]
    nodes: int
    folder: Path


@dataclass(frozen=True)
class Looked:
    """What was learned of a kind of nodes from the inside; without all looks, why not."""

    name: str
    looks: tuple[NodeLook, ...] = ()
    problem: str = ""


@dataclass
class _Pending:
    name: str
    job: LookJob
    job_id: str = ""
    """Empty as long as the scheduler takes no more jobs; `busy` says why."""
    busy: str = ""

    def submit(self, surveyor: Surveyor) -> None:
        """Submit the job, if the scheduler takes it. Raises SchedulerError."""
        try:
            self.job_id = surveyor.submit(self.job)
        except BusyError as problem:
            self.busy = str(problem)

    def state(self, surveyor: Surveyor) -> str | None:
        """Return as `Surveyor.waits_for`, of a job that is perhaps not submitted yet."""
        if not self.job_id:
            self.submit(surveyor)
        return surveyor.waits_for(self.job_id) if self.job_id else self.busy


def look_at(
    planned: Iterable[Planned], questions: Questions, surveyor: Surveyor, wait_s: float, say: Say
) -> list[Looked]:
    """Submit all jobs, wait for them together, and return what they found.

    Args:
        wait_s: after that many seconds jobs that have not ended are cancelled.
    """
    found: list[Looked] = []
    pending: list[_Pending] = []
    try:
        for each in planned:
            one = _Pending(each.name, _job(each, questions))
            try:
                one.submit(surveyor)
                pending.append(one)
            except SchedulerError as problem:
                found.append(Looked(each.name, problem=f"its job was refused: {problem}"))
        return found + _wait(pending, surveyor, wait_s, say)
    except BaseException:
        # Interrupted, for one: nothing is left in the queue. Those that have ended are not minded.
        for one in filter(lambda each: each.job_id, pending):
            say(f"cancelling job {one.job_id}{_cancel(one.job_id, surveyor)}")
        raise


def _cancel(job_id: str, surveyor: Surveyor) -> str:
    """Cancel a job; in words what is wrong where that cannot be done, else nothing."""
    try:
        surveyor.cancel(job_id)
    except SchedulerError as problem:
        return f": {problem}"
    return ""


def _job(planned: Planned, questions: Questions) -> LookJob:
    """Write what the nodes are asked into the job's new folder, which they share with this machine."""
    folder = planned.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    asked = folder / "questions.json"
    content = {"nodes": planned.nodes, "secret": secrets.token_hex(16), **asdict(questions)}
    write_text(asked, json.dumps(content))
    look = str(RUNTIME / "node_look.py")
    command = ("bash", str(RUNTIME / "look-node.sh"), look, str(asked), str(folder), "--")
    return LookJob(planned.options, planned.nodes, folder, (*command, sys.executable, *PYTHONS))


def _outside() -> list[tuple[str, int]]:
    """Return host and port of the index of packages that pip is set to, if it is set to one."""
    try:
        said = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"],
            capture_output=True,
            text=True,
            timeout=20,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = re.search(r"index[-_]url='(https?)://(?:[^@/']*@)?([\w.-]+)(?::(\d+))?", said)
    if not found:
        return []
    return [(found[2], int(found[3] or (443 if found[1] == "https" else 80)))]


def _folders_here() -> list[str]:
    """Return folders of this machine that nodes may lack: home, and what the user's variables name."""
    named = (os.environ.get(name, "") for name in ("HOME", "WORK", "SCRATCH", "PROJECT"))
    return sorted({each for each in named if each.startswith("/") and Path(each).is_dir()})


def _wait(pending: Sequence[_Pending], surveyor: Surveyor, wait_s: float, say: Say) -> list[Looked]:
    began = said = time.monotonic()
    found: dict[str, Looked] = {}
    states: dict[str, str] = {}
    while len(found) < len(pending):
        waited = time.monotonic() - began
        for each in pending:
            if each.name in found:
                continue
            try:
                state = each.state(surveyor)
            except SchedulerError as problem:
                found[each.name] = Looked(each.name, problem=f"its job was refused: {problem}")
                continue
            if state is None:
                found[each.name] = _collect(each)
            elif waited > wait_s:
                found[each.name] = _give_up(each, state, waited, surveyor)
            else:
                states[each.name] = state
        if left := [each for each in pending if each.name not in found]:
            if time.monotonic() - said > WORD_S or waited < POLL_S:
                said = time.monotonic()
                say(_words(left, states[left[0].name], waited, wait_s))
            time.sleep(POLL_S)
    return list(found.values())


def _words(left: Sequence[_Pending], state: str, waited: float, wait_s: float) -> str:
    doing = f"waits: {state}" if state else "runs"
    more = f", and {len(left) - 1} more" if len(left) > 1 else ""
    job = f"job {left[0].job_id}" if left[0].job_id else "a job"
    return (
        f"{job} on {left[0].name} {doing}{more} "
        f"({waited:.0f} s; given up after {wait_s:.0f} s, --wait)"
    )


def _give_up(each: _Pending, state: str, waited: float, surveyor: Surveyor) -> Looked:
    if not each.job_id:
        return Looked(each.name, problem=f"its job was not submitted in {waited:.0f} s: {state}")
    not_cancelled = _cancel(each.job_id, surveyor)
    looks = tuple(read_looks(each.job.folder, each.job.nodes))
    if len(looks) == each.job.nodes:
        return Looked(each.name, looks)
    return Looked(
        each.name,
        looks,
        f"its job {'waited' if state else 'ran'} for {waited:.0f} s and was cancelled"
        + (f": {state}" if state else "")
        + not_cancelled,
    )


def _collect(pending: _Pending) -> Looked:
    """Return what a job that has ended left, as soon as the file system shows it."""
    job = pending.job
    until = time.monotonic() + SHOWN_LATE_S
    log = job.folder / "job.log"
    looks = read_looks(job.folder, job.nodes)
    while len(looks) < job.nodes and not log.exists() and time.monotonic() < until:
        time.sleep(POLL_S)
        looks = read_looks(job.folder, job.nodes)
    if len(looks) == job.nodes:
        return Looked(pending.name, tuple(looks))
    if not log.exists():
        problem = f"its job left nothing in {job.folder}: nodes may not share that folder"
    else:
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        problem = f"its job failed: {said[-1] if said else 'it said nothing'}; see {log}"
    return Looked(pending.name, tuple(looks), problem)
