"""A seccomp filter of system calls for programs under proot.

proot rewrites the paths of the calls that it knows; any other call would reach the host's files. So the
filter passes two kinds: calls that proot 5.1 knows, and newer calls without a path. It answers the others
with ENOSYS, as an older kernel does, and the C library falls back. Calls of another architecture
(`int 0x80`, x32) get ENOSYS too, since proot misreads their numbers.

Landlock limits opening, creating and removing files. The filter limits the rest: modes, owners, times,
attributes, and processes. Calls that it cannot decide go to `judge`. In builds, calls that change owners or
make devices do nothing and report success, as with runc.
Source: linux/seccomp.h, linux/bpf_common.h. Standard library only.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterator, Sequence

from argosy_images.engines import landlock
from argosy_images.engines.call_numbers import ABSENT, CALLS, Calls

NAME = "the filter of system calls (seccomp) that proot needs"
"""Name of the filter in errors."""


_TERMINAL_AND_FLAGS = (0x5412, 0x541C, 0x40086602, 0x401C5820)
"""TIOCSTI and TIOCLINUX type into the user's terminal; FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR set flags."""
_SIGNALLED_BY_IOCTL, _SIGNALLED_BY_FCNTL = (0x8901, 0x8902), (8, 15)
"""FIOSETOWN, SIOCSPGRP; F_SETOWN, F_SETOWN_EX: select a process that gets a signal on input."""

_A_PROCESS = {"setpriority": 0, "ioprio_set": 1}
"""PRIO_PROCESS, IOPRIO_WHO_PROCESS. Other values select process groups or all processes of a user."""

_DEVICE_KINDS, _FOLDER, _KIND = (0o020000, 0o060000), 0o040000, 0o170000

_SET_SECCOMP, _FILTER = 22, 2
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_LOAD_WORD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_IF_EQUAL, _JUMP_IF_GREATER = 0x15, 0x25
_ALLOW, _JUDGED, _ERROR = 0x7FFF0000, 0x7FC00000, 0x00050000
_NUMBER_PLACE, _ARCHITECTURE_PLACE, _ARGUMENTS_PLACE = 0, 4, 16


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def filter_calls(*, owns_all: bool = False) -> int | None:
    """Install the filter for this process and its children; do nothing on unsupported architectures.

    Args:
        owns_all: for builds: allow extended attributes, and ignore changes of owners with success.

    Returns:
        A descriptor for `judge`; None without Landlock, where judging would protect nothing.

    Raises:
        OSError: if the kernel refuses.
    """
    calls = CALLS.get(platform.machine())
    if calls is None:
        return None
    version = landlock.version()
    code = program(calls, version, owns_all=owns_all)
    instructions = ctypes.create_string_buffer(code, len(code))
    described = _Program(len(code) // 8, ctypes.addressof(instructions))
    landlock.forbid_new_privileges()
    libc = ctypes.CDLL(None, use_errno=True)
    if version:
        done = libc.syscall(
            ctypes.c_long(calls.seccomp), _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(described)
        )
    else:
        done = libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(described), 0, 0)
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), NAME)
    return int(done) if version else None


