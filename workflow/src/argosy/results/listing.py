"""The files of a run, listed once: what there is to be read, and whether any of it changed."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Listing:
    """The names of a run's files, sorted; those of `attempts`, `records` and `logs` by incarnation.

    `fingerprint` is a digest of the names, sizes and times of all files; of logs, of the names alone.
    """

    path: Path
    files: Sequence[str]
    attempts: Mapping[str, Sequence[str]]
    records: Mapping[str, Sequence[str]]
    logs: Mapping[str, Sequence[str]]
    fingerprint: str


def list_run(folder: Path) -> Listing:
    """List the files of a run's folder, none of which is read.

    Raises:
        OSError: when a folder of the run cannot be listed.
    """
    files = dict(_described(str(folder), _state))
    attempts = _by_incarnation(folder / "attempts", _state)
    records = _by_incarnation(folder / "records", _state)
    logs = _logs(folder / "logs")
    return Listing(
        path=folder,
        files=sorted(files),
        attempts={name: sorted(states) for name, states in sorted(attempts.items())},
        records={name: sorted(states) for name, states in sorted(records.items())},
        logs={name: sorted(states) for name, states in sorted(logs.items())},
        # Without attempts, of a run of an earlier version, it is what it was.
        fingerprint=_digest({"": files}, records, logs, *([attempts] if attempts else [])),
    )


_Described = Mapping[str, Mapping[str, str]]
_Describe = Callable[[os.DirEntry[str]], str]


def _by_incarnation(folder: Path, describe: _Describe) -> _Described:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {name: dict(_described(f"{folder}/{name}", describe)) for name in names}


def _logs(folder: Path) -> _Described:
    """Logs by incarnation; those of ranks, which lie in a folder of their own, as ranks/rank-<r>.log."""
    logs = _by_incarnation(folder, _name)
    ranks = {name: _by_incarnation(folder / name, _name).get("ranks", {}) for name in logs}
    return {
        name: {**logs[name], **{f"ranks/{log}": f"ranks/{log}" for log in ranks[name]}}
        for name in logs
    }


def _described(folder: str, describe: _Describe) -> Iterator[tuple[str, str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file():
                yield entry.name, describe(entry)


def _state(entry: os.DirEntry[str]) -> str:
    status = entry.stat()
    return f"{entry.name} {status.st_size} {status.st_mtime_ns}"


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _digest(*kinds: _Described) -> str:
    digest = hashlib.sha256()
    for number, incarnations in enumerate(kinds):
        lines = [
            f"{number}/{name}/{state}"
            for name, states in incarnations.items()
            for state in states.values()
        ]
        for line in sorted(lines):
            digest.update(line.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()[:32]
