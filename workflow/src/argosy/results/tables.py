"""Defines the columns of the tables; writes and opens them.

A table is one Parquet file with `schema_version` in its metadata. Tables join on (experiment, run_id).
"""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb

from argosy import __version__
from argosy.results.errors import ResultsError
from argosy.runtime.contract import steps as step_rows
from argosy_common.errors import plain_texts
from argosy_common.files import replacing, umask
from argosy_common.reading import NotReadError, check_regular

PHASES = step_rows.PHASES
TABLES_VERSION = 15

Run = tuple[str, str]
"""(experiment, run_id)."""

_MOST_THREADS = 8
# DuckDB buffers a row group per thread. Measured numbers hardly repeat, so large dictionaries are useless.
_LAYOUT = (
    "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 61440, DICTIONARY_SIZE_LIMIT 1000, "
    # Otherwise DuckDB replaces our private file by its own.
    "USE_TMP_FILE false"
)

_RUN = {"experiment": "VARCHAR", "run_id": "VARCHAR"}
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "runs": _RUN
    | {
        "site": "VARCHAR",
        "nodes": "INTEGER",
        "ranks_per_node": "INTEGER",
        "ranks": "INTEGER",
        "processes": "INTEGER",
        "repeat": "INTEGER",
        "scaling": "VARCHAR",
        "variant_of": "VARCHAR",
        "variant_data": "VARCHAR",
        "timeline": "BOOLEAN",
        "horovod_cycle_s": "DOUBLE",
        "horovod_fusion_bytes": "DOUBLE",
        "command": "VARCHAR[]",
        "launcher": "VARCHAR",
        "is_native": "BOOLEAN",
        "hardware": "VARCHAR",
        "queue": "VARCHAR",
        "throughput_pattern": "VARCHAR",
        "printed_unit": "VARCHAR",
        "printing_ranks": "INTEGER",
        "environment": "VARCHAR",
        "own_variables": "VARCHAR[]",
        "resources": "VARCHAR",
        "state": "VARCHAR",
        "attempt": "VARCHAR",
        "groups": "INTEGER",
        "independent": "BOOLEAN",
        "remarks": "VARCHAR[]",
        "pieces": "INTEGER",
        "continued_at": "BIGINT[]",
        "restarts": "INTEGER",
        "restarts_lost_s": "DOUBLE",
        "part_nodes": "INTEGER[]",
        "waited_s": "DOUBLE",
        "started_unix_s": "DOUBLE",
        "ended_unix_s": "DOUBLE",
        "seconds": "DOUBLE",
        "hosts": "VARCHAR[]",
        "image_name": "VARCHAR",
        "image_digest": "VARCHAR",
        "programs": "VARCHAR",
        "failure": "VARCHAR",
        "unreadable_records": "BIGINT",
        "repeated_steps": "BIGINT",
        "duplicate_steps": "BIGINT",
        "missing_steps": "BIGINT",
        "missing_ranks": "INTEGER[]",
        "clock_spread_s": "DOUBLE",
        "log_files": "VARCHAR[]",
        "provenance": "VARCHAR",
        "files_fingerprint": "VARCHAR",
    },
    "steps": _RUN
    | {
        "rank": "INTEGER",
        "step": "BIGINT",
        "epoch": "BIGINT",
        "start_s": "DOUBLE",
        "seconds": "DOUBLE",
        "samples": "BIGINT",
    }
    | {f"{phase}_s": "DOUBLE" for phase in PHASES},
    "metrics": _RUN
    | {
        "rank": "INTEGER",
        "name": "VARCHAR",
        "value_number": "DOUBLE",
        "value_text": "VARCHAR",
        "at_s": "DOUBLE",
    },
    "printed": _RUN | {"rank": "INTEGER", "monotonic_s": "DOUBLE", "samples_per_s": "DOUBLE"},
    "collectives": _RUN
    | {
        "name": "VARCHAR",
        "bytes": "BIGINT",
        "repetition": "INTEGER",
        "seconds": "DOUBLE",
        "ranks": "INTEGER",
    },
    "layers": _RUN
    | {
        "rank": "INTEGER",
        "place": "INTEGER",
        "name": "VARCHAR",
        "bytes": "BIGINT",
        "ready_s": "DOUBLE",
    },
    "timeline": _RUN
    | {
        "operation": "VARCHAR",
        "activity": "VARCHAR",
        "events": "BIGINT",
        "seconds": "DOUBLE",
        "span_s": "DOUBLE",
        "tensors": "BIGINT",
    },
    "nodes": _RUN
    | {
        "node": "INTEGER",
        "host": "VARCHAR",
        "cpu_model": "VARCHAR",
        "cpus": "INTEGER",
        "memory_bytes": "BIGINT",
        "kernel": "VARCHAR",
        "engine": "VARCHAR",
    },
    "failures": _RUN
    | {
        "attempt": "VARCHAR",
        "state": "VARCHAR",
        "node": "INTEGER",
        "rank": "INTEGER",
        "cause": "VARCHAR",
        "lost_s": "DOUBLE",
        "log_file": "VARCHAR",
    },
    "telemetry": _RUN
    | {
        "attempt": "VARCHAR",
        "node": "INTEGER",
        "gpu": "INTEGER",
        "at_s": "DOUBLE",
        "cpu_s": "DOUBLE",
        "cpus": "INTEGER",
        "job_cpu_s": "DOUBLE",
        "memory_used_bytes": "BIGINT",
        "network_received_bytes": "BIGINT",
        "network_sent_bytes": "BIGINT",
        "disk_read_bytes": "BIGINT",
        "disk_written_bytes": "BIGINT",
        "cpu_energy_j": "DOUBLE",
        "agent_cpu_s": "DOUBLE",
        "utilisation": "DOUBLE",
        "power_w": "DOUBLE",
        "energy_j": "DOUBLE",
        "sm_clock_hz": "DOUBLE",
        "memory_clock_hz": "DOUBLE",
        "temperature_c": "DOUBLE",
        "throttle_reasons": "VARCHAR[]",
        "pcie_received_bytes_per_s": "DOUBLE",
        "pcie_sent_bytes_per_s": "DOUBLE",
        "nvlink_received_bytes": "BIGINT",
        "nvlink_sent_bytes": "BIGINT",
    },
    "gpus": _RUN
    | {
        "node": "INTEGER",
        "gpu": "INTEGER",
        "uuid": "VARCHAR",
        "name": "VARCHAR",
        "memory_bytes": "BIGINT",
        "mig": "BOOLEAN",
        "energy_from_power": "BOOLEAN",
        "driver": "VARCHAR",
    },
    "unread": _RUN | {"node": "INTEGER", "gpu": "INTEGER", "what": "VARCHAR", "why": "VARCHAR"},
    "problems": _RUN | {"problem": "VARCHAR"},
}