def program(calls: Calls, landlock_version: int, *, owns_all: bool) -> bytes:
    """Return the filter as BPF instructions."""
    judged = _JUDGED if landlock_version else _ALLOW
    steps = [
        _step(_LOAD_WORD, _ARCHITECTURE_PLACE),
        _step(_JUMP_IF_EQUAL, calls.audit, yes=1),
        _step(_RETURN, _ERROR | errno.ENOSYS),
        _step(_LOAD_WORD, _NUMBER_PLACE),
    ]
    for number, error in _answers(calls, landlock_version, owns_all).items():
        steps += _for_call(number, _step(_RETURN, _ERROR | error))
    if owns_all:
        for number, argument in calls.nodes.items():
            steps += _for_call(number, *_ignore_devices(argument))
    if not owns_all:
        by_name, mode = (calls.fchmodat, 2) if calls.chmod == ABSENT else (calls.chmod, 1)
        steps += _for_call(by_name, *_ignore_folder_modes(mode, judged))
    for number in (*calls.changing, *(calls.attributes if owns_all else ())):
        steps += _for_call(number, _step(_RETURN, judged))
    for number in calls.by_process:
        steps += _for_call(number, *_allow_own_process(judged, 0))
    for name, what in _A_PROCESS.items():
        steps += _for_call(
            getattr(calls, name), *_refuse_others(what), *_allow_own_process(judged, 1)
        )
    if 0 < landlock_version < landlock.KNOWS_SIGNALS:
        for number in calls.signals:
            steps += _for_call(number, _step(_RETURN, _JUDGED))
        steps += _for_call(calls.fcntl, *_refuse_commands(_SIGNALLED_BY_FCNTL))
    steps += _for_call(calls.ioctl, *_refuse_commands((*_TERMINAL_AND_FLAGS, *_SIGNALLED_BY_IOCTL)))
    for number in (*calls.younger, *calls.common):
        steps += _for_call(number, _step(_RETURN, _ALLOW))
    return b"".join(
        [
            *steps,
            _step(_JUMP_IF_GREATER, calls.known, no=1),
            _step(_RETURN, _ERROR | errno.ENOSYS),
            _step(_RETURN, _ALLOW),
        ]
    )


def _answers(calls: Calls, landlock_version: int, owns_all: bool) -> dict[int, int]:
    """Map call numbers to the error that each returns."""
    answers = {**dict.fromkeys(calls.missing, errno.ENOSYS), **dict.fromkeys(calls.giving, 0)}
    if owns_all:
        return {**answers, **dict.fromkeys(calls.becoming, 0)}
    # As on file systems without extended attributes.
    answers |= dict.fromkeys(calls.attributes, errno.EOPNOTSUPP)
    if 0 < landlock_version < landlock.KNOWS_TRUNCATE:
        # This Landlock checks only open(2) for writing; truncate(2) would bypass it.
        answers[calls.truncate] = errno.EACCES
    return answers


def _for_call(number: int, *steps: bytes) -> list[bytes]:
    """Return steps for one call. Other calls skip them, with the number still loaded."""
    return [_step(_JUMP_IF_EQUAL, number, no=len(steps)), *steps]


def _allow_own_process(judged: int, argument: int) -> list[bytes]:
    """Return steps that allow a call for the caller itself (process 0)."""
    return [
        _load(argument),
        _step(_JUMP_IF_EQUAL, 0, no=1),
        _step(_RETURN, _ALLOW),
        _step(_RETURN, judged),
    ]


def _refuse_others(kind: int) -> list[bytes]:
    """Return steps that refuse a call for more than one process."""
    return [_load(0), _step(_JUMP_IF_EQUAL, kind, yes=1), _step(_RETURN, _ERROR | errno.EPERM)]


def _refuse_commands(commands: Sequence[int]) -> Iterator[bytes]:
    """Yield steps that refuse a call with one of these commands."""
    yield _load(1)
    for command in commands:
        yield _step(_JUMP_IF_EQUAL, command, no=1)
        yield _step(_RETURN, _ERROR | errno.EPERM)
    yield _step(_RETURN, _ALLOW)


def _ignore_folder_modes(argument: int, judged: int) -> list[bytes]:
    """Return steps that ignore proot's calls that restore folder modes, and report success.

    Only proot's calls contain the file type. They are half of the calls that `judge` would receive.
    """
    return [
        _load(argument),
        _step(_AND, _KIND),
        _step(_JUMP_IF_EQUAL, _FOLDER, no=1),
        _step(_RETURN, _ERROR),
        _step(_RETURN, judged),
    ]


def _ignore_devices(argument: int) -> list[bytes]:
    """Return steps that ignore a call that would make a device, and report success."""
    return [
        _load(argument),
        _step(_AND, _KIND),
        _step(_JUMP_IF_EQUAL, _DEVICE_KINDS[0], yes=1),
        _step(_JUMP_IF_EQUAL, _DEVICE_KINDS[1], no=1),
        _step(_RETURN, _ERROR),
        _step(_RETURN, _ALLOW),
    ]


def _load(argument: int) -> bytes:
    return _step(_LOAD_WORD, _ARGUMENTS_PLACE + 8 * argument)


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)
