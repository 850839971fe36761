"""What went wrong, and which of several failures is the root cause."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from ...contract.files import open_regular

# Within this time of the first failure a later one may still turn out to be its cause (seconds).
WINDOW = 1.0
# Of ranks that only lost another one the cause may be a node, which is missed after some seconds.
LOST_WINDOW = 6.0
# Seconds that the other ranks get to end by themselves where all who failed have lost another one.
LOST_PATIENCE = 2.0

SIGNAL = "signal"  # killed from outside, or crashed
OTHER = "other"  # no space, command not found: things that no other rank can bring about
ABORT = "abort"  # SIGABRT: a library's way to give up, often because a peer is gone
EXIT = "exit"  # a plain exit code
LOST = "lost"  # the rank itself says that it has lost another one
HUNG = "hung"  # nothing happens any more
VANISHED = "vanished"  # a node that stopped answering
_OF_A_SIGNAL = (SIGNAL, ABORT, EXIT, LOST)
_WEIGHT = {SIGNAL: 0, OTHER: 0, HUNG: 0, ABORT: 1, EXIT: 2, LOST: 3, VANISHED: 4}


@dataclass(frozen=True)
class Failure:
    """One failure; `rank` is None when it is not a rank's, `node` when it is nobody's; `at` is unix."""

    node: int | None
    rank: int | None
    cause: str
    at: float
    kind: str = OTHER

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Failure:
        """Return what `asdict` made a message of. Raises KeyError, TypeError or ValueError."""
        node, rank = message["node"], message["rank"]
        return cls(
            node=None if node is None else int(node),
            rank=None if rank is None else int(rank),
            cause=str(message["cause"]),
            at=float(message["at"]),
            kind=str(message["kind"]),
        )

    def __str__(self) -> str:
        if self.node is None:
            return self.cause
        who = f"node {self.node}" if self.rank is None else f"rank {self.rank} (node {self.node})"
        return f"{who}: {self.cause}"


@dataclass(frozen=True)
class Finished:
    """A rank that ended with exit code 0; `at` is unix."""

    node: int
    rank: int
    at: float


@dataclass(frozen=True)
class Sighting:
    """A failure and when it came to the judge's notice, by the judge's monotonic clock."""

    failure: Failure
    seen: float


def root_cause(sightings: Sequence[Sighting], finished: Sequence[Finished] = ()) -> Failure:
    """Return the failure that most likely brought about the others.

    When one rank dies its peers fail a moment later, and their reports may overtake its own: so
    among those seen within `window` of the first, a kind that is not a consequence of another
    wins, then the earliest. A vanished node counts from its last sign of life; if that was before
    all else, the exit codes that followed are its consequences. Where all have lost another rank, it is
    one that had `finished` before them.
    """
    found = _root(sightings)
    before = [each for each in finished if each.at <= found.at + LOST_PATIENCE]
    if found.kind != LOST or not before:
        return found
    left = min(before, key=lambda each: each.at)
    cause = f"it ended with exit code 0 while others needed it: {found}"
    return Failure(left.node, left.rank, cause, left.at)


def may_follow_from_a_signal(sightings: Sequence[Sighting]) -> bool:
    """Return whether the root cause is the end of a rank such as a signal from outside brings about.

    The signal reaches each process of a rank, the workers of its data loader among them.
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
    """Return whether all ranks are to be ended now (monotonic time) for what was seen."""
    certain = any(each.failure.kind != LOST for each in sightings)
    return certain or any(now >= each.seen + LOST_PATIENCE for each in sightings)


def window(sightings: Sequence[Sighting]) -> float:
    """Return for how many seconds a failure may still turn out to be the consequence of another."""
    return LOST_WINDOW if all(each.failure.kind == LOST for each in sightings) else WINDOW


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ended_by_signal(number: int) -> tuple[str, str]:
    """Cause and kind of a rank that a signal ended."""
    kind = ABORT if number == signal.SIGABRT else SIGNAL
    return f"killed by signal {number} ({signal_name(number)})", kind


def ended_with_code(code: int) -> tuple[str, str]:
    """Cause and kind of a rank that ended with a non-zero exit code."""
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
    """Return the end of a rank's output; "" where it cannot be read."""
    try:
        with open(open_regular(log), "rb") as file:
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
    """Return which address a rank could not connect to, and why; "" where it does not say so."""
    found = list(_UNREACHABLE.finditer(text))
    return f"it cannot reach {found[-1][1]}: {found[-1][2]}" if found else ""


def has_lost_another(text: str) -> bool:
    """Return whether a rank says that another one has gone."""
    return bool(_LOST.search(text) or _UNREACHABLE.search(text))
