"""Loads records in JSON Lines into tables: metrics, collectives, layers and printed numbers."""

import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from argosy.results.errors import ResultsError
from argosy.results.lines import is_amount, is_whole, lines, name_files, open_records
from argosy.results.measured_run import MeasuredRun
from argosy.results.tables import fetch
from argosy.run_folder.models import check_version
from argosy.runtime.contract.layout import PRINTED
from argosy_common.reading import json_of

COLLECTIVE = {"bytes": "DOUBLE", "repetition": "DOUBLE"}
"""Keys of lines about collectives, with types that do not round."""
LAYERS = {"layers": "STRUCT(name VARCHAR, bytes DOUBLE, ready_s DOUBLE)[]"}

_MOST_BYTES = 2**53
_MOST_REPETITIONS = 2**31 - 1

IS_COLLECTIVE = (
    "coalesce(kind = 'collective' AND name IS NOT NULL "
    f"AND {is_whole('repetition', _MOST_REPETITIONS)} "
    f"AND bytes > 0 AND {is_whole('bytes', _MOST_BYTES)} "
    f"AND seconds > 0 AND {is_amount('seconds')}, false)"
)
_IS_LAYER = (
    f"coalesce(layer.name IS NOT NULL AND {is_whole('layer.bytes', _MOST_BYTES)} "
    f"AND {is_amount('coalesce(layer.ready_s, 0)')}, false)"
)
IS_LAYERS = (
    "coalesce(kind = 'layers' AND len(layers) > 0 "
    f"AND len(list_filter(layers, lambda layer: {_IS_LAYER})) = len(layers), false)"
)

# An operation ends when the slowest rank has its result.
COLLECTIVES = """
INSERT INTO collectives BY NAME
SELECT experiment, run_id, name, bytes, repetition, max(seconds) AS seconds,
    count(DISTINCT rank) AS ranks
FROM other_line WHERE kind = 'collective' GROUP BY ALL
"""

LAYER_ROWS = """
INSERT INTO layers BY NAME
SELECT experiment, run_id, rank, place - 1 AS place, layers[place].name AS name,
    layers[place].bytes AS bytes, layers[place].ready_s AS ready_s
FROM (
    SELECT *, unnest(generate_series(1, len(layers))) AS place FROM (
        SELECT experiment, run_id, rank, layers FROM other_line WHERE kind = 'layers'
        QUALIFY row_number() OVER (PARTITION BY experiment, run_id, rank ORDER BY at_s) = 1
    )
)
"""


_FIRST_LINE_BYTES = 65536

_OF_FILE = {"rank": "INTEGER", "offset_s": "DOUBLE", "until_step": "BIGINT"}
_OF_PRINTED = {"rank": "INTEGER", "offset_s": "DOUBLE"}
_LINES = lines(
    {"kind": "VARCHAR", "name": "VARCHAR", "value": "JSON", "at": "DOUBLE", "seconds": "DOUBLE"}
    | COLLECTIVE
    | LAYERS,
    _OF_FILE,
)
_PRINTED_LINES = lines(
    {"kind": "VARCHAR", "at": "DOUBLE", "samples_per_second": "DOUBLE"}
    | {"name": "VARCHAR", "value": "JSON", "clock": "DOUBLE"},
    _OF_PRINTED,
)

_OTHERS = f"""
CREATE TABLE other_line AS
SELECT experiment, run_id, rank, name, value, "at" + offset_s AS at_s,
    {", ".join({**COLLECTIVE, **LAYERS, "seconds": "DOUBLE"})},
    CASE
        WHEN kind = 'header' THEN 'header'
        WHEN kind IN ('metric', 'collective', 'layers') AND until_step IS NOT NULL THEN 'earlier'
        WHEN kind = 'metric' AND name IS NOT NULL AND value IS NOT NULL THEN 'metric'
        WHEN {IS_COLLECTIVE} THEN 'collective'
        WHEN {IS_LAYERS} THEN 'layers'
        ELSE 'unreadable'
    END AS kind
FROM {_LINES}
"""

# A boolean is also a number (1 or 0), so that "all true" is a minimum.
_METRICS = """
INSERT INTO metrics BY NAME
SELECT experiment, run_id, rank, name,
    CASE json_type(value)
        WHEN 'BOOLEAN' THEN CAST(value = 'true' AS DOUBLE)
        WHEN 'VARCHAR' THEN NULL
        ELSE TRY_CAST(value AS DOUBLE)
    END AS value_number,
    CASE WHEN json_type(value) IN ('BOOLEAN', 'VARCHAR') THEN value ->> '$' END AS value_text,
    at_s
FROM other_line WHERE kind = 'metric'
"""

