"""Runs a command where the kernel takes no filter of system calls, as below a strict container.

`python refused_filters.py COMMAND…`, on x86-64: prctl(PR_SET_SECCOMP) and seccomp(2) get EPERM.
"""

import ctypes
import errno
import os
import struct
import sys

PRCTL, SECCOMP = 157, 317
SET_NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, FIRST_ARGUMENT = 0, 16

INSTRUCTIONS = [
    (LOAD, 0, 0, NUMBER),
    (EQUAL, 4, 0, SECCOMP),
    (EQUAL, 0, 2, PRCTL),
    (LOAD, 0, 0, FIRST_ARGUMENT),
    (EQUAL, 1, 0, SET_SECCOMP),
    (RETURN, 0, 0, ALLOW),
    (RETURN, 0, 0, REFUSE),
]


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def main() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    code = b"".join(struct.pack("HBBI", *one) for one in INSTRUCTIONS)
    program = Program(len(INSTRUCTIONS), code)
    assert libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    assert libc.prctl(SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0) == 0
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
