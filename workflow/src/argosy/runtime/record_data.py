"""Describe an attempt's data: ``python3 record_data.py RUN_DIR ATTEMPT [TARGET MODE PATH]...``.

TARGET is a path in the container, MODE is `r`, `w` or `s`, PATH is a path of the host. Writes the
attempt's data.json on the job's first node before the ranks start. Counts up to `MOST_FILES` files of
each folder, for `LONGEST` seconds. Data with a digest is read completely, and copied data (`s`) counted
completely, since nodes compare their copies. Missing data is skipped: check-data.sh refuses it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time
from dataclasses import dataclass
from typing import Any, Iterator, Sequence

if not __package__:  # started by its path
    import started_by_path

    __package__ = started_by_path.PACKAGE

from . import printing
from .contract import layout
from .contract.attempt import Attempt

MOST_FILES = 100_000
LONGEST = 60.0
"""Most seconds of counting."""
_CHUNK = 1 << 20


def main(arguments: Sequence[str]) -> int:
    """Write data.json; return 2 if that fails."""
    if len(arguments) < 2 or len(arguments) % 3 != 2:
        printing.complain("usage: record_data.py RUN_DIR ATTEMPT [TARGET MODE PATH]...")
        return 2
    run_dir, name, *data_of_job = arguments
    try:
        attempt = Attempt(run_dir, name)
        run = attempt.run()
        asked, data = run.data or {}, {}
        for place in range(0, len(data_of_job), 3):
            target, mode, path = data_of_job[place : place + 3]
            if os.path.exists(path):
                digest = target in asked and asked[target].digest
                places = None if run.is_native else Places(target, data_of_job[::3])
                data[target] = describe(path, digest, is_copied=mode == "s", places=places)
        attempt.write(layout.DATA, {"data": data})
    except (OSError, ValueError) as error:
        printing.complain(f"argosy: the data of this run cannot be recorded: {error}")
        return 2
    return 0


@dataclass(frozen=True)
class Places:
    """The path of some data in a container, and the paths of all data of the job."""

    own: str
    shown: Sequence[str]

    def lack(self, link: str, leads: str, top: str) -> bool:
        """Return whether a link in the data `top` leads out of the data that the container has."""
        folder = os.path.relpath(os.path.dirname(link), top)
        leads = os.path.normpath(os.path.join(self.own, folder, leads))
        return not any(f"{leads}/".startswith(f"{place}/") for place in self.shown)


def describe(
    path: str, digest: bool = False, is_copied: bool = False, places: Places | None = None
) -> dict[str, Any]:
    """Return the real path, and number, bytes, newest mtime and digest of its files.

    Copied data also has the newest ctime, which reveals changes with a reset mtime. For a container
    (`places`), links that lead out are reported in the job's log.
    """
    top = os.path.realpath(path)
    began = said = time.monotonic()
    count = size = 0
    newest, changed, is_whole = 0.0, 0.0, True
    found, out = [], []
    for file, is_link in files_in(top):
        now = time.monotonic()
        if not (digest or is_copied) and (count == MOST_FILES or now - began > LONGEST):
            is_whole = False
            printing.complain(
                f"data: {path}: only {count:,} files were counted, in {now - began:.0f} s: changes of "
                "the rest stay undetected; pack its files into fewer ones"
            )
            break
        if now - said > LONGEST:
            said = now
            printing.complain(f"data: {path}: {count:,} files counted in {now - began:.0f} s")
        try:
            if is_link and places and places.lack(file, leads := os.readlink(file), top):
                out.append(f"{file} to {leads}")
            status = os.stat(file)
        except OSError:  # a link to nowhere, or a file that has gone
            continue
        if stat.S_ISDIR(status.st_mode):
            continue
        count += 1
        size += status.st_size
        newest = max(newest, status.st_mtime)
        changed = max(changed, status.st_ctime)
        if digest and stat.S_ISREG(status.st_mode):
            found.append(file)
    if out:
        printing.complain(
            f"data: {path}: {len(out):,} links lead out of it, such as {out[0]}: "
            "containers lack the target, unless the image has it; name the target in `data` as well"
        )
    return {
        "path": top,
        "files": count,
        "bytes": size,
        "newest_unix": newest,
        "is_whole": is_whole,
        "sha256": digest_of(top, found) if digest else None,
        **({"changed_unix": changed} if is_copied else {}),
    }


def files_in(top: str) -> Iterator[tuple[str, bool]]:
    """Yield all entries below a path except folders, and whether each is a link (also to a folder)."""
    if not os.path.isdir(top):
        yield top, False
        return
    folders = [top]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        yield entry.path, entry.is_symlink()
        except OSError:  # unreadable, or gone
            continue


def digest_of(top: str, found: Sequence[str]) -> str | None:
    """Return the SHA-256 of the list of all files' SHA-256 and names; None if one is unreadable."""
    printing.say(f"reading {top} for its digest")
    lines = []
    for file in sorted(found):
        own = hashlib.sha256()
        try:
            with open(file, "rb") as content:
                for part in iter(lambda: content.read(_CHUNK), b""):
                    own.update(part)
                # Drop the files from the page cache, so that the digest does not change the measurement.
                os.posix_fadvise(content.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError as error:
            printing.complain(f"no digest of {top}: {file}: {error.strerror}")
            return None
        lines.append(f"{own.hexdigest()}  {os.path.relpath(file, top)}\n")
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
