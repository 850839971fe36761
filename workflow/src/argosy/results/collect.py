"""The room's one door: run folders in, tables out."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from argosy.results.errors import ResultsError
from argosy.results.fingerprint import fingerprint
from argosy.results.records import RecordFile, count_others, load_others, record_files
from argosy.results.rows import Completeness, Row, failure_rows, node_rows, run_row
from argosy.results.run_folder import RunFolder, read_run
from argosy.results.steps import Run, Steps, write_steps
from argosy.results.tables import (
    create_tables,
    fetch,
    insert_rows,
    open_tables,
    write_tables,
)
from argosy.results.telemetry import (
    TelemetryFile,
    gpu_rows,
    telemetry_files,
    unread_rows,
    write_telemetry,
)

_MEMORY = "300MiB"
"""What DuckDB may take of a login node's memory; what needs more goes to a file."""


@dataclass(frozen=True)
class _Tables:
    """What is in the tables already: the fingerprint of each run, and whether some could not be read."""

    fingerprints: Mapping[Run, str]
    has_problems: bool


@dataclass(frozen=True)
class _NewRun:
    """A run that was read, and the files of its measurement."""

    folder: RunFolder
    fingerprint: str
    files: Sequence[RecordFile]
    telemetry: Sequence[TelemetryFile]

    @property
    def key(self) -> Run:
        return self.folder.asked.experiment, self.folder.asked.run_id


@dataclass(frozen=True)
class _Found:
    """The runs of a site: those to be read, those as they were, and rows of `problems`."""

    new: list[_NewRun] = field(default_factory=list)
    kept: list[Run] = field(default_factory=list)
    problems: list[Row] = field(default_factory=list)

    def note(self, run: Run, problem: Exception) -> None:
        """Remember why a run cannot be read."""
        row = {"experiment": run[0], "run_id": run[1], "problem": str(problem)}
        self.problems.append(row)


def collect(
    results_dir: Path,
    tables_dir: Path,
    runs: Sequence[Path] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Bring the tables of the runs below `results_dir` (results/<site>) in `tables_dir` up to date.

    Runs whose files are as they were when they were read last are not read again. A run folder that
    cannot be read, or breaks the contract, is in the table `problems` and in no other.

    Args:
        runs: the run folders to be in the tables; None: every folder of a run below `results_dir`.
        say: is told what is done.

    Raises:
        ResultsError: when `results_dir` is missing; the old tables stay.
    """
    results_dir = results_dir.absolute()
    if not results_dir.is_dir():
        raise ResultsError(f"{results_dir}: no such folder; run an experiment first")
    old = _read_tables(tables_dir)
    found = _look(results_dir, runs, old.fingerprints if old else {})
    if old and _is_up_to_date(old, found):
        say(f"{len(found.kept)} runs, none of them new")
        return
    say(
        f"{len(found.new)} runs to read, {len(found.kept)} as they were, "
        f"{len(found.problems)} that cannot be read"
    )
    tables_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".collect-", dir=tables_dir) as work:
        _make_tables(results_dir, tables_dir, found, Path(work))


def _read_tables(tables_dir: Path) -> _Tables | None:
    """None when there are no tables, or those of another version."""
    try:
        with open_tables(tables_dir) as tables:
            rows = fetch(tables, "SELECT experiment, run_id, files_fingerprint FROM runs")
            problems = fetch(tables, "SELECT 1 FROM problems LIMIT 1")
    except ResultsError:
        return None
    prints = {(row["experiment"], row["run_id"]): row["files_fingerprint"] for row in rows}
    return _Tables(prints, bool(problems))


def _is_up_to_date(old: _Tables, found: _Found) -> bool:
    changed = found.new or found.problems or old.has_problems
    return not changed and len(found.kept) == len(old.fingerprints)


def _look(results_dir: Path, runs: Sequence[Path] | None, known: Mapping[Run, str]) -> _Found:
    found = _Found()
    for folder in _run_folders(results_dir, found) if runs is None else _in_order(runs):
        key = (folder.parent.name, folder.name)
        try:
            state = fingerprint(folder)
            if known.get(key) == state:
                found.kept.append(key)
            else:
                run = read_run(folder)
                files, telemetry = [*record_files(run)], [*telemetry_files(run)]
                found.new.append(_NewRun(run, state, files, telemetry))
        except (ResultsError, OSError) as problem:
            found.note(key, problem)
    return found


def _run_folders(results_dir: Path, found: _Found) -> Iterator[Path]:
    """The folders of runs, and those that may be; a folder that cannot be listed is a problem."""
    for experiment in sorted(results_dir.glob("*/")):
        try:
            yield from filter(_may_be_run, sorted(experiment.iterdir()))
        except OSError as problem:
            found.note((experiment.name, ""), problem)


def _in_order(runs: Sequence[Path]) -> list[Path]:
    return sorted({path.absolute() for path in runs})


def _may_be_run(folder: Path) -> bool:
    try:
        (folder / "run.json").lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        pass
    return True


def _make_tables(results_dir: Path, tables_dir: Path, found: _Found, work: Path) -> None:
    files = [file for run in found.new for file in run.files]
    of_nodes = [file for run in found.new for file in run.telemetry]
    steps, parts = Steps(), {}
    with duckdb.connect(config={"memory_limit": _MEMORY}) as database:
        database.execute("SET temp_directory = $path", {"path": str(work / "spilled")})
        create_tables(database)
        if of_ranks := [file for file in files if file.rank is not None]:
            parts["steps"] = work / "steps.parquet"
            steps = write_steps(database, of_ranks, parts["steps"])
        if of_nodes:
            parts["telemetry"] = work / "telemetry.parquet"
            write_telemetry(database, of_nodes, parts["telemetry"])
        load_others(database, files, steps.counts)
        others = count_others(database)
        rows: Mapping[str, Iterable[Row]] = {
            "runs": (
                run_row(run.folder, _completeness(run, steps, others), run.fingerprint, results_dir)
                for run in found.new
            ),
            "nodes": (row for run in found.new for row in node_rows(run.folder)),
            "failures": (row for run in found.new for row in failure_rows(run.folder, results_dir)),
            "gpus": gpu_rows(of_nodes),
            "unread": unread_rows(of_nodes),
            "problems": found.problems,
        }
        for table, of_table in rows.items():
            insert_rows(database, table, of_table, work)
        write_tables(database, tables_dir, found.kept, parts)


def _completeness(
    run: _NewRun, steps: Steps, others: Mapping[Run, Mapping[str, int]]
) -> Completeness:
    if run.folder.state != "completed":
        return Completeness()
    ranks = steps.ranks_of(run.key)
    lines = others.get(run.key, {})
    return Completeness(
        unreadable_records=lines.get("unreadable", 0),
        repeated_steps=lines.get("repeated", 0),
        duplicate_steps=steps.duplicates.get(run.key, 0),
        missing_steps=steps.missing.get(run.key, 0),
        missing_ranks=tuple(rank for rank in range(run.folder.ranks) if rank not in ranks),
        clock_spread_s=steps.clock_spreads_s.get(run.key),
    )
