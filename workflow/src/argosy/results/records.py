"""The JSON Lines of the ranks become tables: parsed once, by DuckDB, never held in memory whole."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import duckdb

from argosy.results.errors import ResultsError
from argosy.results.models import check_version
from argosy.results.run_folder import RunFolder
from argosy.results.tables import PHASES, literal

_HEADER_LIMIT_BYTES = 65536

# What is not exactly what the contract says is `unreadable`: cut off, invalid, or of no known kind.
_LOAD = f"""
CREATE TABLE record AS
SELECT file.experiment, file.run_id, file.rank, file.offset_s, line.* EXCLUDE (kind, filename),
    CASE
        WHEN kind = 'step' AND step >= file.until_step THEN 'repeated'
        WHEN kind = 'metric' AND file.until_step IS NOT NULL THEN 'earlier'
        WHEN kind = 'header' THEN 'header'
        WHEN kind = 'step' AND step IS NOT NULL AND samples IS NOT NULL AND isfinite(seconds)
            AND seconds >= 0 THEN 'step'
        WHEN kind = 'metric' AND name IS NOT NULL AND value IS NOT NULL THEN 'metric'
        WHEN kind = 'printed' AND isfinite(samples_per_second) THEN 'printed'
        ELSE 'unreadable'
    END AS kind
FROM read_json(
    $paths, format = 'newline_delimited', ignore_errors = true, filename = true,
    hive_partitioning = false, columns = {{
        'kind': 'VARCHAR', 'step': 'BIGINT', 'epoch': 'BIGINT', 'start': 'DOUBLE',
        'seconds': 'DOUBLE', 'samples': 'BIGINT', 'name': 'VARCHAR', 'value': 'JSON',
        'at': 'DOUBLE', 'samples_per_second': 'DOUBLE',
        'phases': 'STRUCT({", ".join(f'"{phase}" DOUBLE' for phase in PHASES)})'
    }}
) AS line JOIN record_file AS file ON line.filename = file.path
"""

_STEPS = f"""
INSERT INTO steps
SELECT experiment, run_id, rank, step, epoch, start + offset_s, seconds, samples,
    {", ".join(f'phases."{phase}"' for phase in PHASES)}
FROM record WHERE kind = 'step'
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
    "at" + offset_s
FROM record WHERE kind = 'metric'
"""

_PRINTED = """
INSERT INTO printed
SELECT experiment, run_id, "at", samples_per_second FROM record WHERE kind = 'printed'
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


def record_files(run: RunFolder) -> Iterator[RecordFile]:
    """The files of the incarnations that are the measurement of a completed run; else none."""
    if run.state != "completed" or run.result is None:
        return
    for piece in run.pieces:
        for path in sorted((run.path / "records" / piece.incarnation).glob("*.jsonl")):
            rank = re.fullmatch(r"rank-(\d+)\.jsonl", path.name)
            if rank or (path.name == "printed.jsonl" and piece.until is None):
                yield RecordFile(
                    # DuckDB names the file that it reads without `..`, and the join is by that name.
                    path=str(path.resolve()),
                    experiment=run.asked.experiment,
                    run_id=run.asked.run_id,
                    rank=int(rank[1]) if rank else None,
                    offset_s=_clock_offset(path, run.result.started) if rank else None,
                    until_step=piece.until,
                )


def load_records(database: duckdb.DuckDBPyConnection, files: Sequence[RecordFile]) -> None:
    """Fill the tables steps, metrics and printed, and a table `record` of every line of `files`."""
    database.execute(
        "CREATE TABLE record_file (path VARCHAR, experiment VARCHAR, run_id VARCHAR, "
        "rank INTEGER, offset_s DOUBLE, until_step BIGINT)"
    )
    if not files:
        database.execute("CREATE TABLE record (experiment VARCHAR, run_id VARCHAR, kind VARCHAR)")
        return
    database.executemany(
        "INSERT INTO record_file VALUES (?, ?, ?, ?, ?, ?)", [*map(astuple, files)]
    )
    try:
        database.execute(_LOAD, {"paths": [literal(Path(file.path)) for file in files]})
    except duckdb.Error as problem:
        raise ResultsError(
            f"records cannot be read: {str(problem).splitlines()[0]}; move that run folder away"
        ) from problem
    for statement in (_STEPS, _METRICS, _PRINTED):
        database.execute(statement)


def _clock_offset(path: Path, started: float) -> float | None:
    """Job time minus monotonic time by the header; None when its first line is cut off."""
    with path.open("rb") as lines:
        first = lines.readline(_HEADER_LIMIT_BYTES)
    try:
        header = json.loads(first)
    except ValueError:
        return None
    if not isinstance(header, dict) or header.get("kind") != "header":
        return None
    check_version(path, header.get("schema_version"))
    try:
        return float(header["unix"]) - float(header["monotonic"]) - started
    except (KeyError, TypeError, ValueError):
        return None
