"""Prints the records of a run's newest attempt as JSON Lines."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from argosy.monitor.jobs import newest_job
from argosy.monitor.sites import find_run
from argosy.run_folder.folder import RunFolder, by_number
from argosy.runtime.contract.steps import NoStepsError, Step, read_steps
from argosy_common.errors import ArgosyError, plain
from argosy_common.reading import NotReadError, entries, open_regular

LONGEST_LINE = 8 << 20
"""Maximum bytes of a line; records are shorter."""
_NAME = re.compile(
    r"rank-[0-9]{1,9}\.steps|(?:rank|telemetry)-[0-9]{1,9}\.jsonl|printed(?:-[0-9]{1,9})?\.jsonl"
)


def show_records(run: str, rank: int | None) -> None:
    """Run the command; an interrupt or a closed pipe ends it quietly.

    Raises:
        ArgosyError: if the run is ambiguous, has no records, or has records of another version of Argosy.
    """
    folder = RunFolder(find_run(run))
    try:
        for path in _paths(folder, rank):
            sys.stdout.buffer.writelines(_records(path, folder.site))
        sys.stdout.buffer.flush()
    except KeyboardInterrupt:
        return


def _paths(run: RunFolder, rank: int | None) -> list[Path]:
    """Return the record files in the order of ranks; JSON Lines come before steps."""
    name = f"{run.spec.experiment}/{run.spec.run_id}"
    job = newest_job(run, None)
    if job is None or job.attempt is None:
        raise ArgosyError(f"{name}: no records: the run has not started")
    folder, found = run.records(job.attempt), []
    try:
        names = (each.name for each in entries(folder, run.site))
        found = [folder / each for each in names if _NAME.fullmatch(each)]
    except FileNotFoundError:
        pass
    except NotReadError as problem:
        raise ArgosyError(str(problem)) from None
    if rank is not None:
        found = [path for path in found if path.stem == f"rank-{rank}"]
    if not found:
        whose = "" if rank is None else f" of rank {rank}"
        raise ArgosyError(f"{name}: there are no records{whose} yet")
    return sorted(found, key=lambda path: (by_number(path.stem), path.suffix))


def _records(path: Path, top: Path) -> Iterator[bytes]:
    """Yield the records in a file, one per line; report unreadable parts on standard error."""
    bad = 0
    try:
        for line in _lines(path, top):
            if line is None:
                bad += 1
            else:
                yield line
    except (OSError, NoStepsError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        _warn(f"{path}: {why}; the rest is not shown")
    if bad:
        _warn(f"{path}: damaged or truncated records, not shown: {bad}")


def _warn(line: str) -> None:
    print(plain(line), file=sys.stderr)


def _lines(path: Path, top: Path) -> Iterator[bytes | None]:
    """Yield a file's records; None for a damaged or truncated one. Raises OSError, NoStepsError."""
    with open_regular(path, top) as file:
        if path.suffix == ".steps":
            rank = int(path.stem.removeprefix("rank-"))
            for step in read_steps(file.fileno()):
                yield step and _line_of(step, rank)
            return
        is_within = False
        while line := file.readline(LONGEST_LINE):
            is_ended = line.endswith(b"\n")
            if is_ended and not is_within:
                yield (plain(line.decode(errors="replace")).rstrip("\n") + "\n").encode()
            elif is_ended:
                yield None
            is_within = not is_ended
        if is_within:
            yield None


def _line_of(step: Step, rank: int) -> bytes:
    return (json.dumps({"kind": "step", "rank": rank, **step._asdict()}) + "\n").encode()
