"""Failures of ranks and nodes, and the root cause among several."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import asdict, dataclass
from typing import Any, Sequence

from ...contract import files, layout

# Seconds after the first failure in which its cause may be reported.
WINDOW = 1.0
# The same if all failed ranks lost a peer: a vanished node is detected after some seconds.
LOST_WINDOW = 6.0
# Seconds for the other ranks to end by themselves if all failed ranks lost a peer.
LOST_PATIENCE = 2.0

SIGNAL = "signal"  # killed from outside, or crashed
OTHER = "other"  # no space, command not found: causes independent of other ranks
ABORT = "abort"  # SIGABRT: libraries raise it, often because a peer is gone
EXIT = "exit"  # a plain exit code
LOST = "lost"  # the rank's output reports a lost peer
HUNG = "hung"  # no rank makes progress
VANISHED = "vanished"  # a node that stopped answering
_OF_A_SIGNAL = (SIGNAL, ABORT, EXIT, LOST)
_WEIGHT = {SIGNAL: 0, OTHER: 0, HUNG: 0, ABORT: 1, EXIT: 2, LOST: 3, VANISHED: 4}


@dataclass(frozen=True)
class Failure:
    """One failure at a unix time; `rank` is None for failures of a node, `node` for those of the job.

    `kind` is empty if no agent has found it.
    """

    node: int | None
    rank: int | None
    cause: str
    at: float
    kind: str = OTHER

    @classmethod
    def read(cls, said: object, nodes: int = layout.MOST_NODES) -> Failure | None:
        """Return the failure in a file; None without a cause and a time. Other wrong values are unknown."""
        if not isinstance(said, dict):
            return None
        cause, at = files.text(said.get("cause")), files.number(said.get("at"))
        if cause is None or at is None:
            return None
        node = files.whole(said.get("node"), nodes)
        rank = files.whole(said.get("rank"), layout.MOST_RANKS)
        return cls(node, rank, cause, at, files.text(said.get("kind")) or "")

    def record(self) -> dict[str, Any]:
        """Return the failure's entry in a file."""
        return {key: value for key, value in asdict(self).items() if (key, value) != ("kind", "")}

    def __str__(self) -> str:
        if self.node is None:
            return self.cause
        who = f"node {self.node}" if self.rank is None else f"rank {self.rank} (node {self.node})"
        return f"{who}: {self.cause}"


@dataclass(frozen=True)
class Finished:
    """A rank that ended with exit code 0, at a unix time."""

    node: int
    rank: int
    at: float


@dataclass(frozen=True)
class Sighting:
    """A failure, and the monotonic time at which the judge learned of it."""

    failure: Failure
    seen: float


def root_cause(sightings: Sequence[Sighting], finished: Sequence[Finished] = ()) -> Failure:
    """Return the failure that most likely caused the others.

    When a rank dies, its peers fail a moment later, and their reports may arrive first. So among
    failures within `window` of the first, a kind that is no consequence wins, then the earliest. A
    vanished node counts from its last report: exit codes after that are its consequences. If all ranks
    lost a peer, the cause is a rank that had `finished` before.
    """
    found = _root(sightings)
    before = [each for each in finished if each.at <= found.at + LOST_PATIENCE]
    if found.kind != LOST or not before:
        return found
    left = min(before, key=lambda each: each.at)
    cause = f"it ended with exit code 0 while others needed it: {found}"
    return Failure(left.node, left.rank, cause, left.at)


def may_follow_from_a_signal(sightings: Sequence[Sighting]) -> bool:
    """Return whether a signal from outside can explain the root cause.

    The signal reaches each process of a rank, including workers of its data loader.
    """
    return _root(sightings).kind in _OF_A_SIGNAL