STREAMED = ("steps", "telemetry")
"""Tables that are streamed from file to file, never held in memory."""


def threads() -> int:
    """Return the number of threads for reading records, limited since login nodes are shared."""
    return min(_MOST_THREADS, len(os.sched_getaffinity(0)))


def create_tables(database: duckdb.DuckDBPyConnection) -> None:
    """Create all tables except streamed ones, empty."""
    for table in COLUMNS:
        if table not in STREAMED:
            database.execute(f"CREATE TABLE {table} ({_definition(table)})")


def insert_rows(
    database: duckdb.DuckDBPyConnection, table: str, rows: Iterable[Mapping[str, Any]], work: Path
) -> None:
    """Insert rows, given as mappings with a value for every column of `table`.

    Write them to a file in `work` first: DuckDB takes a millisecond to insert a single row.
    """
    path = work / f"{table}.jsonl"
    path.write_text("".join(_line(row) for row in rows), encoding="utf-8")
    if path.stat().st_size == 0:
        return
    names = ", ".join(f"{name}: '{kind}'" for name, kind in COLUMNS[table].items())
    database.execute(
        f"INSERT INTO {table} BY NAME FROM read_json($path, format = 'newline_delimited', "
        f"hive_partitioning = false, columns = {{{names}}})",
        {"path": literal(path)},
    )


