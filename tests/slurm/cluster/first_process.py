"""The first process of a namespace buries orphans. When it dies, the kernel kills all others there."""

import os
import signal
from pathlib import Path
from types import FrameType


def leave_terminal(log: Path, stdin: int | None = None) -> None:
    """Stand apart from whoever started this, with the output in `log`."""
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing if stdin is None else stdin), (1, output), (2, output)):
        if source != target:
            os.dup2(source, target)


def live_on(owned: bool) -> None:
    """Stay until killed, or with `owned` until standard input, which the owner holds open, ends."""
    signal.signal(signal.SIGCHLD, _bury)
    _bury(signal.SIGCHLD, None)
    if owned:
        while os.read(0, 1):
            pass
    else:
        while True:
            signal.pause()


def _bury(_number: int, _frame: FrameType | None) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return
