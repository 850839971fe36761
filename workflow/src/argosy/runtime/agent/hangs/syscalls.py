"""What a sleeping process waits for, by the system call that it is in (/proc/<pid>/syscall, proc(5))."""

from __future__ import annotations

import os
import struct
import time

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