def fill(database: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert thousands of rows, with a value for every column of `table`."""
    if rows:
        places = ", ".join(f"unnest(${number})" for number in range(1, len(rows[0]) + 1))
        columns = [list(column) for column in zip(*rows, strict=True)]
        database.execute(f"INSERT INTO {table} SELECT {places}", columns)


def parquet(
    database: duckdb.DuckDBPyConnection,
    query: str,
    target: Path,
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Write the rows of a query to `target`, in order."""
    database.execute(
        f"COPY ({query}) TO $target ({_LAYOUT}, "
        f"KV_METADATA {{schema_version: '{TABLES_VERSION}', argosy: '{__version__}'}})",
        {"target": str(target), **(parameters or {})},
    )


def write_table(
    database: duckdb.DuckDBPyConnection,
    table: str,
    queries: Sequence[str],
    target: Path,
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Write the concatenated rows of queries as a table.

    Args:
        database: the connection that runs the queries.
        table: name in `COLUMNS`; each query has its columns, in any order.
        queries: SQL.
        target: the Parquet file.
        parameters: parameters of the queries.
    """
    parts = (f"SELECT {', '.join(COLUMNS[table])} FROM ({query})" for query in queries)
    parquet(database, " UNION ALL ".join(parts), target, parameters)


def set_view(database: duckdb.DuckDBPyConnection, name: str, path: Path) -> None:
    """Create the view `name` of the Parquet file `path`, without reading it."""
    # A variable, since a view takes no parameters and paths are never pasted into SQL.
    database.execute(f"SET VARIABLE {name}_path = $path", {"path": literal(path)})
    database.execute(
        f"CREATE VIEW {name} AS SELECT * "
        f"FROM read_parquet(getvariable('{name}_path'), hive_partitioning = false)"
    )


def write_tables(
    database: duckdb.DuckDBPyConnection,
    tables_dir: Path,
    kept: Sequence[Run],
    parts: Mapping[str, Path],
) -> None:
    """Write every table to `tables_dir`; replace the old files once all are written.

    Args:
        database: holds the new rows, except of `STREAMED` tables.
        tables_dir: the folder of the tables.
        kept: runs whose rows are copied from the old files.
        parts: Parquet files of new rows of `STREAMED` tables; they may be moved.
    """
    database.execute("CREATE TABLE kept (experiment VARCHAR, run_id VARCHAR)")
    fill(database, "kept", kept)
    with ExitStack() as files:
        for table in COLUMNS:
            target = files.enter_context(replacing(tables_dir / f"{table}.parquet"))
            if table in parts and not kept:
                parts[table].replace(target)
                target.chmod(0o666 & ~umask())
                continue
            queries = [_new_rows(table, table in parts)]
            if kept:
                set_view(database, f"old_{table}", tables_dir / f"{table}.parquet")
                old = f"FROM old_{table} SEMI JOIN kept USING (experiment, run_id)"
                queries.insert(0, old)
            write_table(database, table, queries, target)


def open_tables(tables_dir: Path) -> duckdb.DuckDBPyConnection:
    """Return a connection with a view for each table of `tables_dir`, without reading rows.

    Raises ResultsError if a table is missing, or has another schema version or other columns.
    """
    # One thread: the order of summation affects the last digit.
    database = duckdb.connect(config={"threads": 1})
    for table in COLUMNS:
        path = tables_dir / f"{table}.parquet"
        _check_table(database, path)
        set_view(database, table, path)
    return database


def fetch(
    tables: duckdb.DuckDBPyConnection, query: str, parameters: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return all rows of a query, as `rows_of`."""
    return rows_of(tables.execute(query, dict(parameters or {})))


def asked_of(relation: duckdb.DuckDBPyRelation, query: str) -> duckdb.DuckDBPyRelation:
    """Run a query on a relation, which the query calls `given`."""
    found = relation.query("given", query)
    if found is None:
        raise ValueError(f"not a query: {query}")
    return found


def rows_of(result: duckdb.DuckDBPyConnection | duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    """Return all rows as mappings of column to value, without control characters in texts."""
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, map(plain_texts, row), strict=True)) for row in result.fetchall()]


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps({name: plain_texts(value) for name, value in row.items()}) + "\n"


def literal(path: Path) -> str:
    """Return a path with DuckDB's glob characters escaped."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


_SORTED_BY = (
    *("experiment", "run_id", "attempt", "rank", "node", "gpu", "what", "at_s", "monotonic_s"),
    *("name", "bytes", "repetition", "place", "operation", "activity"),
)


def _definition(table: str) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in COLUMNS[table].items())


def _new_rows(table: str, has_part: bool) -> str:
    if has_part:
        return f"FROM new_{table}"
    if table in STREAMED:
        columns = (f"CAST(NULL AS {kind}) AS {name}" for name, kind in COLUMNS[table].items())
        return f"SELECT {', '.join(columns)} WHERE false"
    key = ", ".join(column for column in COLUMNS[table] if column in _SORTED_BY)
    return f"FROM {table} ORDER BY {key}"


def _check_table(database: duckdb.DuckDBPyConnection, path: Path) -> None:
    remedy = "rebuild the tables from the run folders"
    try:
        check_regular(path, path.parent)
    except NotReadError as problem:
        raise ResultsError(str(problem), remedy) from None
    except OSError:
        raise ResultsError(f"{path}: no such table", remedy) from None
    query = "SELECT decode(key), decode(value) FROM parquet_kv_metadata($path)"
    try:
        found = dict(database.execute(query, {"path": literal(path)}).fetchall())
    except duckdb.Error as problem:
        raise ResultsError(f"{path}: is not a table ({problem})", remedy) from problem
    version = found.get("schema_version", "missing")
    if version != str(TABLES_VERSION):
        writer = f", Argosy {found['argosy']} wrote it" if "argosy" in found else ""
        raise ResultsError(
            f"{path}: its schema_version is {version}{writer}; this Argosy reads {TABLES_VERSION}",
            remedy,
        )
    described = database.execute(
        "DESCRIBE FROM read_parquet($path, hive_partitioning = false)", {"path": literal(path)}
    )
    if {row[0]: row[1] for row in described.fetchall()} != COLUMNS[path.stem]:
        raise ResultsError(f"{path}: its columns do not match this table", remedy)