def _root(sightings: Sequence[Sighting]) -> Failure:
    first = min(sightings, key=lambda each: each.seen)
    near = [each for each in sightings if each.seen <= first.seen + window(sightings)]

    def order(each: Sighting) -> tuple[int, float]:
        weight = _WEIGHT.get(each.failure.kind, 0)
        if each is first and each.failure.kind == VANISHED:
            weight = _WEIGHT[ABORT]
        return weight, each.seen

    found = min(near, key=order).failure
    # A rank that called MPI_Abort may crash for it.
    own = [each.failure for each in near if each.failure.rank == found.rank is not None]
    return next((failure for failure in own if failure.kind == ABORT), found)


def ends_the_job(sightings: Sequence[Sighting], now: float) -> bool:
    """Return whether the failures require to end all ranks at the monotonic time `now`."""
    certain = any(each.failure.kind != LOST for each in sightings)
    return certain or any(now >= each.seen + LOST_PATIENCE for each in sightings)


def window(sightings: Sequence[Sighting]) -> float:
    """Return the seconds to wait for the cause of the first failure."""
    return LOST_WINDOW if all(each.failure.kind == LOST for each in sightings) else WINDOW


def signal_name(number: int) -> str:
    """Return the name of a signal: ``SIGKILL`` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ended_by_signal(number: int) -> tuple[str, str]:
    """Return cause and kind of a rank's end by a signal."""
    kind = ABORT if number == signal.SIGABRT else SIGNAL
    name = signal_name(number)
    return f"killed by signal {number}" + (f" ({name})" if name.startswith("SIG") else ""), kind


def ended_with_code(code: int) -> tuple[str, str]:
    """Return cause and kind of a rank's end by a non-zero exit code."""
    if code - 128 in set(signal.Signals):
        return f"exit code {code} (as a shell reports {signal_name(code - 128)})", EXIT
    return f"exit code {code}", EXIT


_TAIL_BYTES, _TAIL_LINES = 16384, 25
_UNREACHABLE = re.compile(
    r"connect(?:ion)? (?:to )?\[?([0-9a-fA-F.:]+?)\]?(?::\d+)?: "
    r"(Connection timed out|No route to host|Network is unreachable|Connection refused)"
)
_LOST = re.compile(
    r"HorovodInternalError|Horovod has been shut down"  # Horovod
    r"|Connection (?:closed|reset) by peer|Connection aborted|Socket closed|Broken pipe"  # Gloo, TCP
    r"|ncclRemoteError|remote process exited|NCCL communicator was aborted|DistNetworkError"  # NCCL
    r"|failed to recv, got 0 bytes|Did the remote server shutdown or crash"
    r"|Timed out waiting .{0,40}(?:operation|recv|send)|monitoredBarrier"
    r"|another task (?:died|has)|coordination service agent|Collective ops is aborted"  # JAX, TensorFlow
)


def last_lines(log: str) -> str:
    """Return the last lines of a rank's output; empty if it cannot be read."""
    try:
        with open(files.open_regular(log), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-_TAIL_LINES:])


_TRACEBACK = re.compile(
    r"(?P<before>.*)\n(?P<prefix>.*)Traceback \(most recent call last\):\n"
    r"(?:(?P=prefix)(?:[ \t|+].*)?\n)*(?P=prefix)(?P<raised>[A-Za-z_][\w.]*(?:: .*)?)(?:\n.*){0,2}\s*\Z"
)
# Python goes on after these.
_HARMLESS = ("Exception ignored", "Error in atexit", "Exception in thread")


def raised_at_last(text: str) -> str:
    """Return the exception with which a rank's output ends; "" where it ends with something else."""
    found = _TRACEBACK.search(f"\n{text}")
    return found["raised"] if found and not found["before"].startswith(_HARMLESS) else ""


def unreachable(text: str) -> str:
    """Return the address that a rank could not connect to, and the error; empty without one."""
    found = list(_UNREACHABLE.finditer(text))
    return f"it cannot reach {found[-1][1]}: {found[-1][2]}" if found else ""


def has_lost_another(text: str) -> bool:
    """Return whether a rank's output reports a lost peer."""
    return bool(_LOST.search(text) or _UNREACHABLE.search(text))