_PRINTED = f"""
CREATE TABLE printed_line AS
SELECT experiment, run_id, rank, "at" AS monotonic_s, samples_per_second AS samples_per_s,
    name, value, "at" + (clock + offset_s) AS at_s,
    CASE
        WHEN kind = 'printed' AND {is_amount("samples_per_second")} THEN 'printed'
        WHEN kind = 'metric' AND name IS NOT NULL AND value IS NOT NULL THEN 'metric'
        ELSE 'unreadable'
    END AS kind
FROM {_PRINTED_LINES}
"""


@dataclass(frozen=True)
class RecordFile:
    """A rank's file of JSON Lines. `is_printed`: an agent wrote it from the rank's output.

    `offset_s` converts the rank's monotonic seconds, or Unix seconds if `is_printed`, to seconds since the
    last job's start; earlier jobs have negative times. A later job repeated the steps from `until_step` on.
    """

    path: str
    experiment: str
    run_id: str
    rank: int
    offset_s: float | None = None
    until_step: int | None = None
    is_printed: bool = False


@dataclass(frozen=True)
class Header:
    """The first line of a file of records.

    Args:
        keys: its keys; empty if it is truncated or not a header.
        is_all: whether the file has no other line.
    """

    keys: Mapping[str, Any]
    is_all: bool

    def offset_s(self, started: float) -> float | None:
        """Return job time minus monotonic time; None if the header lacks them."""
        try:
            offset_s = float(self.keys["unix"]) - float(self.keys["monotonic"]) - started
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        return offset_s if math.isfinite(offset_s) else None


def record_files(run: MeasuredRun) -> Iterator[RecordFile]:
    """Yield the record files of a completed run's measurement, without files that have only a header.

    Raises RunFolderError for an unknown version, OSError for an unreadable file.
    """
    if run.state != "completed" or run.result is None:
        return
    for piece in run.pieces:
        for path in run.records(piece.attempt):
            if rank := re.fullmatch(r"rank-([0-9]{1,9})\.jsonl", path.name):
                header = read_header(path)
                if not header.is_all:
                    offset_s = header.offset_s(run.result.started)
                    yield _record_file(run, path, int(rank[1]), offset_s, piece.until)
            elif (rank := PRINTED.fullmatch(path.name)) and piece.until is None:
                of_rank = _record_file(run, path, int(rank[1] or 0), -run.result.started)
                yield replace(of_rank, is_printed=True)


def _record_file(
    run: MeasuredRun,
    path: Path,
    rank: int,
    offset_s: float | None = None,
    until_step: int | None = None,
) -> RecordFile:
    return RecordFile(str(path), run.asked.experiment, run.asked.run_id, rank, offset_s, until_step)


def load_others(database: duckdb.DuckDBPyConnection, files: Sequence[RecordFile]) -> None:
    """Load `files` into metrics, collectives, layers and printed, and all their lines into `other_line`."""
    if more := [file for file in files if not file.is_printed]:
        database.execute(_OTHERS, name_files(database, _OF_FILE, more))
        for query in (COLLECTIVES, LAYER_ROWS):
            database.execute(query)
    else:
        database.execute(
            "CREATE TABLE other_line (experiment VARCHAR, run_id VARCHAR, rank INTEGER, "
            "name VARCHAR, value JSON, at_s DOUBLE, kind VARCHAR)"
        )
    if printed := [file for file in files if file.is_printed]:
        database.execute(_PRINTED, name_files(database, _OF_PRINTED, printed))
        database.execute(
            "INSERT INTO printed BY NAME SELECT experiment, run_id, rank, monotonic_s, samples_per_s "
            "FROM printed_line WHERE kind = 'printed'"
        )
        database.execute(
            "INSERT INTO other_line BY NAME SELECT experiment, run_id, rank, name, value, at_s, kind "
            "FROM printed_line WHERE kind != 'printed'"
        )
    database.execute(_METRICS)


def count_others(database: duckdb.DuckDBPyConnection) -> defaultdict[tuple[str, str], Counter[str]]:
    """Count the lines of each kind by run, without steps."""
    query = "SELECT experiment, run_id, kind, count(*) AS lines FROM other_line GROUP BY ALL"
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in fetch(database, query):
        counts[row["experiment"], row["run_id"]][row["kind"]] = row["lines"]
    return counts


def read_header(path: Path) -> Header:
    """Return the header of a file of records.

    Raises RunFolderError for an unknown version, OSError for an unreadable file.
    """
    with open_records(path) as stream:
        first = stream.readline(_FIRST_LINE_BYTES)
        is_all = os.fstat(stream.fileno()).st_size <= len(first)
    try:
        header = json_of(first)
    except ValueError:
        return Header({}, is_all=not first)
    if not isinstance(header, dict) or header.get("kind") != "header":
        return Header({}, is_all=False)
    check_version(path, path.parents[4], header.get("schema_version"))
    return Header(header, is_all)


def read_problem(problem: duckdb.Error) -> ResultsError:
    """Convert DuckDB's error about unreadable records to one line."""
    return ResultsError(
        f"records cannot be read: {str(problem).splitlines()[0]}", "move that run folder away"
    )
