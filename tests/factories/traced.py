"""Runs a command as a debugger does: it and all that it starts are traced, and so cannot be by others.

`python traced.py COMMAND…`; the exit status is the command's.
"""

import ctypes
import os
import signal
import sys

TRACEME, CONTINUE, SET_OPTIONS = 0, 7, 0x4200
FORKS_AND_DIES_WITH_US = 0x2 | 0x4 | 0x8 | 0x100000
ALL = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request: int, process: int, data: int = 0) -> None:
    libc.ptrace(request, process, None, ctypes.c_void_p(data))


def main() -> int:
    child = os.fork()
    if child == 0:
        ptrace(TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.execvp(sys.argv[1], sys.argv[1:])
    os.waitpid(child, 0)
    ptrace(SET_OPTIONS, child, FORKS_AND_DIES_WITH_US)
    ptrace(CONTINUE, child)
    while True:
        process, status = os.waitpid(-1, ALL)
        if os.WIFSTOPPED(status):
            # What tells of a new process, and the stop that it begins with, is not for the program.
            number = os.WSTOPSIG(status)
            passed = 0 if number in (signal.SIGTRAP, signal.SIGSTOP) else number
            ptrace(CONTINUE, process, passed)
        elif process == child:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
