"""Finds a rank's place and whether it makes progress, from stacks and system calls over some seconds."""

from __future__ import annotations

import ast
import os
import struct
import time
from dataclasses import replace
from typing import Mapping, Sequence

from ...contract.files import open_regular
from .observation import Counts, Sample
from .places import (
    ENDED,
    STOPPED,
    UNKNOWN,
    WAITS,
    WORKS,
    Place,
    digest,
    is_checked,
    is_meeting,
    is_of_torch,
    place_of,
    waits_for_own,
)
from .processes import Process, command_line
from .stacks import Dump, Frame

# Numbers of system calls that wait for another process or for time.
_WAITS_X86 = {
    0: "read", 7: "poll", 23: "select", 34: "pause", 35: "nanosleep", 42: "connect", 43: "accept",
    45: "recvfrom", 47: "recvmsg", 61: "wait4", 65: "semop", 70: "msgrcv", 128: "rt_sigtimedwait",
    130: "rt_sigsuspend", 202: "futex", 219: "restart_syscall", 220: "semtimedop", 230: "clock_nanosleep",
    232: "epoll_wait", 243: "mq_timedreceive", 247: "waitid", 270: "pselect6", 271: "ppoll",
    281: "epoll_pwait", 288: "accept4", 426: "io_uring_enter", 441: "epoll_pwait2", 449: "futex_waitv",
}  # fmt: skip
_WAITS_ARM = {
    22: "epoll_pwait", 63: "read", 72: "pselect6", 73: "ppoll", 95: "waitid", 98: "futex", 101: "nanosleep",
    115: "clock_nanosleep", 128: "restart_syscall", 133: "rt_sigsuspend", 137: "rt_sigtimedwait",
    183: "mq_timedreceive", 188: "msgrcv", 192: "semtimedop", 193: "semop", 202: "accept", 203: "connect",
    207: "recvfrom", 212: "recvmsg", 242: "accept4", 260: "wait4", 426: "io_uring_enter",
    441: "epoll_pwait2", 449: "futex_waitv",
}  # fmt: skip
_WAITS = {"x86_64": _WAITS_X86, "aarch64": _WAITS_ARM}.get(os.uname().machine, {})
_READS = ("read", "recvfrom", "recvmsg")
_OTHER = "other"
_TIMER_ABSTIME = 1


def sleeps_for(pid: int) -> float:
    """Return the most seconds until a process's sleep ends; 0 if it does not sleep.

    A wait for an event, even with a timeout, is no sleep.
    """
    name, arguments = _call(pid)
    try:
        if name == "clock_nanosleep":
            seconds = _time_at(pid, arguments[2])
            now = time.clock_gettime(arguments[0]) if arguments[1] & _TIMER_ABSTIME else 0.0
            return max(0.0, seconds - now)
        if name == "nanosleep":
            return _time_at(pid, arguments[0])
        if name in ("select", "pselect6") and arguments[0] == 0 and arguments[4]:
            return _time_at(pid, arguments[4])
    except (OSError, ValueError, struct.error, IndexError):
        pass
    return 0.0


def waits_outside(pid: int) -> bool:
    """Return whether a process is in a system call that does not wait for a process of the job.

    Examples are reading a file or a socket, and waiting for a file lock.
    """
    name, arguments = _call(pid)
    if name not in _READS:
        return name == _OTHER
    try:
        return os.readlink(f"/proc/{pid}/fd/{arguments[0]}").startswith(("/", "socket:"))
    except (OSError, IndexError):
        return False


def _call(pid: int) -> tuple[str, list[int]]:
    """Return name and arguments of the current system call; empty if none, or if unknown."""
    try:
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            fields = file.read().split()
        number = int(fields[0])
        if number < 0 or not _WAITS:
            return "", []
        return _WAITS.get(number, _OTHER), [int(field, 16) for field in fields[1:7]]
    except (OSError, ValueError, IndexError):
        return "", []


