"""Reading many files of JSON Lines at once, each line with whose it is, in the order of the files."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import duckdb

from argosy.results.tables import literal


def lines(columns: Mapping[str, str]) -> str:
    """SQL that reads the files named last: a row for each line, `file` is what is known of its file.

    `columns` are types by key. A line that cannot be parsed is a row of NULL. The place of a file in
    the list tells whose a line is: a join with a table would lose the order of lines.
    """
    types = ", ".join(f"'{key}': '{kind}'" for key, kind in columns.items())
    return f"""(
    SELECT *, getvariable('files')[CAST(file_index AS INTEGER) + 1] AS file
    FROM read_json(
        $paths, format = 'newline_delimited', ignore_errors = true, hive_partitioning = false,
        columns = {{{types}}}
    )
)"""


def name_files(
    database: duckdb.DuckDBPyConnection, columns: str, files: Sequence[Any]
) -> dict[str, list[str]]:
    """Name the files that `lines` reads next; returns the parameters of that query.

    Args:
        columns: names and types of the dataclasses' fields, in SQL.
        files: dataclasses of one kind with a field `path`; at least one.
    """
    values = [list(column) for column in zip(*map(astuple, files), strict=True)]
    unnested = ", ".join(f"unnest(${place})" for place in range(1, len(values) + 1))
    database.execute(f"CREATE OR REPLACE TEMP TABLE named ({columns})")
    database.execute(f"INSERT INTO named SELECT {unnested}", values)
    database.execute("SET VARIABLE files = (SELECT list(named ORDER BY rowid) FROM named)")
    return {"paths": [literal(Path(file.path)) for file in files]}
