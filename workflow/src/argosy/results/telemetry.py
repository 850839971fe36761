"""Loads the agents' samples of nodes and GPUs into the tables telemetry, gpus and unread."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from argosy.results.files import RecordFile, measured_files, read_header, with_clock
from argosy.results.lines import is_amount, lines, name_files
from argosy.results.measured_run import MeasuredRun
from argosy.results.rows import Row
from argosy.results.tables import COLUMNS, Run, fetch, set_view, write_table
from argosy.run_folder.models import Bytes, Record, Whole, as_model

VIEW = "new_telemetry"


class Gpu(Record):
    """A GPU of a node, from the header of a telemetry file."""

    gpu: Whole | None = None
    uuid: str | None = None
    name: str | None = None
    memory_bytes: Bytes | None = None
    mig: bool | None = None
    energy_from_power: bool | None = None


class TelemetryHeader(Record):
    """The first line of a telemetry file, with its keys about GPUs."""

    gpus: list[Gpu] | None = None
    driver: str | None = None
    unread: dict[str, str | None] | None = None


_OWN = ("experiment", "run_id", "attempt", "node", "at_s")
_SAMPLED = {name: kind for name, kind in COLUMNS["telemetry"].items() if name not in _OWN}

_AMOUNTS = [
    f'coalesce("{name}", 0)' for name, kind in _SAMPLED.items() if kind in ("BIGINT", "DOUBLE")
]
_IS_SAMPLE = (
    "coalesce(kind IN ('node', 'gpu') AND "
    + " AND ".join(is_amount(value) for value in ('"at"', *_AMOUNTS))
    + ", false)"
)
_SAMPLES = f"""
SELECT experiment, run_id, attempt, number AS node, "at" + offset_s AS at_s,
    {", ".join(f'"{name}"' for name in _SAMPLED)}
FROM {lines({"kind": "VARCHAR", "at": "DOUBLE", **_SAMPLED})}
WHERE {_IS_SAMPLE}
"""

_OTHER_LINES = lines(
    dict.fromkeys(("kind", "what", "why"), "VARCHAR") | {"at": "DOUBLE", **_SAMPLED}
)
# Headers, counters that a node could not read, and damaged lines.
_OTHERS = f"""
CREATE TABLE other_telemetry AS SELECT experiment, run_id, number AS node, kind, gpu, what, why
FROM {_OTHER_LINES}
WHERE NOT {_IS_SAMPLE}
"""
_UNREAD = """
INSERT INTO unread BY NAME
SELECT DISTINCT experiment, run_id, node, gpu, what, why FROM other_telemetry
WHERE kind = 'unread' AND what IS NOT NULL
"""
_DAMAGED = """
SELECT experiment, run_id, count(*) AS lines FROM other_telemetry
WHERE kind IS NULL OR kind NOT IN ('header', 'unread') GROUP BY ALL
"""


@dataclass(frozen=True)
class TelemetryFile(RecordFile):
    """A node's telemetry file, with its header."""

    header: TelemetryHeader = field(default_factory=TelemetryHeader)


_NODE = re.compile(r"telemetry-([0-9]{1,9})\.jsonl")


def telemetry_files(run: MeasuredRun) -> Iterator[TelemetryFile]:
    """Yield the telemetry files of a completed run's measurement.

    Raises RunFolderError for an unknown version, OSError for an unreadable file.
    """
    for file in measured_files(run, _NODE):
        keys = dict(read_header(Path(file.path)).keys)
        header = as_model(Path(file.path), keys, TelemetryHeader)
        found = TelemetryFile(**vars(file), header=header)
        yield with_clock(found, keys.get("unix"), keys.get("monotonic"))


def write_telemetry(
    database: duckdb.DuckDBPyConnection, files: Sequence[TelemetryFile], part: Path
) -> Counter[Run]:
    """Write the samples in `files` to `part`, and unreadable counters to `unread`.

    Returns the number of damaged lines by run.
    """
    paths = name_files(database, files)
    write_table(database, "telemetry", [_SAMPLES], part, paths)
    set_view(database, VIEW, part)
    database.execute(_OTHERS, paths)
    database.execute(_UNREAD)
    return Counter(
        {(row["experiment"], row["run_id"]): row["lines"] for row in fetch(database, _DAMAGED)}
    )


def gpu_rows(files: Sequence[TelemetryFile]) -> Iterator[Row]:
    """Yield a row of `gpus` for each GPU of a node, from the run's last job."""
    rows: dict[tuple[object, ...], Row] = {}
    for file in files:
        for gpu in file.header.gpus or ():
            row = _key(file) | {"driver": file.header.driver} | gpu.model_dump()
            rows[*file.run, file.number, row["gpu"]] = row
    yield from rows.values()


def unread_rows(files: Sequence[TelemetryFile]) -> Iterator[Row]:
    """Yield a row of `unread` for each counter that a node could never read."""
    for file in files:
        for what, why in (file.header.unread or {}).items():
            yield _key(file) | {"gpu": None, "what": what, "why": why}


def _key(file: TelemetryFile) -> Row:
    return {"experiment": file.experiment, "run_id": file.run_id, "node": file.number}
