"""Answers system calls for programs below proot.

proot 5.1 rewrites the paths of the calls that it knows. `statx` and its like came later: with those, `ls`
would look at the host's files. Answered with ENOSYS, the C library falls back to calls that proot knows.
In builds, what would give files to others or make devices is answered with success, as below runc.
Source: linux/seccomp.h, linux/bpf_common.h and the kernel's tables of system calls. Standard library only.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping, Sequence

from argosy.images.engines import landlock

NAME = "the filter of system calls (seccomp) that proot needs"
"""What an error is said of."""

_AUDIT_NUMBERS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Of linux/audit.h."""

_LATE_CALLS = {
    "x86_64": {
        "execveat": 322,
        "statx": 332,
        "openat2": 437,
        "faccessat2": 439,
        "fchmodat2": 452,
    },
    "aarch64": {
        "execveat": 281,
        "statx": 291,
        "openat2": 437,
        "faccessat2": 439,
        "fchmodat2": 452,
    },
}
"""Younger than proot 5.1. clone3(2) is not among them: of a child that shares its parent's memory until it
starts a program, proot 5.1 believes after clone(2) that it shares the heap for good: the parent crashes."""

_TRUNCATE = {"x86_64": 76, "aarch64": 45}

_ATTRIBUTE_CALLS = {
    "x86_64": {
        "setxattr": 188,
        "lsetxattr": 189,
        "fsetxattr": 190,
        "removexattr": 197,
        "lremovexattr": 198,
        "fremovexattr": 199,
        "setxattrat": 463,
        "removexattrat": 466,
    },
    "aarch64": {
        "setxattr": 5,
        "lsetxattr": 6,
        "fsetxattr": 7,
        "removexattr": 14,
        "lremovexattr": 15,
        "fremovexattr": 16,
        "setxattrat": 463,
        "removexattrat": 466,
    },
}
"""What changes extended attributes, access lists among them. Landlock has no say in that."""

_OWNING_CALLS = {
    "x86_64": {
        "chown": 92,
        "fchown": 93,
        "lchown": 94,
        "fchownat": 260,
        "setuid": 105,
        "setgid": 106,
        "setreuid": 113,
        "setregid": 114,
        "setgroups": 116,
        "setresuid": 117,
        "setresgid": 119,
        "setfsuid": 122,
        "setfsgid": 123,
    },
    "aarch64": {
        "fchownat": 54,
        "fchown": 55,
        "setregid": 143,
        "setgid": 144,
        "setreuid": 145,
        "setuid": 146,
        "setresuid": 147,
        "setresgid": 149,
        "setfsuid": 151,
        "setfsgid": 152,
        "setgroups": 159,
    },
}
"""What gives files to other users, or makes a process another user's."""

_MAKING_NODES = {"x86_64": {133: 1, 259: 2}, "aarch64": {33: 2}}
"""mknod and mknodat to their argument that says of which kind."""

_DEVICE_KINDS, _KIND = (0o020000, 0o060000), 0o170000

_SET_SECCOMP, _FILTER = 22, 2
_LOAD_WORD, _AND, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER_PLACE, _ARCHITECTURE_PLACE, _ARGUMENTS_PLACE = 0, 4, 16


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def filter_calls(*, owns_all: bool = False) -> None:
    """Answer calls of this process and of all that it starts; on other machines, do nothing.

    Args:
        owns_all: whether calls that would give files to others do nothing, with success.

    Raises:
        OSError: when the kernel refuses.
    """
    machine = platform.machine()
    if machine not in _AUDIT_NUMBERS:
        return
    answers = _answers(machine, landlock.version(), owns_all)
    devices = [_no_devices(*call) for call in _MAKING_NODES[machine].items()] if owns_all else []
    code = _program(_AUDIT_NUMBERS[machine], answers, devices)
    instructions = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(instructions))
    landlock.forbid_new_privileges()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), NAME)


def _answers(machine: str, landlock_version: int, owns_all: bool) -> dict[int, int]:
    """Return calls by their numbers to the error that answers each."""
    answers = dict.fromkeys(_LATE_CALLS[machine].values(), errno.ENOSYS)
    if owns_all:
        return {**answers, **dict.fromkeys(_OWNING_CALLS[machine].values(), 0)}
    # As on file systems that have none.
    answers |= dict.fromkeys(_ATTRIBUTE_CALLS[machine].values(), errno.EOPNOTSUPP)
    if 0 < landlock_version < landlock.KNOWS_TRUNCATE:
        # Landlock keeps files from being opened to be changed; truncate(2) needs no opening.
        answers[_TRUNCATE[machine]] = errno.EACCES
    return answers


def _program(architecture: int, answers: Mapping[int, int], more: Sequence[bytes]) -> bytes:
    """Return the filter in the kernel's form: calls by their numbers to the error that answers each."""
    # Programs of another architecture, such as 32 bits, have other numbers.
    steps = [
        _step(_LOAD_WORD, _ARCHITECTURE_PLACE),
        _step(_JUMP_IF_EQUAL, architecture, yes=1),
        _step(_RETURN, _ALLOW),
        _step(_LOAD_WORD, _NUMBER_PLACE),
    ]
    for number, error in answers.items():
        steps += [_step(_JUMP_IF_EQUAL, number, no=1), _step(_RETURN, _ERROR | error)]
    return b"".join([*steps, *more, _step(_RETURN, _ALLOW)])


def _no_devices(number: int, argument: int) -> bytes:
    """Return the steps that answer a call with success where it would make a device, and go on else."""
    steps = [
        _step(_JUMP_IF_EQUAL, number, no=6),
        _step(_LOAD_WORD, _ARGUMENTS_PLACE + 8 * argument),
        _step(_AND, _KIND),
        _step(_JUMP_IF_EQUAL, _DEVICE_KINDS[0], yes=1),
        _step(_JUMP_IF_EQUAL, _DEVICE_KINDS[1], no=1),
        _step(_RETURN, _ERROR),
        _step(_RETURN, _ALLOW),
    ]
    # Calls with another number come here with the number still loaded.
    return b"".join(steps)


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)
