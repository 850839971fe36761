"""Loads the agents' samples of nodes and GPUs into the tables telemetry, gpus and unread."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from argosy.results.lines import is_amount, lines, name_files
from argosy.results.measured_run import MeasuredRun
from argosy.results.records import Header, read_header
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
_OF_FILE = {"node": "INTEGER", "offset_s": "DOUBLE"}

_AMOUNTS = [
    f'coalesce("{name}", 0)' for name, kind in _SAMPLED.items() if kind in ("BIGINT", "DOUBLE")
]
_IS_SAMPLE = (
    "coalesce(kind IN ('node', 'gpu') AND "
    + " AND ".join(is_amount(value) for value in ('"at"', *_AMOUNTS))
    + ", false)"
)
_SAMPLES = f"""
SELECT experiment, run_id, attempt, node, "at" + offset_s AS at_s,
    {", ".join(f'"{name}"' for name in _SAMPLED)}
FROM {lines({"kind": "VARCHAR", "at": "DOUBLE", **_SAMPLED}, _OF_FILE)}
WHERE {_IS_SAMPLE}
"""

_OTHER_LINES = lines(
    dict.fromkeys(("kind", "what", "why"), "VARCHAR") | {"at": "DOUBLE", **_SAMPLED}, _OF_FILE
)
# Headers, counters that a node could not read, and damaged lines.
_OTHERS = f"""
CREATE TABLE other_telemetry AS SELECT experiment, run_id, node, kind, gpu, what, why
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
class TelemetryFile:
    """A node's telemetry file.

    `offset_s` converts the node's monotonic seconds to seconds since the start of the run's last job.
    """

    path: str
    experiment: str
    run_id: str
    attempt: str
    node: int
    offset_s: float | None


def telemetry_files(run: MeasuredRun) -> Iterator[TelemetryFile]:
    """Yield the telemetry files of a completed run's measurement.

    Raises RunFolderError for an unknown version, OSError for an unreadable file.
    """
    if run.state != "completed" or run.result is None:
        return
    for piece in run.pieces:
        for path in run.records(piece.attempt):
            if number := re.fullmatch(r"telemetry-(\d+)\.jsonl", path.name):
                header = read_header(path)
                _model_of(path, header)
                yield TelemetryFile(
                    path=str(path),
                    experiment=run.asked.experiment,
                    run_id=run.asked.run_id,
                    attempt=piece.attempt,
                    node=int(number[1]),
                    offset_s=header.offset_s(run.result.started),
                )


def write_telemetry(
    database: duckdb.DuckDBPyConnection, files: Sequence[TelemetryFile], part: Path
) -> Mapping[Run, int]:
    """Write the samples in `files` to `part`, and unreadable counters to `unread`.

    Returns the number of damaged lines by run.
    """
    paths = name_files(database, _OF_FILE, files)
    write_table(database, "telemetry", [_SAMPLES], part, paths)
    set_view(database, VIEW, part)
    database.execute(_OTHERS, paths)
    database.execute(_UNREAD)
    return {(row["experiment"], row["run_id"]): row["lines"] for row in fetch(database, _DAMAGED)}


def gpu_rows(files: Sequence[TelemetryFile]) -> Iterator[Row]:
    """Yield a row of `gpus` for each GPU of a node, from the run's last job."""
    rows: dict[tuple[object, ...], Row] = {}
    for file in files:
        header = _read_header(Path(file.path))
        for gpu in header.gpus or ():
            row = _key(file) | {"driver": header.driver} | gpu.model_dump()
            rows[file.experiment, file.run_id, file.node, row["gpu"]] = row
    yield from rows.values()


def unread_rows(files: Sequence[TelemetryFile]) -> Iterator[Row]:
    """Yield a row of `unread` for each counter that a node could never read."""
    for file in files:
        for what, why in (_read_header(Path(file.path)).unread or {}).items():
            yield _key(file) | {"gpu": None, "what": what, "why": why}


def _read_header(path: Path) -> TelemetryHeader:
    return _model_of(path, read_header(path))


def _model_of(path: Path, header: Header) -> TelemetryHeader:
    return as_model(path, dict(header.keys), TelemetryHeader)


def _key(file: TelemetryFile) -> Row:
    return {"experiment": file.experiment, "run_id": file.run_id, "node": file.node}
