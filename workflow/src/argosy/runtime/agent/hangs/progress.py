"""Where a rank is, by its stacks and system calls over some seconds, and whether it makes progress."""

from __future__ import annotations

import ast
import os
import struct
import time
from dataclasses import replace
from typing import Mapping, Sequence

from ...contract.files import open_regular
from .observation import Counts, Moment
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

# The calls in which a process waits for another, or for the time, by their numbers.
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
    """Return the seconds until a process's sleep ends by itself, at most; 0 where it does not sleep.

    A wait for something that may never come, with a time limit or without, is no sleep.
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
    """Return whether a process is in a call of the kernel's that no process of the job has to end.

    It reads a file or from the network, or waits for a file's lock, as far as the kernel says.
    """
    name, arguments = _call(pid)
    if name not in _READS:
        return name == _OTHER
    try:
        return os.readlink(f"/proc/{pid}/fd/{arguments[0]}").startswith(("/", "socket:"))
    except (OSError, IndexError):
        return False


def _call(pid: int) -> tuple[str, list[int]]:
    """Return the name and arguments of the call; "" where the process runs, or the kernel does not say."""
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
    """Return a struct timespec of a process in seconds; of a timeval, at most as much."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(address)
        seconds, rest = struct.unpack("=qq", file.read(16))
    return float(seconds + rest / 1e9)


_WAYS_OUT = (ast.Break, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await, ast.Assert)
_WAITING_CALLS = ("sleep", "pause")
_LARGEST = 1 << 20  # bytes of a source file


def never_ends(frame: Frame, command: Sequence[str] = ()) -> bool:
    """Return whether a frame is in a `while True` without a way out.

    Whatever it calls may raise, so that only waiting is no way out.

    Args:
        frame: the innermost one of a thread.
        command: of its process; the program itself may be one of the words.
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
"""A rank that sleeps for so many seconds more, at most, is taken to go on by itself."""

UNDISTURBED = 2.0
"""Seconds between two counts."""

# Share of looks at which a thread that works is found at it. Those of Horovod and Gloo, which poll while
# all ranks wait, are at one of seven.
_LEAST_SHARE = 0.6
# Page faults in a second: of memory that somebody takes and fills.
_LEAST_FAULTS = 500.0
# Bytes: of files and disks in a look; and of a socket's queues, which change while it carries data.
_LEAST_BYTES, _LEAST_QUEUED = 1 << 20, 1 << 14
# Of a thread that waits for one collective there are none; each that comes to an end has one or more.
_LEAST_WAKE_UPS = 2


def find_place(rank: int, looks: Sequence[Moment], before: Counts, after: Counts) -> Place:
    """Return where a rank is.

    Args:
        rank: among all ranks of the job.
        looks: at all ranks of the node, in order.
        before: its counts, `UNDISTURBED` seconds before the first look.
        after: its counts just before the first look.
    """
    last = looks[-1]
    members = last.families[rank]
    if not members:
        return Place(rank, ENDED)
    if any(each.stopped for each in members):
        return Place(rank, STOPPED)
    dumps = complete([look.dumps[rank] for look in looks if rank in look.dumps])
    if not dumps:
        place, loops = Place(rank, UNKNOWN), False
    else:
        frames, loops = dumps[-1].frames, _loops(dumps, last.programs[rank])
        place = place_of(rank, frames)
        # A loop goes from line to line.
        stack = digest([replace(each, line=0) for each in frames] if loops else frames)
        place = replace(place, stack=stack, checked=is_checked(frames, place.call))
    if _moves_data(rank, looks, before, after) or (not loops and _changes(dumps)):
        return replace(place, state=WORKS)
    if place.state == WAITS:
        served = _is_served(place, dumps[-1], before, after)
        return replace(place, state=WORKS) if served else place
    works = not loops and _gets_on(rank, looks, dumps, before, after)
    return replace(place, state=WORKS) if works else place


def complete(dumps: Sequence[Dump]) -> list[Dump]:
    """Leave out those that were read while a process that seldom runs still wrote them.

    They have no frames yet, or only the innermost ones of another.
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


def _moves_data(rank: int, looks: Sequence[Moment], before: Counts, after: Counts) -> bool:
    if after.moved - before.moved >= _LEAST_BYTES:
        return True
    changes = (
        abs(count - looks[n - 1].queued[rank].get(inode, 0))
        for n in range(1, len(looks))
        for inode, count in looks[n].queued[rank].items()
    )
    return max(changes, default=0) >= _LEAST_QUEUED


def _changes(dumps: Sequence[Dump]) -> bool:
    """Return whether a rank is at one place now and at another then."""
    return len({dump.frames for dump in dumps}) > 1


def _loops(dumps: Sequence[Dump], program: Process) -> bool:
    """Return whether a rank is in a loop without an end."""
    command = command_line(program.pid)
    return len({_functions(dump) for dump in dumps}) == 1 and all(
        never_ends(frame, command) for frame in {dump.frames[0] for dump in dumps}
    )


def _is_served(place: Place, dump: Dump, before: Counts, after: Counts) -> bool:
    """Return whether a rank's collectives come to an end, one after another at the same place.

    Ranks of PyTorch, and of Horovod for it, sleep while they wait for one, and wake up for the next. Those
    who wait for others to appear ask again and again.
    """
    sleeps = is_of_torch(dump.frames) and not is_meeting(place.call)
    return sleeps and after.wake_ups - before.wake_ups >= _LEAST_WAKE_UPS


def _gets_on(
    rank: int, looks: Sequence[Moment], dumps: Sequence[Dump], before: Counts, after: Counts
) -> bool:
    """Return whether a rank that is in no collective computes, reads, writes, or will wake up by itself."""
    program, members = looks[-1].programs[rank], looks[-1].families[rank]
    if any(sum(shares) >= _LEAST_SHARE * len(looks) for shares in _shares(rank, looks)):
        return True
    if any(look.on_disk[rank] for look in looks) or _grew(before.calls, after.calls):
        return True
    if after.page_faults - before.page_faults > _LEAST_FAULTS * UNDISTURBED:
        return True
    # A program that it started has ended or begun, as in a script of several.
    others = before.calls.keys() != after.calls.keys() or len(members) < len(
        looks[0].families[rank]
    )
    if others or _grew(before.children, after.children):
        return True
    if any(0 < sleeps_for(each.pid) <= LONGEST_SLEEP for each in members):
        return True
    # Queues of threads and workers are asked every few seconds: those who fill them have to get on.
    own = bool(dumps) and waits_for_own(dumps[-1].frames)
    return not own and (waits_outside(program.pid) or after.wake_ups > before.wake_ups)


def _shares(rank: int, looks: Sequence[Moment]) -> Sequence[Sequence[bool]]:
    return [look.others[rank] for look in looks], [look.first.get(rank, False) for look in looks]


def _grew(before: Mapping[int, int], after: Mapping[int, int]) -> bool:
    return any(count > before.get(pid, count) for pid, count in after.items())
