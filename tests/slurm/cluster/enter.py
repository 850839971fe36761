"""Program: runs a command in the namespaces of a running process.

`enter.py KIND PID READY COMMAND…`. The open file READY is closed when the command has started. KIND is
* `login`: the command replaces this program. No process stands between, so whatever is sent to this one's
  process id, SIGKILL too, is sent to the command. The command keeps the host's process ids.
* `inside`: the command also gets the process ids of PID. Since only a child can, this program waits for it;
  the child is killed when this program ends.
* `daemon`: as `inside`, with privileges over the namespaces, and free to live on.
"""

import os
import sys
from collections.abc import Sequence

from cluster import capabilities, linux
from cluster.namespaces import enter
from cluster.programs import as_child, module_arguments


def main(arguments: Sequence[str]) -> int:
    """Run the command; its exit status."""
    kind, pid, ready, *command = arguments
    os.set_inheritable(int(ready), False)
    enter(int(pid), processes=kind != "login")
    if kind == "login":
        _replace(command)
    if kind == "daemon":
        capabilities.keep()
    child = as_child(lambda: _be_child(kind, command))
    os.close(int(ready))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _be_child(kind: str, command: list[str]) -> None:
    if kind != "daemon":
        linux.die_with_parent()
    _replace(command)


def _replace(command: list[str]) -> None:
    try:
        os.execvp(command[0], command)
    except OSError as problem:
        print(f"{command[0]}: {problem.strerror}", file=sys.stderr)
        os._exit(127)


if __name__ == "__main__":
    sys.exit(main(module_arguments()))
