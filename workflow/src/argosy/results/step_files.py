"""The files in which ranks recorded their steps: whose they are, and how many rows they have."""

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from argosy.reading import open_regular
from argosy.results.errors import ResultsError
from argosy.results.lines import site_of_records
from argosy.results.measured_run import MeasuredRun, Piece
from argosy.runtime.contract.steps import ROW_BYTES, Header, NoStepsError, header_of


@dataclass(frozen=True)
class StepFile:
    """A file of steps, and whose it is.

    `offset_s` turns the rank's monotonic seconds into seconds since the job started: those of a job
    that it continues are negative. Steps from `until_step` on were done again by a later job. `is_cut`
    says whether something follows the whole `rows`, or a part of a header is all there is.
    """

    path: str
    experiment: str
    run_id: str
    rank: int
    offset_s: float | None
    until_step: int | None
    rows: int
    is_cut: bool


def step_files(run: MeasuredRun) -> Iterator[StepFile]:
    """Yield the files of the attempts that are the measurement of a completed run; else none.

    Raises ResultsError for one that is no file of steps, OSError for one that cannot be read.
    """
    if run.state != "completed" or run.result is None:
        return
    for piece in run.pieces:
        for path in run.records(piece.attempt):
            if rank := re.fullmatch(r"rank-(0|[1-9][0-9]{0,8})\.steps", path.name):
                yield _step_file(run, piece, path, int(rank[1]), run.result.started)


def _step_file(run: MeasuredRun, piece: Piece, path: Path, rank: int, started: float) -> StepFile:
    with open_regular(path, site_of_records(path)) as file:
        begin = os.pread(file.fileno(), ROW_BYTES, 0)
        size = os.fstat(file.fileno()).st_size
    try:
        header = header_of(begin)
    except NoStepsError as problem:
        raise ResultsError(
            f"{path}: {problem}", "move the run folder away and run it again"
        ) from None
    if header and header.rank != rank:
        raise ResultsError(
            f"{path}: is of rank {header.rank} by its header", "move a copied or renamed file away"
        )
    return StepFile(
        path=str(path),
        experiment=run.asked.experiment,
        run_id=run.asked.run_id,
        rank=rank,
        offset_s=_offset(header, started) if header else None,
        until_step=piece.until,
        rows=size // ROW_BYTES - 1 if header else 0,
        is_cut=size % ROW_BYTES > 0,
    )


def _offset(header: Header, started: float) -> float | None:
    """Job time minus monotonic time; None where the header has no times."""
    offset_s = header.unix - header.monotonic - started
    return offset_s if math.isfinite(offset_s) else None
