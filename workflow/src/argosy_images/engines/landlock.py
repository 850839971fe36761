"""Landlock, by which Linux lets a process give up access to files, for itself and all that it starts.

Needs no privilege and no namespaces; in Linux since 5.13, where the site has not left it out.
Source: linux/landlock.h and https://docs.kernel.org/userspace-api/landlock.html. Standard library only.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress

# On all of Linux's architectures but Alpha.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
_READ = EXECUTE | READ_FILE | READ_DIR
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE

_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""Version of Landlock to how many of the rights on files it knows, the lowest bits."""

KNOWS_MOVES = 2
"""Before that nothing confined can move a file to another folder."""
KNOWS_TRUNCATE = 3
KNOWS_SIGNALS = 6
_SIGNALS_AND_SOCKETS = 0b11

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the version of Landlock that this kernel offers; 0 where there is none."""
    with suppress(OSError):
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)
    return 0


def restrict(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Let this process, and all that it starts, reach these files and folders alone, for good.

    What is readable may be executed, too. No process outside can be traced or, from version 6 on, sent a
    signal; nor are sockets with abstract names of such processes reached. Modes, owners and times are not
    protected. Paths that are missing count for nothing.

    Raises:
        OSError: when this kernel has no Landlock, or refuses.
    """
    offered = version()
    rights = (1 << max(bits for since, bits in _RIGHTS.items() if since <= max(offered, 1))) - 1
    scoped = _SIGNALS_AND_SOCKETS if offered >= KNOWS_SIGNALS else 0
    # handled_access_fs, handled_access_net, scoped: earlier kernels know the first alone.
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
    """Let no program that this process starts have more rights, by setuid say."""
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
