"""Lists the files of a run once, with a fingerprint that detects changes."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
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
    files = _states(folder, top)
    attempts, records, logs = (
        {name: states(folder / kind / name, top) for name in sorted(_attempts(folder / kind, top))}
        for kind, states in (("attempts", _states), ("records", _states), ("logs", _logs))
    )
    read = {name: state for name, state in files.items() if name != "job.sbatch"}
    return Listing(
        path=folder,
        files=sorted(files),
        attempts={name: sorted(states) for name, states in attempts.items()},
        records={name: sorted(states) for name, states in records.items()},
        logs={name: sorted(states) for name, states in logs.items()},
        fingerprint=_digest({"": read}, records, logs, attempts),
    )


_States = Mapping[str, str]
"""A text for each file, by its name; a changed file has another text."""


def _attempts(folder: Path, top: Path) -> list[str]:
    try:
        names = [entry.name for entry in entries(folder, top) if _is_folder(folder, entry)]
    except FileNotFoundError:
        return []
    if len(names) > _MOST_ATTEMPTS:
        raise NotReadError(folder, f"contains more than {_MOST_ATTEMPTS:,} folders")
    return names


def _logs(folder: Path, top: Path) -> _States:
    """Return the names of an attempt's logs; logs of ranks as ranks/rank-<r>.log."""
    names = []
    for entry in entries(folder, top):
        if entry.name == "ranks" and entry.is_dir(follow_symlinks=False):
            names += [f"ranks/{each.name}" for each in _listed(folder / "ranks", top)]
        elif _is_listed(entry):
            names.append(entry.name)
    return {name: name for name in names}


def _is_folder(folder: Path, entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder; raises NotReadError for anything else with an attempt's name."""
    if entry.is_dir(follow_symlinks=False):
        return True
    if is_attempt(entry.name):
        raise NotReadError(
            folder / entry.name, "is a link" if entry.is_symlink() else "is not a folder"
        )
    return False


def _states(folder: Path, top: Path) -> _States:
    states = {each.name: each.stat(follow_symlinks=False) for each in _listed(folder, top)}
    return {name: f"{name} {state.st_size} {state.st_mtime_ns}" for name, state in states.items()}


def _listed(folder: Path, top: Path) -> Iterator[os.DirEntry[str]]:
    return (entry for entry in entries(folder, top) if _is_listed(entry))


def _is_listed(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(_READ) or not entry.is_dir(follow_symlinks=False)


def _digest(*kinds: Mapping[str, _States]) -> str:
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
