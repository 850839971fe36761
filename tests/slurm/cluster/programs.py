"""Starting this package's own modules as programs, whatever the environment says about Python."""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parents[1])
_START = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module(sys.argv[1], run_name='__main__', alter_sys=True)"
)


def python_module(name: str, *arguments: str) -> list[str]:
    """The command that runs module `name` of this package with the interpreter alone."""
    return [sys.executable, "-ISc", _START, _PACKAGE, name, *arguments]


def runs_module(command: tuple[str, ...], module: Sequence[str]) -> bool:
    """Whether a process' command line is such a command, for this module with these arguments."""
    return command[3:4] == (_PACKAGE,) and command[4:] == tuple(module)


def module_arguments() -> list[str]:
    """What follows the module's name in such a command."""
    return sys.argv[2:]


def as_child(action: Callable[[], None]) -> int:
    """Fork; the child does `action` and ends. Returns the child's process id."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    return pid
