"""Lists the files of a run once, with a fingerprint that detects changes."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.run_folder.folder import is_attempt
from argosy_common.reading import NotReadError, entries, site_of


@dataclass(frozen=True)
class Listing:
    """Sorted names of a run's files; `attempts`, `records` and `logs` are mappings by attempt.

    `fingerprint` is a digest of names, sizes and times of all files; of logs, only of names. It ignores the
    batch script, which every plan rewrites and no reader uses.
    """

    path: Path
    files: Sequence[str]
    attempts: Mapping[str, Sequence[str]]
    records: Mapping[str, Sequence[str]]
    logs: Mapping[str, Sequence[str]]
    fingerprint: str


_READ = (".json", ".jsonl", ".steps", ".log")
"""Suffixes of the files to read; a folder with such a name is listed too."""
_MOST_ATTEMPTS = 10_000


def list_run(folder: Path) -> Listing:
    """List the files of a run's folder without reading them.

    Raises:
        OSError: if a folder of the run is unreadable, is a link, or has too many entries.
    """
    top = site_of(folder)
    files = dict(_described(folder, top, _state))
    attempts = _by_attempt(folder / "attempts", top, _state)
    records = _by_attempt(folder / "records", top, _state)
    logs = _logs(folder / "logs", top)
    return Listing(
        path=folder,
        files=sorted(files),
        attempts={name: sorted(states) for name, states in sorted(attempts.items())},
        records={name: sorted(states) for name, states in sorted(records.items())},
        logs={name: sorted(states) for name, states in sorted(logs.items())},
        fingerprint=_digest({"": _read(files)}, records, logs, attempts),
    )


def _read(files: Mapping[str, str]) -> Mapping[str, str]:
    return {name: state for name, state in files.items() if name != "job.sbatch"}


_Described = Mapping[str, Mapping[str, str]]
_Describe = Callable[[os.DirEntry[str]], str]


def _by_attempt(folder: Path, top: Path, describe: _Describe) -> _Described:
    names = _attempts(folder, top)
    return {name: dict(_described(folder / name, top, describe)) for name in names}


def _attempts(folder: Path, top: Path) -> list[str]:
    try:
        names = [entry.name for entry in entries(folder, top) if _is_folder(folder, entry)]
    except FileNotFoundError:
        return []
    if len(names) > _MOST_ATTEMPTS:
        raise NotReadError(folder, f"contains more than {_MOST_ATTEMPTS:,} folders")
    return names


def _logs(folder: Path, top: Path) -> _Described:
    """Return logs by attempt; logs of ranks as ranks/rank-<r>.log."""
    return {name: _logs_of(folder / name, top) for name in _attempts(folder, top)}


def _logs_of(folder: Path, top: Path) -> Mapping[str, str]:
    logs = []
    for entry in entries(folder, top):
        if entry.name == "ranks" and entry.is_dir(follow_symlinks=False):
            ranks = _described(folder / "ranks", top, _name)
            logs += [f"ranks/{name}" for name, _ in ranks]
        elif _is_listed(entry):
            logs.append(entry.name)
    return {name: name for name in logs}


def _is_folder(folder: Path, entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder; raises NotReadError for anything else with an attempt's name."""
    if entry.is_dir(follow_symlinks=False):
        return True
    if is_attempt(entry.name):
        raise NotReadError(
            folder / entry.name, "is a link" if entry.is_symlink() else "is not a folder"
        )
    return False


def _described(folder: Path, top: Path, describe: _Describe) -> Iterator[tuple[str, str]]:
    for entry in entries(folder, top):
        if _is_listed(entry):
            yield entry.name, describe(entry)


def _is_listed(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(_READ) or not entry.is_dir(follow_symlinks=False)


def _state(entry: os.DirEntry[str]) -> str:
    status = entry.stat(follow_symlinks=False)
    return f"{entry.name} {status.st_size} {status.st_mtime_ns}"


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _digest(*kinds: _Described) -> str:
    digest = hashlib.sha256()
    for number, attempts in enumerate(kinds):
        lines = [
            f"{number}/{name}/{state}"
            for name, states in attempts.items()
            for state in states.values()
        ]
        for line in sorted(lines):
            digest.update(line.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()[:32]
