"""Reading many files of JSON Lines at once, each line with whose it is, in the order of the files."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from io import BufferedReader
from pathlib import Path
from typing import Any

import duckdb

from argosy.results.tables import literal
from argosy_common.reading import check_regular, open_regular


def lines(columns: Mapping[str, str], known: Mapping[str, str]) -> str:
    """Return SQL that reads the files of `name_files`: a row for each line, with whose it is.

    That is `experiment`, `run_id` and `attempt`, which are folders of the file's path, and the numbers
    that are `known` of the file. A line that cannot be parsed is a row of NULL beside those. They
    are taken from path and place of the file because a join would lose the order of lines, and a list of
    texts would be copied for every few rows that DuckDB reads.

    Args:
        columns: types by key of the lines.
        known: types by name.
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
    """Return the folder below which nothing is trusted, of a file of records or a copy of one."""
    above = path.parents
    return above[min(4, len(above) - 1)]


def open_records(path: Path | str) -> AbstractContextManager[BufferedReader]:
    """Open a file of records, or a copy of one. Raises OSError."""
    return open_regular(Path(path), site_of_records(Path(path)))


def is_amount(value: str) -> str:
    """Return SQL that says whether a number is one that can be measured: finite, and not below 0.

    It says NULL of NULL. NaN is above every number.
    """
    return f"{value} BETWEEN 0 AND 1e300"


def is_whole(value: str, most: int) -> str:
    """Return SQL that says whether a number is a count: whole, from 0 to `most`."""
    return f"({value} BETWEEN 0 AND {most} AND {value} = floor({value}))"


def name_files(
    database: duckdb.DuckDBPyConnection, known: Mapping[str, str], files: Sequence[Any]
) -> dict[str, list[str]]:
    """Name the files that `lines` reads next, and see that they are files; returns that query's parameters.

    Raises OSError for what is none.

    Args:
        known: as for `lines`.
        files: dataclasses with the fields `path` and those that are known.
    """
    for name, kind in known.items():
        values = [getattr(file, name) for file in files]
        database.execute(
            f"SET VARIABLE file_{name} = CAST($values AS {kind}[])", {"values": values}
        )
    paths = [Path(file.path) for file in files]
    for path in paths:
        # DuckDB opens files by their names, follows links, and would wait for a pipe.
        check_regular(path, site_of_records(path))
    return {"paths": [literal(path) for path in paths]}
