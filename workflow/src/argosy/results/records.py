"""Loads records in JSON Lines into tables: metrics, collectives, layers and printed numbers."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from argosy.results.errors import ResultsError
from argosy.results.files import RecordFile, measured_files, read_header, with_clock
from argosy.results.lines import is_amount, is_whole, lines, name_files
from argosy.results.measured_run import MeasuredRun
from argosy.results.tables import Run, fetch
from argosy.runtime.contract.layout import PRINTED

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


_LINES = lines(
    {"kind": "VARCHAR", "name": "VARCHAR", "value": "JSON", "at": "DOUBLE", "seconds": "DOUBLE"}
    | COLLECTIVE
    | LAYERS
)
_PRINTED_LINES = lines(
    {"kind": "VARCHAR", "at": "DOUBLE", "samples_per_second": "DOUBLE"}
    | {"name": "VARCHAR", "value": "JSON", "clock": "DOUBLE"}
)

_OTHERS = f"""
CREATE TABLE other_line AS
SELECT experiment, run_id, number AS rank, name, value, "at" + offset_s AS at_s,
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
SELECT experiment, run_id, number AS rank, "at" AS monotonic_s, samples_per_second AS samples_per_s,
    name, value, "at" + (clock + offset_s) AS at_s,
    CASE
        WHEN kind = 'printed' AND {is_amount("samples_per_second")} THEN 'printed'
        WHEN kind = 'metric' AND name IS NOT NULL AND value IS NOT NULL THEN 'metric'
        ELSE 'unreadable'
    END AS kind
FROM {_PRINTED_LINES}
"""


_RANK = re.compile(r"rank-([0-9]{1,9})\.jsonl")


def record_files(run: MeasuredRun) -> Iterator[RecordFile]:
    """Yield the record files of a completed run's measurement, without files that have only a header.

    Raises RunFolderError for an unknown version, OSError for an unreadable file.
    """
    for file in measured_files(run, _RANK):
        header = read_header(Path(file.path))
        if not header.is_all:
            yield with_clock(file, header.keys.get("unix"), header.keys.get("monotonic"))


def printed_files(run: MeasuredRun) -> Iterator[RecordFile]:
    """Yield the files that agents wrote from the output of ranks, in Unix seconds."""
    for file in measured_files(run, PRINTED):
        if file.until_step is None:
            yield with_clock(file, 0.0, 0.0)


def load_others(
    database: duckdb.DuckDBPyConnection,
    files: Sequence[RecordFile],
    printed: Sequence[RecordFile],
) -> None:
    """Load both into metrics, collectives, layers and printed, and all their lines into `other_line`."""
    if files:
        database.execute(_OTHERS, name_files(database, files))
        for query in (COLLECTIVES, LAYER_ROWS):
            database.execute(query)
    else:
        database.execute(
            "CREATE TABLE other_line (experiment VARCHAR, run_id VARCHAR, rank INTEGER, "
            "name VARCHAR, value JSON, at_s DOUBLE, kind VARCHAR)"
        )
    if printed:
        database.execute(_PRINTED, name_files(database, printed))
        database.execute(
            "INSERT INTO printed BY NAME SELECT experiment, run_id, rank, monotonic_s, samples_per_s "
            "FROM printed_line WHERE kind = 'printed'"
        )
        database.execute(
            "INSERT INTO other_line BY NAME SELECT experiment, run_id, rank, name, value, at_s, kind "
            "FROM printed_line WHERE kind != 'printed'"
        )
    database.execute(_METRICS)


def unreadable_lines(database: duckdb.DuckDBPyConnection) -> Counter[Run]:
    """Count the unreadable lines by run, without steps."""
    query = (
        "SELECT experiment, run_id, count(*) AS lines FROM other_line WHERE kind = 'unreadable' "
        "GROUP BY ALL"
    )
    return Counter(
        {(row["experiment"], row["run_id"]): row["lines"] for row in fetch(database, query)}
    )


def read_problem(problem: duckdb.Error) -> ResultsError:
    """Convert DuckDB's error about unreadable records to one line."""
    return ResultsError(
        f"records cannot be read: {str(problem).splitlines()[0]}", "move that run folder away"
    )
