"""The JSON Lines of the ranks become tables, in a stream: DuckDB never holds them whole.

Nearly all lines are steps, so one pass writes those and nothing else. What else there is, is read apart:
metrics, steps that count no longer, damaged lines. The compiled reader puts it into files of its own;
without it, files that hold more lines than steps are read once more.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from argosy.reading import json_of
from argosy.results.errors import ResultsError
from argosy.results.lines import is_amount, is_whole, lines, name_files, open_records
from argosy.run_folder.models import check_version
from argosy.results.measured_run import MeasuredRun
from argosy.results.tables import PHASES, fetch, threads
from argosy.results.timings import (
    COLLECTIVE,
    COLLECTIVES,
    IS_COLLECTIVE,
    IS_LAYERS,
    LAYER_ROWS,
    LAYERS,
)

_FIRST_LINE_BYTES = 65536
_BUFFER_BYTES = 1 << 18
_NEWLINE = ord("\n")

# Numbers that count are read as they stand: DuckDB would round 32.5 to the next whole number.
_OF_STEPS = {
    "kind": "VARCHAR",
    "step": "DOUBLE",
    "epoch": "DOUBLE",
    "start": "DOUBLE",
    "seconds": "DOUBLE",
    "samples": "DOUBLE",
    "phases": "STRUCT({})".format(", ".join(f'"{phase}" DOUBLE' for phase in PHASES)),
}
_OF_FILE = {"rank": "INTEGER", "offset_s": "DOUBLE", "until_step": "BIGINT"}
_STEP_LINES = lines(_OF_STEPS, _OF_FILE)
_LINES = lines(
    {**_OF_STEPS, "name": "VARCHAR", "value": "JSON", "at": "DOUBLE"} | COLLECTIVE | LAYERS,
    _OF_FILE,
)
_PRINTED_LINES = lines({"kind": "VARCHAR", "at": "DOUBLE", "samples_per_second": "DOUBLE"}, {})

MOST_STEP = 2**31 - 1
"""Far beyond any training, and its square is a number of 64 bits; plain_steps.c has the same."""
MOST_SAMPLES = 10**15 - 1
"""Of a step of a rank; likewise."""

_IS_STEP_NUMBER = is_whole("step", MOST_STEP)
_IS_SAMPLES = is_whole("samples", MOST_SAMPLES)
# What was not recorded, such as a phase, is no fault.
_TIMES = ("seconds", "coalesce(start, 0)", *(f'coalesce(phases."{phase}", 0)' for phase in PHASES))
_IS_STEP = (
    f"coalesce(kind = 'step' AND {_IS_STEP_NUMBER} AND {_IS_SAMPLES} "
    f"AND {' AND '.join(map(is_amount, _TIMES))}, false)"
)
_COUNTS = "(until_step IS NULL OR step < until_step)"

STEPS = f"""
SELECT experiment, run_id, rank, CAST(step AS BIGINT) AS step,
    CASE WHEN {is_whole("epoch", MOST_STEP)} THEN CAST(epoch AS BIGINT) END AS epoch,
    start + offset_s AS start_s, seconds, CAST(samples AS BIGINT) AS samples,
    {", ".join(f'phases."{phase}" AS {phase}_s' for phase in PHASES)}
FROM {_STEP_LINES} WHERE {_IS_STEP} AND {_COUNTS}
"""

_OTHERS = f"""
CREATE TABLE other_line AS
SELECT experiment, run_id, rank, name, value, "at" + offset_s AS at_s,
    {", ".join({**COLLECTIVE, **LAYERS, "seconds": "DOUBLE"})},
    CASE
        WHEN {_IS_STEP} THEN 'repeated'
        WHEN kind = 'header' THEN 'header'
        WHEN kind IN ('metric', 'collective', 'layers') AND until_step IS NOT NULL THEN 'earlier'
        WHEN kind = 'metric' AND name IS NOT NULL AND value IS NOT NULL THEN 'metric'
        WHEN {IS_COLLECTIVE} THEN 'collective'
        WHEN {IS_LAYERS} THEN 'layers'
        ELSE 'unreadable'
    END AS kind
FROM {_LINES} WHERE NOT ({_IS_STEP} AND {_COUNTS})
"""

# A truth value is a number too (1 or 0), so that "all true" is a minimum.
_METRICS = """
INSERT INTO metrics
SELECT experiment, run_id, rank, name,
    CASE json_type(value)
        WHEN 'BOOLEAN' THEN CAST(value = 'true' AS DOUBLE)
        WHEN 'VARCHAR' THEN NULL
        ELSE TRY_CAST(value AS DOUBLE)
    END,
    CASE WHEN json_type(value) IN ('BOOLEAN', 'VARCHAR') THEN value ->> '$' END,
    at_s
FROM other_line WHERE kind = 'metric'
"""

_PRINTED = f"""
CREATE TABLE printed_line AS
SELECT experiment, run_id, "at" AS monotonic_s, samples_per_second AS samples_per_s,
    coalesce(kind = 'printed' AND {is_amount("samples_per_second")}, false) AS is_good
