"""Which privileges over the cluster's namespaces a program keeps when it starts.

A process that makes or enters a user namespace has all capabilities in it. Unless its user id is 0, it
loses them at its next execve: right for users' commands, wrong for `ip`. Ambient ones stay.
"""

import contextlib
import ctypes

from cluster.linux import call

_VERSION = 0x20080522
_AMBIENT = 47
_AMBIENT_RAISE = 2
_AMBIENT_CLEAR = 4


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Word(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def keep() -> None:
    """Give all capabilities of this process to the programs that it starts."""
    words = _get()
    for word in words:
        word.inheritable = word.permitted
    _set(words)
    for number in range(64):
        if words[number // 32].permitted >> (number % 32) & 1:
            # The kernel knows fewer than 64.
            with contextlib.suppress(OSError):
                call("prctl", _AMBIENT, _AMBIENT_RAISE, number, 0, 0)


def drop() -> None:
    """Give none to the programs that it starts (programs of user 0 have them nevertheless)."""
    call("prctl", _AMBIENT, _AMBIENT_CLEAR, 0, 0, 0)
    words = _get()
    for word in words:
        word.inheritable = 0
    _set(words)


def _get() -> "ctypes.Array[_Word]":
    words = (_Word * 2)()
    call("capget", ctypes.byref(_Header(_VERSION, 0)), words)
    return words


def _set(words: "ctypes.Array[_Word]") -> None:
    call("capset", ctypes.byref(_Header(_VERSION, 0)), words)
