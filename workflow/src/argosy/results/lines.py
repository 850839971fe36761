"""Reads many files of JSON Lines at once, in file order, with the run and attempt of each line."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from io import BufferedReader
from pathlib import Path
from typing import Any

import duckdb

from argosy.results.tables import literal
from argosy_common.reading import check_regular, open_regular


def lines(columns: Mapping[str, str], known: Mapping[str, str]) -> str:
    """Return SQL that reads the files of `name_files`, with a row for each line.

    Each row also has `experiment`, `run_id` and `attempt`, from the file's path, and the `known` numbers of
    its file. An invalid line has NULL in the other columns. Path and index identify the file because a join
    would lose the order of lines, and DuckDB would copy a list of texts for every few rows.

    Args:
        columns: types by key of the lines.
        known: types by name of the file's numbers.
    """
    types = ", ".join(f"'{key}': '{kind}'" for key, kind in columns.items())
    place = "CAST(file_index AS INTEGER) + 1"
    numbers = "".join(f", getvariable('file_{name}')[{place}] AS {name}" for name in known)
    return f"""(
    SELECT * EXCLUDE filename, split_part(filename, '/', -5) AS experiment,
        split_part(filename, '/', -4) AS run_id, split_part(filename, '/', -2) AS attempt{numbers}
    FROM read_json(
        $paths, format = 'newline_delimited', ignore_errors = true, hive_partitioning = false,
        filename = true, columns = {{{types}}}
    )
)"""


def site_of_records(path: Path) -> Path:
    """Return the folder below which files are untrusted, for a file of records or its copy."""
    above = path.parents
    return above[min(4, len(above) - 1)]


def open_records(path: Path | str) -> AbstractContextManager[BufferedReader]:
    """Open a file of records or its copy. Raises OSError."""
    return open_regular(Path(path), site_of_records(Path(path)))


def is_amount(value: str) -> str:
    """Return an SQL condition: a number is finite and not negative. NULL gives NULL.

    DuckDB sorts NaN above every number.
    """
    return f"{value} BETWEEN 0 AND 1e300"


def is_whole(value: str, most: int) -> str:
    """Return an SQL condition: a number is an integer from 0 to `most`."""
    return f"({value} BETWEEN 0 AND {most} AND {value} = floor({value}))"


def name_files(
    database: duckdb.DuckDBPyConnection, known: Mapping[str, str], files: Sequence[Any]
) -> dict[str, list[str]]:
    """Set the files that the query of `lines` reads next; return the query's parameters.

    Args:
        database: the connection of the query.
        known: as for `lines`.
        files: dataclasses with the fields `path` and the known ones.

    Raises:
        OSError: if one is not a regular file.
    """
    for name, kind in known.items():
        values = [getattr(file, name) for file in files]
        database.execute(
            f"SET VARIABLE file_{name} = CAST($values AS {kind}[])", {"values": values}
        )
    paths = [Path(file.path) for file in files]
    for path in paths:
        # DuckDB follows links, and would wait for a pipe.
        check_regular(path, site_of_records(path))
    return {"paths": [literal(path) for path in paths]}