FROM {_PRINTED_LINES}
"""


@dataclass(frozen=True)
class RecordFile:
    """A file of JSON Lines, and whose it is. `rank` is None for what node 0's agent wrote.

    `offset_s` turns the rank's monotonic seconds into seconds since the job started: those of a job
    that it continues are negative. Steps from `until_step` on were done again by a later job.
    """

    path: str
    experiment: str
    run_id: str
    rank: int | None
    offset_s: float | None
    until_step: int | None = None


def record_files(run: MeasuredRun) -> Iterator[RecordFile]:
    """The files of the incarnations that are the measurement of a completed run; else none.

    Raises RunFolderError for one of an unknown version, OSError for one that cannot be read.
    """
    if run.state != "completed" or run.result is None:
        return
    for piece in run.pieces:
        for path in run.records(piece.incarnation):
            rank = re.fullmatch(r"rank-(\d+)\.jsonl", path.name)
            if rank or (path.name == "printed.jsonl" and piece.until is None):
                yield RecordFile(
                    path=str(path),
                    experiment=run.asked.experiment,
                    run_id=run.asked.run_id,
                    rank=int(rank[1]) if rank else None,
                    offset_s=clock_offset(path, run.result.started) if rank else None,
                    until_step=piece.until,
                )


def name_records(
    database: duckdb.DuckDBPyConnection, files: Sequence[RecordFile]
) -> dict[str, list[str]]:
    """Name the files that are read next; returns the query's parameters."""
    return name_files(database, _OF_FILE, files)


def hold_steps(database: duckdb.DuckDBPyConnection, files: Sequence[RecordFile]) -> bool:
    """Whether there are any steps that count in `files`, or what DuckDB cannot read."""
    query = f"SELECT 1 FROM {_STEP_LINES} WHERE {_IS_STEP} AND {_COUNTS} LIMIT 1"
    try:
        return bool(files and fetch(database, query, name_records(database, files)))
    except duckdb.Error:
        return True


def load_others(database: duckdb.DuckDBPyConnection, files: Sequence[RecordFile]) -> None:
    """Fill the tables of what `files` hold besides steps, and `other_line` with all such lines."""
    if more := [file for file in files if file.rank is not None]:
        database.execute(_OTHERS, name_records(database, more))
        database.execute(_METRICS)
        for query in (COLLECTIVES, LAYER_ROWS):
            database.execute(query)
    else:
        database.execute(
            "CREATE TABLE other_line (experiment VARCHAR, run_id VARCHAR, kind VARCHAR)"
        )
    if printed := [file for file in files if file.rank is None]:
        database.execute(_PRINTED, name_records(database, printed))
        database.execute(
            "INSERT INTO printed SELECT * EXCLUDE is_good FROM printed_line WHERE is_good"
        )
        database.execute(
            "INSERT INTO other_line BY NAME SELECT experiment, run_id, 'unreadable' AS kind "
            "FROM printed_line WHERE NOT is_good"
        )


def count_others(
    database: duckdb.DuckDBPyConnection,
) -> defaultdict[tuple[str, str], Counter[str]]:
    """How many lines of each kind a run has besides its steps."""
    query = "SELECT experiment, run_id, kind, count(*) AS lines FROM other_line GROUP BY ALL"
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in fetch(database, query):
        counts[row["experiment"], row["run_id"]][row["kind"]] = row["lines"]
    return counts


def with_more_lines(
    files: Sequence[RecordFile], steps: Mapping[tuple[str, str, int], int]
) -> list[RecordFile]:
    """The files of ranks that have more lines than a header in each file and their steps.

    `steps` is how many good steps there are by (experiment, run_id, rank).
    """
    of_rank: dict[tuple[str, str, int], list[RecordFile]] = {}
    for file in files:
        assert file.rank is not None
        of_rank.setdefault((file.experiment, file.run_id, file.rank), []).append(file)
    paths = [file.path for file in files]
    with ThreadPoolExecutor(threads()) as pool:
        lines = dict(zip(paths, pool.map(_count_lines, paths), strict=True))
    return [
        file
        for key, group in of_rank.items()
        if sum(lines[file.path] for file in group) != steps.get(key, 0) + len(group)
        or any(file.offset_s is None for file in group)
        for file in group
    ]


def _count_lines(path: str) -> int:
    # One buffer for all of the file: new memory for each piece would take as long as the counting.
    count, is_ended, buffer = 0, True, bytearray(_BUFFER_BYTES)
    characters = np.frombuffer(buffer, np.uint8)
    with open_records(path) as file:
        while size := file.readinto(buffer):
            # Other threads count meanwhile, as they do not while Python's own count() runs.
            count += int(np.count_nonzero(characters[:size] == _NEWLINE))
            is_ended = buffer[size - 1] == _NEWLINE
    return count + (not is_ended)


def read_header(path: Path) -> dict[str, Any]:
    """The first line of a file of records; empty when it is cut off or no header.

    Raises RunFolderError for an unknown version.
    """
    with open_records(path) as stream:
        first = stream.readline(_FIRST_LINE_BYTES)
    try:
        header = json_of(first)
    except ValueError:
        return {}
    if not isinstance(header, dict) or header.get("kind") != "header":
        return {}
    check_version(path, path.parents[4], header.get("schema_version"))
    return header


def clock_offset(path: Path, started: float) -> float | None:
    """Job time minus monotonic time by the header; None without one."""
    header = read_header(path)
    try:
        offset_s = float(header["unix"]) - float(header["monotonic"]) - started
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return offset_s if math.isfinite(offset_s) else None


def read_problem(problem: duckdb.Error) -> ResultsError:
    """What DuckDB says of records that it cannot read, in a line."""
    return ResultsError(
        f"records cannot be read: {str(problem).splitlines()[0]}; move that run folder away"
    )
