"""The tables: their columns, how they are written and how they are opened.

A table is one Parquet file; its `schema_version` is in the file's metadata. Rows of all tables are
joined by (experiment, run_id).
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb

from argosy.files import replacing
from argosy.results.errors import ResultsError

TABLES_VERSION = 1
PHASES = ("data", "h2d", "forward", "backward", "communication", "update")

_RUN = {"experiment": "VARCHAR", "run_id": "VARCHAR"}
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "runs": _RUN
    | {
        "site": "VARCHAR",
        "nodes": "INTEGER",
        "ranks_per_node": "INTEGER",
        "ranks": "INTEGER",
        "repeat": "INTEGER",
        "scaling": "VARCHAR",
        "state": "VARCHAR",
        "incarnation": "VARCHAR",
        "pieces": "INTEGER",
        "started_unix_s": "DOUBLE",
        "ended_unix_s": "DOUBLE",
        "seconds": "DOUBLE",
        "hosts": "VARCHAR[]",
        "image_name": "VARCHAR",
        "image_digest": "VARCHAR",
        "failure": "VARCHAR",
        "unreadable_records": "BIGINT",
        "repeated_steps": "BIGINT",
        "missing_ranks": "INTEGER[]",
        "log_files": "VARCHAR[]",
        "provenance": "VARCHAR",
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
    "printed": _RUN | {"monotonic_s": "DOUBLE", "samples_per_s": "DOUBLE"},
    "nodes": _RUN
    | {
        "node": "INTEGER",
        "host": "VARCHAR",
        "cpu_model": "VARCHAR",
        "cpus": "INTEGER",
        "memory_bytes": "BIGINT",
        "kernel": "VARCHAR",
    },
    "failures": _RUN
    | {
        "incarnation": "VARCHAR",
        "state": "VARCHAR",
        "node": "INTEGER",
        "rank": "INTEGER",
        "cause": "VARCHAR",
        "lost_s": "DOUBLE",
        "log_file": "VARCHAR",
    },
}


def create_tables(database: duckdb.DuckDBPyConnection) -> None:
    """Create every table, empty."""
    for table, columns in COLUMNS.items():
        database.execute(f"CREATE TABLE {table} ({_definition(columns)})")


def insert_rows(
    database: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert rows given as mappings of every column of `table` to a value."""
    columns = COLUMNS[table]
    places = ", ".join(f"${column}" for column in columns)
    if rows:
        statement = f"INSERT INTO {table} BY POSITION VALUES ({places})"
        database.executemany(statement, [dict(row) for row in rows])


def write_tables(database: duckdb.DuckDBPyConnection, tables_dir: Path) -> None:
    """Write every table to `tables_dir`; the old files stay as they are until all are written."""
    with ExitStack() as files:
        for table, columns in COLUMNS.items():
            target = files.enter_context(replacing(tables_dir / f"{table}.parquet"))
            key = [column for column in columns if column in _SORTED_BY]
            database.execute(
                f"COPY (SELECT * FROM {table} ORDER BY {', '.join(key)}) TO $target "
                "(FORMAT parquet, COMPRESSION zstd, "
                f"KV_METADATA {{schema_version: '{TABLES_VERSION}'}})",
                {"target": str(target)},
            )


def open_tables(tables_dir: Path) -> duckdb.DuckDBPyConnection:
    """Give a connection with a view for each table of `tables_dir`; nothing is read yet.

    Raises ResultsError when a table is missing or of another schema version.
    """
    # With several threads the order of summation, and so the last digit, would be left to chance.
    database = duckdb.connect(config={"threads": 1})
    for table in COLUMNS:
        path = tables_dir / f"{table}.parquet"
        _check_table(database, path)
        # A view takes no parameters, and a path is never pasted into SQL: hence the variable.
        database.execute(f"SET VARIABLE {table}_path = $path", {"path": literal(path)})
        database.execute(
            f"CREATE VIEW {table} AS SELECT * "
            f"FROM read_parquet(getvariable('{table}_path'), hive_partitioning = false)"
        )
    return database


def fetch(
    tables: duckdb.DuckDBPyConnection, query: str, parameters: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """All rows of a query as mappings of column to value."""
    result = tables.execute(query, dict(parameters or {}))
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def literal(path: Path) -> str:
    """`path` with the characters that DuckDB would take as a pattern made literal."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


_SORTED_BY = ("experiment", "run_id", "incarnation", "rank", "node", "step", "at_s", "monotonic_s")


def _definition(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _check_table(database: duckdb.DuckDBPyConnection, path: Path) -> None:
    remedy = "make the tables again from the run folders"
    if not path.exists():
        raise ResultsError(f"{path}: no such table; {remedy}")
    query = (
        "SELECT decode(value) FROM parquet_kv_metadata($path) WHERE decode(key) = 'schema_version'"
    )
    try:
        found = database.execute(query, {"path": literal(path)}).fetchone()
    except duckdb.Error as problem:
        raise ResultsError(f"{path}: is not a table ({problem}); {remedy}") from problem
    if found != (str(TABLES_VERSION),):
        version = found[0] if found else "missing"
        raise ResultsError(
            f"{path}: its schema_version is {version}, this Argosy reads {TABLES_VERSION}; {remedy}"
        )
