"""Notes of projects and runs that need the images of a store; `prune` keeps those images.

<store>/projects/<id>.json   a project with planned runs; its image.locks name the needed images
<store>/uses/<id>.json       a run whose job waits or runs, or a container that a user started

A use is noted before the image is opened, and removed when it ends. A killed process removes nothing, so
each note expires. Notes are written atomically, without locks, which some file systems lack.
"""

import hashlib
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from argosy_common.files import write_json

JOB_S = 30 * 86400
"""Seconds until the note of a job expires: the longest time that it may wait and run."""
CONTAINER_S = 7 * 86400
"""Seconds until the note of a container expires."""


@dataclass(frozen=True)
class Use:
    """A note that `user`, such as a run's folder, needs an image from `since` to `until` (Unix times)."""

    digest: str
    user: str
    host: str
    since: float
    until: float


@dataclass(frozen=True)
class Uses:
    """The notes in the store in the folder `store`.

    In a read-only store, notes are skipped: only the store's owner can prune it.
    """

    store: Path

    def note(self, digest: str, user: str, seconds: float = JOB_S) -> bool:
        """Note that `user` needs the image for the next `seconds`; return whether the note is new."""
        path = self._path(digest, user)
        is_new = not path.exists()
        now = time.time()
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_json(path, asdict(Use(digest, user, socket.gethostname(), now, now + seconds)))
        return is_new

    def end(self, digest: str, user: str) -> None:
        """Remove a note."""
        with suppress(OSError):
            self._path(digest, user).unlink()

    @contextmanager
    def during(self, digest: str, user: str) -> Iterator[None]:
        """Note a container's use of an image until the container ends, unless its job has a note."""
        is_new = self.note(digest, user, CONTAINER_S)
        try:
            yield
        finally:
            if is_new:
                self.end(digest, user)

    def current(self) -> dict[Path, Use]:
        """Return the unexpired notes by their paths."""
        found = ((path, _use(content)) for path, content in _contents(self.store / "uses"))
        now = time.time()
        return {path: use for path, use in found if use and use.since - JOB_S < now < use.until}

    def note_project(self, project: Path) -> None:
        """Note that a project uses the store."""
        path = self.store / "projects" / f"{_id(str(project.absolute()))}.json"
        if not path.exists():
            with suppress(OSError):
                path.parent.mkdir(mode=0o700, exist_ok=True)
                write_json(path, {"project": str(project.absolute()), "host": socket.gethostname()})

    def projects(self) -> dict[Path, str]:
        """Return the projects that use the store, with the hosts where they were planned."""
        found = {}
        for _, content in _contents(self.store / "projects"):
            project, host = content.get("project"), content.get("host")
            if isinstance(project, str) and isinstance(host, str):
                found[Path(project)] = host
        return found

    def clear(self) -> None:
        """Remove expired notes, and notes of this host's deleted projects."""
        counting = self.current()
        for path, content in [*_contents(self.store / "uses")]:
            if path not in counting and _use(content):
                path.unlink(missing_ok=True)
        for path, content in [*_contents(self.store / "projects")]:
            project = content.get("project")
            is_of_here = content.get("host") == socket.gethostname()
            if is_of_here and isinstance(project, str) and not Path(project).is_dir():
                path.unlink(missing_ok=True)

    def _path(self, digest: str, user: str) -> Path:
        return self.store / "uses" / f"{_id(digest, user)}.json"


def _id(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode(errors="surrogateescape")).hexdigest()[:20]


def _contents(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield path and content of each valid note in a folder."""
    for path in sorted(folder.glob("[0-9a-f]*.json")):
        with suppress(OSError, ValueError):
            content = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(content, dict):
                yield path, content


def _use(content: dict[str, Any]) -> Use | None:
    try:
        digest, user, host = (str(content[name]) for name in ("digest", "user", "host"))
        return Use(digest, user, host, float(content["since"]), float(content["until"]))
    except (KeyError, TypeError, ValueError):
        return None
