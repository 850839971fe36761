"""What a hostile program may put where a file of its run is expected."""

import json
import os
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

SECRET = "the-word-that-nobody-may-see"
"""What the file `secret` of `Outside` holds: as text, as JSON and as a line of records."""
ENDLESS = 1 << 40

NAMES_THAT_ARE_READ = (
    *("rank-0.log", "node-0.log", "job.log", "rank-0.jsonl", "rank-0.steps"),
    *("verdict.json", "claim.json", "node-0.json", "result.json", "run.json"),
)
KEYS_THAT_ARE_READ = (
    *("nodes", "ranks_per_node", "attempt", "state", "failure", "jobs", "unix", "hosts"),
)


class Outside:
    """A folder beside the results, with what is the reader's alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "below").mkdir(parents=True)
        self.secret = folder / "secret"
        self.secret.write_text(f'{{"schema_version": 2, "kind": "step", "name": "{SECRET}"}}\n')
        (folder / "below" / f"{SECRET}.json").write_text("{}")
        for name in NAMES_THAT_ARE_READ:
            (folder / name).write_text(self.secret.read_text())

    def kinds(self) -> Mapping[str, Callable[[Path], None]]:
        """Ways to put something in the place of a path, by name."""
        return {
            "pipe": os.mkfifo,
            "link to a secret": lambda path: path.symlink_to(self.secret),
            "link to a device": lambda path: path.symlink_to("/dev/zero"),
            "link to a folder": lambda path: path.symlink_to(self.folder),
            "dangling link": lambda path: path.symlink_to(self.folder / "nothing"),
            "folder": Path.mkdir,
            "socket": _socket,
            "endless file": _endless,
            "control characters": lambda path: path.write_bytes(
                b"\x1b]0;owned\x07\xe2\x80\xae" * 9
            ),
            "deep JSON": lambda path: path.write_text("[" * 100_000),
            "wrong types": _wrong_types,
            "wide JSON": lambda path: path.write_text('{"nodes": 1e9, "x": ' + "9" * 4000 + "}"),
        }


def plant(path: Path, put: Callable[[Path], None]) -> None:
    """Put something in the place of `path`, file or folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    put(path)


def _socket(path: Path) -> None:
    # The name of a socket has no room for a long path.
    here = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)


def _wrong_types(path: Path) -> None:
    path.write_text(json.dumps({"schema_version": 2, **dict.fromkeys(KEYS_THAT_ARE_READ, 10**300)}))


def _endless(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(ENDLESS)
