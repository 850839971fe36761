"""Landlock: a process drops access to files, for itself and its children, without privileges.

Available since Linux 5.13, unless the site's kernel omits it.
Source: linux/landlock.h and https://docs.kernel.org/userspace-api/landlock.html. Standard library only.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress

# The numbers on all architectures except Alpha.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
_READ = EXECUTE | READ_FILE | READ_DIR
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE

_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""Landlock version to the number of file rights that it supports, from the lowest bit."""

KNOWS_MOVES = 2
"""Earlier versions forbid moves of files between folders."""
KNOWS_TRUNCATE = 3
KNOWS_SIGNALS = 6
_SIGNALS_AND_SOCKETS = 0b11

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the kernel's Landlock version; 0 if it has none."""
    with suppress(OSError):
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)
    return 0


def restrict(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Restrict this process and its children permanently to these files and folders.

    Readable files may also be executed. Processes outside cannot be traced; from version 6 on they can
    neither be signalled nor reached by abstract sockets. Modes, owners and times are not protected.
    Missing paths are ignored.

    Raises:
        OSError: if the kernel lacks Landlock, or refuses.
    """
    offered = version()
    rights = (1 << max(bits for since, bits in _RIGHTS.items() if since <= max(offered, 1))) - 1
    scoped = _SIGNALS_AND_SOCKETS if offered >= KNOWS_SIGNALS else 0
    # handled_access_fs, handled_access_net, scoped; earlier kernels accept only the first.
    attributes = struct.pack("=QQQ", rights, 0, scoped)[: 24 if scoped else 8]
    rules = _call(
        _CREATE_RULESET,
        ctypes.create_string_buffer(attributes, len(attributes)),
        ctypes.c_size_t(len(attributes)),
        0,
    )
    try:
        for paths, allowed in ((readable, _READ), (writable, rights)):
            for path in paths:
                _allow(rules, path, allowed)
        forbid_new_privileges()
        _call(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def forbid_new_privileges() -> None:
    """Forbid programs of this process to gain privileges, for example by setuid."""
    if _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, place)
        _call(_ADD_RULE, rules, _PATH_BENEATH, ctypes.create_string_buffer(rule, len(rule)), 0)
    finally:
        os.close(place)


def _call(number: int, *arguments: object) -> int:
    result: int = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "landlock")
    return result
