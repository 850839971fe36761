"""What nodes are asked when they look at themselves."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SUFFIXES = ("i", "-ib", "ib", "-ib0", "-hsn", "-hsn0", "-opa", "-eth")
"""Of nodes' names on their fast network, as sites have them."""

SCRATCH = ("/tmp", "/var/tmp", "/scratch", "/lscratch", "/localscratch", "/local", "/dev/shm")


@dataclass(frozen=True)
class Questions:
    """What nodes are asked besides what every look finds.

    Args:
        folders: those that nodes may lack.
        scratch: folders for temporary files, which may hold variables.
        suffixes: of a node's name on other networks.
        outside: hosts and ports.
        paths: folders that nodes need, and whether they have to write there.
        commands: programs to run on a node, by name.
    """

    folders: Sequence[str] = ()
    scratch: Sequence[str] = ()
    suffixes: Sequence[str] = ()
    outside: Sequence[tuple[str, int]] = ()
    paths: Mapping[str, bool] = field(default_factory=dict)
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)


def of_any_cluster() -> Questions:
    """Return what is worth asking where nothing is known."""
    return Questions(
        folders=_folders_here(), scratch=SCRATCH, suffixes=SUFFIXES, outside=_outside()
    )


def _outside() -> list[tuple[str, int]]:
    """Return host and port of the index of packages that pip is set to, if it is set to one."""
    try:
        said = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"],
            capture_output=True,
            text=True,
            timeout=20,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = re.search(r"index[-_]url='(https?)://(?:[^@/']*@)?([\w.-]+)(?::(\d+))?", said)
    if not found:
        return []
    return [(found[2], int(found[3] or (443 if found[1] == "https" else 80)))]


def _folders_here() -> list[str]:
    """Return folders of this machine that nodes may lack: home, and what the user's variables name."""
    named = (os.environ.get(name, "") for name in ("HOME", "WORK", "SCRATCH", "PROJECT"))
    return sorted({each for each in named if each.startswith("/") and Path(each).is_dir()})
