"""Commands on a machine without any network but its loopback."""

import os
from pathlib import Path

_SCRIPT = 'ip link set lo up && exec unshare --user --map-user="$1" --map-group="$2" "${@:3}"'


def without_network(*command: str | Path) -> list[str | Path]:
    """The command in a namespace of its own, as the same user."""
    inside = ["bash", "-c", _SCRIPT, "bash", str(os.getuid()), str(os.getgid()), *command]
    return ["unshare", "--user", "--map-root-user", "--net", *inside]
