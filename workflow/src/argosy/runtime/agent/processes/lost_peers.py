"""What libraries say last when another rank has gone: the rank that says so is not at fault."""

from __future__ import annotations

import os
import re

from ...contract.files import open_regular

_TAIL_BYTES, _TAIL_LINES = 16384, 25
_UNREACHABLE = re.compile(
    r"connect(?:ion)? (?:to )?\[?([0-9a-fA-F.:]+?)\]?(?::\d+)?: "
    r"(Connection timed out|No route to host|Network is unreachable|Connection refused)"
)
_LOST = re.compile(
    r"HorovodInternalError|Horovod has been shut down"  # Horovod
    r"|Connection (?:closed|reset) by peer|Connection aborted|Socket closed|Broken pipe"  # Gloo, TCP
    r"|ncclRemoteError|remote process exited|NCCL communicator was aborted|DistNetworkError"  # NCCL
    r"|failed to recv, got 0 bytes|Did the remote server shutdown or crash"
    r"|Timed out waiting .{0,40}(?:operation|recv|send)|monitoredBarrier"
    r"|another task (?:died|has)|coordination service agent|Collective ops is aborted"  # JAX, TensorFlow
)


def last_lines(log: str) -> str:
    """Return the end of a rank's output; "" where it cannot be read."""
    try:
        with open(open_regular(log), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-_TAIL_LINES:])


def unreachable(text: str) -> str:
    """Return which address a rank could not connect to, and why; "" where it does not say so."""
    found = list(_UNREACHABLE.finditer(text))
    return f"it cannot reach {found[-1][1]}: {found[-1][2]}" if found else ""


def has_lost_another(text: str) -> bool:
    """Return whether a rank says that another one has gone."""
    return bool(_LOST.search(text) or _UNREACHABLE.search(text))