def _time_at(pid: int, address: int) -> float:
    """Read a struct timespec of a process, in seconds; a timeval is at most as long."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(address)
        seconds, rest = struct.unpack("=qq", file.read(16))
    return float(seconds + rest / 1e9)


_WAYS_OUT = (ast.Break, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await, ast.Assert)
_WAITING_CALLS = ("sleep", "pause")
_LARGEST = 1 << 20  # bytes of a source file


def never_ends(frame: Frame, command: Sequence[str] = ()) -> bool:
    """Return whether a frame is in a `while True` without an exit.

    Any call except waiting may raise, so it counts as an exit.

    Args:
        frame: the innermost frame of a thread.
        command: its process's command line, which may contain the program (`-c`).
    """
    try:
        tree = ast.parse(_source(frame.file, command))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(
        each.lineno <= frame.line <= (getattr(each, "end_lineno", None) or 0) and _has_no_end(each)
        for each in ast.walk(tree)
        if isinstance(each, ast.While)
    )


def _source(file: str, command: Sequence[str]) -> str:
    if file == "<string>" and "-c" in command[:-1]:
        return command[command.index("-c") + 1]
    try:
        with open(open_regular(file), "rb") as source:
            return source.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def _has_no_end(loop: ast.While) -> bool:
    if not (isinstance(loop.test, ast.Constant) and loop.test.value):
        return False
    return not any(
        isinstance(each, _WAYS_OUT)
        or (isinstance(each, ast.Call) and _name(each.func) not in _WAITING_CALLS)
        for statement in loop.body
        for each in ast.walk(statement)
    )


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


LONGEST_SLEEP = 120.0
"""Most remaining seconds of a sleep that counts as progress."""

UNDISTURBED = 2.0
"""Seconds between the two readings of counters."""

# Least share of samples in which a working thread runs. Polling threads of Horovod and Gloo run in one
# of seven.
_LEAST_SHARE = 0.6
# Page faults per second of a process that allocates and fills memory.
_LEAST_FAULTS = 500.0
# Fewest bytes of I/O, and fewest bytes by which a socket's queue changes, that count as progress.
_LEAST_BYTES, _LEAST_QUEUED = 1 << 20, 1 << 14
# Fewest wake-ups of a thread whose collectives complete: waiting for one collective takes none.
_LEAST_WAKE_UPS = 2


def find_place(rank: int, looks: Sequence[Sample], before: Counts, after: Counts) -> Place:
    """Return the place of a rank.

    Args:
        rank: the rank's number in the job.
        looks: its samples, in order.
        before: the rank's counters, `UNDISTURBED` seconds before the first sample.
        after: the rank's counters just before the first sample.
    """
    last = looks[-1]
    if not last.program:
        return Place(rank, ENDED)
    if any(each.stopped for each in last.members):
        return Place(rank, STOPPED)
    dumps = complete([look.dump for look in looks if look.dump])
    if not dumps:
        place, loops = Place(rank, UNKNOWN), False
    else:
        frames, loops = dumps[-1].frames, _loops(dumps, last.program)
        place = place_of(rank, frames)
        # In a loop, the line changes.
        stack = digest([replace(each, line=0) for each in frames] if loops else frames)
        place = replace(place, stack=stack, checked=is_checked(frames, place.call))
    if _moves_data(looks, before, after) or (not loops and _changes(dumps)):
        return replace(place, state=WORKS)
    if place.state == WAITS:
        served = _is_served(place, dumps[-1], before, after)
        return replace(place, state=WORKS) if served else place
    works = not loops and _gets_on(looks, last.program, dumps, before, after)
    return replace(place, state=WORKS) if works else place


def complete(dumps: Sequence[Dump]) -> list[Dump]:
    """Drop dumps that were read while a process was writing them.

    They have no frames, or only the innermost frames of another dump.
    """
    return [
        dump
        for dump in dumps
        if dump.frames and not any(_begins(other, dump) for other in dumps if other is not dump)
    ]


def _begins(longer: Dump, shorter: Dump) -> bool:
    begin = _functions(longer)[: len(shorter.frames)]
    return len(longer.frames) > len(shorter.frames) and begin == _functions(shorter)


def _functions(dump: Dump) -> tuple[tuple[str, str], ...]:
    return tuple((frame.file, frame.function) for frame in dump.frames)


def _moves_data(looks: Sequence[Sample], before: Counts, after: Counts) -> bool:
    if after.moved - before.moved >= _LEAST_BYTES:
        return True
    changes = (
        abs(count - looks[n - 1].queued.get(inode, 0))
        for n in range(1, len(looks))
        for inode, count in looks[n].queued.items()
    )
    return max(changes, default=0) >= _LEAST_QUEUED


def _changes(dumps: Sequence[Dump]) -> bool:
    """Return whether a rank's stack changes between samples."""
    return len({dump.frames for dump in dumps}) > 1


def _loops(dumps: Sequence[Dump], program: Process) -> bool:
    """Return whether a rank is in an endless loop."""
    command = command_line(program.pid)
    return len({_functions(dump) for dump in dumps}) == 1 and all(
        never_ends(frame, command) for frame in {dump.frames[0] for dump in dumps}
    )


def _is_served(place: Place, dump: Dump, before: Counts, after: Counts) -> bool:
    """Return whether a rank's collectives complete, one after another at the same place.

    PyTorch's ranks, with Horovod as well, sleep during a collective and wake up for the next. Ranks that
    wait for others to appear poll instead.
    """
    sleeps = is_of_torch(dump.frames) and not is_meeting(place.call)
    return sleeps and after.wake_ups - before.wake_ups >= _LEAST_WAKE_UPS


def _gets_on(
    looks: Sequence[Sample], program: Process, dumps: Sequence[Dump], before: Counts, after: Counts
) -> bool:
    """Return whether a rank outside collectives computes, does I/O, or sleeps for a limited time."""
    members = looks[-1].members
    shares = sum(look.others for look in looks), sum(look.first for look in looks)
    if max(shares) >= _LEAST_SHARE * len(looks):
        return True
    if any(look.on_disk for look in looks) or _grew(before.calls, after.calls):
        return True
    if after.page_faults - before.page_faults > _LEAST_FAULTS * UNDISTURBED:
        return True
    # A child has started or ended, as in a script of several programs.
    others = before.calls.keys() != after.calls.keys() or len(members) < len(looks[0].members)
    if others or _grew(before.children, after.children):
        return True
    if any(0 < sleeps_for(each.pid) <= LONGEST_SLEEP for each in members):
        return True
    # Queues of threads and workers are polled every few seconds: their producers must make progress.
    own = bool(dumps) and waits_for_own(dumps[-1].frames)
    return not own and (waits_outside(program.pid) or after.wake_ups > before.wake_ups)


def _grew(before: Mapping[int, int], after: Mapping[int, int]) -> bool:
    return any(count > before.get(pid, count) for pid, count in after.items())
