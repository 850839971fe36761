"""Small jobs that look at one or two nodes of each kind from the inside."""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.files import write_text
from argosy.probe.looks import NodeLook, read_looks
from argosy.schedulers.base import SchedulerError
from argosy.schedulers.cluster_facts import ClusterFacts, LookJob, NodeKind, QueueFacts, Surveyor

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
class Looked:
    """What was learned of a kind of nodes from the inside; without looks, why not."""

    kind: NodeKind
    looks: tuple[NodeLook, ...] = ()
    problem: str = ""


@dataclass
class _Pending:
    job: LookJob
    job_id: str
    told: str = ""


def look_at(
    facts: ClusterFacts, surveyor: Surveyor, folder: Path, wait_s: float, say: Say
) -> list[Looked]:
    """Submit a job for each kind of nodes, wait for all together, and return what they found.

    Args:
        folder: a new one, which nodes share with this machine.
        wait_s: after that many seconds jobs that have not ended are cancelled.
    """
    found: list[Looked] = []
    pending: list[_Pending] = []
    for kind in facts.kinds:
        queue = next((each for each in facts.queues if kind.name in each.kinds), None)
        if queue is None:
            continue
        if not kind.usable:
            found.append(Looked(kind, problem="none of its nodes takes jobs now"))
            continue
        job = _job(kind, queue, facts.account, folder / kind.name)
        try:
            pending.append(_Pending(job, surveyor.submit(job)))
        except SchedulerError as problem:
            found.append(Looked(kind, problem=f"its job was refused: {problem}"))
    try:
        found += _wait(pending, surveyor, wait_s, say)
    except BaseException:
        for each in pending:
            surveyor.cancel(each.job_id)
        raise
    return found


def _job(kind: NodeKind, queue: QueueFacts, account: str | None, folder: Path) -> LookJob:
    nodes = min(2, kind.usable, queue.nodes)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    questions = folder / "questions.json"
    content = {
        "nodes": nodes,
        "secret": secrets.token_hex(16),
        "suffixes": SUFFIXES,
        "scratch": SCRATCH,
        "folders": _folders_here(),
        "outside": _outside(),
    }
    write_text(questions, json.dumps(content))
    look = str(RUNTIME / "node_look.py")
    command = ("bash", str(RUNTIME / "look-node.sh"), look, str(questions), str(folder), "--")
    return LookJob(kind, queue, account, nodes, folder, (*command, sys.executable, *PYTHONS))


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
    while len(found) < len(pending):
        waited = time.monotonic() - began
        for each in pending:
            if each.job_id in found:
                continue
            state = surveyor.waits_for(each.job_id)
            if state is None:
                found[each.job_id] = _collect(each.job)
            elif waited > wait_s:
                found[each.job_id] = _give_up(each, state, waited, surveyor)
            else:
                each.told = state
        if left := [each for each in pending if each.job_id not in found]:
            if time.monotonic() - said > WORD_S or waited < POLL_S:
                said = time.monotonic()
                say(_words(left, waited, wait_s))
            time.sleep(POLL_S)
    return list(found.values())


def _words(left: Sequence[_Pending], waited: float, wait_s: float) -> str:
    each = left[0]
    state = f"waits: {each.told}" if each.told else "runs"
    more = f", and {len(left) - 1} more" if len(left) > 1 else ""
    return (
        f"job {each.job_id} on {each.job.kind.name} {state}{more} "
        f"({waited:.0f} s; given up after {wait_s:.0f} s, --wait)"
    )


def _give_up(each: _Pending, state: str, waited: float, surveyor: Surveyor) -> Looked:
    surveyor.cancel(each.job_id)
    return Looked(
        each.job.kind,
        tuple(read_looks(each.job.folder, each.job.nodes)),
        f"its job {'waited' if state else 'ran'} for {waited:.0f} s and was cancelled"
        + (f": {state}" if state else ""),
    )


def _collect(job: LookJob) -> Looked:
    """Return what a job that has ended left, as soon as the file system shows it."""
    until = time.monotonic() + SHOWN_LATE_S
    log = job.folder / "job.log"
    looks = read_looks(job.folder, job.nodes)
    while len(looks) < job.nodes and not log.exists() and time.monotonic() < until:
        time.sleep(POLL_S)
        looks = read_looks(job.folder, job.nodes)
    if len(looks) == job.nodes:
        return Looked(job.kind, tuple(looks))
    if not log.exists():
        problem = f"its job left nothing in {job.folder}: nodes may not share that folder"
    else:
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        problem = f"its job failed: {said[-1] if said else 'it said nothing'}; see {log}"
    return Looked(job.kind, tuple(looks), problem)
