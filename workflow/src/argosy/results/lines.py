"""Reads many files of JSON Lines at once, in file order, with the run and attempt of each line."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from argosy.results.files import RecordFile, site_of_records
from argosy.results.tables import literal
from argosy_common.reading import check_regular

_OF_FILE = {"number": "INTEGER", "offset_s": "DOUBLE", "until_step": "BIGINT"}
"""Types of the numbers of a `RecordFile`."""


def lines(columns: Mapping[str, str]) -> str:
    """Return SQL that reads the files of `name_files`, with a row for each line.

    `columns` are types by key of the lines. Each row also has `experiment`, `run_id` and `attempt`, from
    the file's path, and the numbers of its file. An invalid line has NULL in the other columns. Path and
    index identify the file because a join would lose the order of lines, and DuckDB would copy a list of
    texts for every few rows.
    """
    types = ", ".join(f"'{key}': '{kind}'" for key, kind in columns.items())
    place = "CAST(file_index AS INTEGER) + 1"
    numbers = "".join(f", getvariable('file_{name}')[{place}] AS {name}" for name in _OF_FILE)
    return f"""(
    SELECT * EXCLUDE filename, split_part(filename, '/', -5) AS experiment,
        split_part(filename, '/', -4) AS run_id, split_part(filename, '/', -2) AS attempt{numbers}
    FROM read_json(
        $paths, format = 'newline_delimited', ignore_errors = true, hive_partitioning = false,
        filename = true, columns = {{{types}}}
    )
)"""


def is_amount(value: str) -> str:
    """Return an SQL condition: a number is finite and not negative. NULL gives NULL.

    DuckDB sorts NaN above every number.
    """
    return f"{value} BETWEEN 0 AND 1e300"


def is_whole(value: str, most: int) -> str:
    """Return an SQL condition: a number is an integer from 0 to `most`."""
    return f"({value} BETWEEN 0 AND {most} AND {value} = floor({value}))"


def name_files(
    database: duckdb.DuckDBPyConnection, files: Sequence[RecordFile]
) -> dict[str, list[str]]:
    """Set the files that the query of `lines` reads next; return the query's parameters.

    Raises:
        OSError: if one is not a regular file.
    """
    for name, kind in _OF_FILE.items():
        values = [getattr(file, name) for file in files]
        database.execute(
            f"SET VARIABLE file_{name} = CAST($values AS {kind}[])", {"values": values}
        )
    paths = [Path(file.path) for file in files]
    for path in paths:
        # DuckDB follows links, and would wait for a pipe.
        check_regular(path, site_of_records(path))
    return {"paths": [literal(path) for path in paths]}
