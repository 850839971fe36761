"""Builds the tables of a site from its run folders."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from argosy.results.errors import ResultsError
from argosy.results.files import RecordFile
from argosy.results.fingerprint import list_run
from argosy.results.long_lines import without_long_lines
from argosy.results.measured_run import MeasuredRun, read_run
from argosy.results.own_tables import is_own, mark
from argosy.results.records import (
    load_others,
    printed_files,
    read_problem,
    record_files,
    unreadable_lines,
)
from argosy.results.rows import (
    Completeness,
    Row,
    failure_rows,
    node_rows,
    printed_loss_rows,
    run_row,
)
from argosy.results.step_rows import StepFile, step_files
from argosy.results.steps import Steps, write_steps
from argosy.results.tables import (
    COLUMNS,
    Run,
    create_tables,
    fetch,
    insert_rows,
    open_tables,
    threads,
    write_tables,
)
from argosy.results.telemetry import (
    TelemetryFile,
    gpu_rows,
    telemetry_files,
    unread_rows,
    write_telemetry,
)
from argosy.results.timeline import Timeline, run_timeline, timeline_rows
from argosy_common.errors import ArgosyError, plain
from argosy_common.reading import NotReadError, entries

_MEMORY = "300MiB"
"""DuckDB's memory limit on a login node; it spills the rest to disk."""


@dataclass(frozen=True)
class _Tables:
    """The existing tables: each run's fingerprint, and whether there are rows of `problems`."""

    fingerprints: Mapping[Run, str]
    has_problems: bool


@dataclass(frozen=True)
class NewRun:
    """A newly read run, and the files of its measurement."""

    folder: MeasuredRun
    steps: Sequence[StepFile]
    records: Sequence[RecordFile]
    printed: Sequence[RecordFile]
    telemetry: Sequence[TelemetryFile]
    timeline: Timeline

    @property
    def paths(self) -> list[str]:
        """Paths of the measurement's files."""
        kinds = (self.steps, self.records, self.printed, self.telemetry)
        return [file.path for files in kinds for file in files]


@dataclass(frozen=True)
class Found:
    """The runs of a site: new or changed ones, unchanged ones, and rows of `problems`."""

    new: list[NewRun] = field(default_factory=list)
    kept: list[Run] = field(default_factory=list)
    problems: list[Row] = field(default_factory=list)

    def note(self, run: Run, problem: Exception) -> None:
        """Record why a run is unreadable."""
        texts = (plain(" ".join(text.split("\n"))) for text in (*run, str(problem)))
        row = dict(zip(("experiment", "run_id", "problem"), texts, strict=True))
        self.problems.append(row)

    def drop_culprit(self, problem: duckdb.Error | OSError) -> bool:
        """Move the run whose file DuckDB could not read to the problems; return whether there is one.

        DuckDB's message names the file. It may be a copy, whose path ends like the original's.
        """
        for run in self.new:
            if isinstance(problem, OSError) and problem.filename in run.paths:
                self.new.remove(run)
                self.note(run.folder.key, problem)
                return True
            if any(f'/{"/".join(Path(path).parts[-5:])}"' in str(problem) for path in run.paths):
                self.new.remove(run)
                odd = read_problem(problem) if isinstance(problem, duckdb.Error) else problem
                self.note(run.folder.key, odd)
                return True
        return False


def collect(
    results_dir: Path,
    tables_dir: Path,
    runs: Sequence[Path] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Update the tables in `tables_dir` from the runs below `results_dir` (results/<site>).

    Runs with unchanged files are not read again. An unreadable or invalid run folder is a row of `problems`
    only.

    Args:
        runs: run folders to include; None: all below `results_dir`.

    Raises:
        ResultsError: if `results_dir` is missing or `tables_dir` is a link; the old tables stay.
    """
    results_dir = results_dir.absolute()
    if not results_dir.is_dir():
        raise ResultsError(f"{results_dir}: no such folder", "run an experiment first")
    _check_no_link(tables_dir)
    old = _read_tables(tables_dir, say)
    found = look(results_dir, runs, old.fingerprints if old else {})
    if old and _is_up_to_date(old, found):
        say(f"{len(found.kept)} runs, none of them new")
        return
    tables_dir.mkdir(parents=True, exist_ok=True)
    say(
        f"{len(found.new)} {'run' if len(found.new) == 1 else 'runs'} to read, "
        f"{len(found.kept)} unchanged, {len(found.problems)} unreadable"
    )
    while not _made_tables(tables_dir, found):
        pass


def _check_no_link(tables_dir: Path) -> None:
    """Refuse a link: foreign results could redirect the files written here."""
    if tables_dir.is_symlink():
        raise ResultsError(f"{tables_dir}: is a symbolic link", "replace it by a folder")


def _made_tables(tables_dir: Path, found: Found) -> bool:
    """Return whether all runs were read; if not, move the unreadable run to the problems.

    Raises ResultsError for a fault that no run causes, such as a full disk.
    """
    with tempfile.TemporaryDirectory(prefix=".collect-", dir=tables_dir) as work:
        try:
            _make_tables(tables_dir, found, Path(work))
        except (duckdb.Error, NotReadError) as problem:
            if found.drop_culprit(problem):
                return False
            if isinstance(problem, NotReadError):
                raise ResultsError(str(problem)) from problem
            raise read_problem(problem) from problem
    return True


def _read_tables(tables_dir: Path, say: Callable[[str], None]) -> _Tables | None:
    """Return the state of the existing tables; print a reason and return None if they are unusable."""
    files = [tables_dir / f"{table}.parquet" for table in COLUMNS]
    if not any(file.exists() for file in files):
        return None
    try:
        with open_tables(tables_dir) as tables:
            for file in files:
                if not is_own(file):
                    raise ResultsError(f"{file}: not written by you, or changed since")
            rows = fetch(tables, "SELECT experiment, run_id, files_fingerprint FROM runs")
            problems = fetch(tables, "SELECT 1 FROM problems LIMIT 1")
    except ResultsError as problem:
        say(f"{problem.problem}: rebuilding the tables from the run folders")
        return None
    prints = {(row["experiment"], row["run_id"]): row["files_fingerprint"] for row in rows}
    return _Tables(prints, bool(problems))


def _is_up_to_date(old: _Tables, found: Found) -> bool:
    changed = found.new or found.problems or old.has_problems
    return not changed and len(found.kept) == len(old.fingerprints)


def _make_tables(tables_dir: Path, found: Found, work: Path) -> None:
    records = without_long_lines([file for run in found.new for file in run.records], work)
    printed = without_long_lines([file for run in found.new for file in run.printed], work)
    of_nodes = without_long_lines([file for run in found.new for file in run.telemetry], work)
    steps: Mapping[Run, Steps] = {}
    parts = {}
    unreadable = Counter({run.folder.key: run.timeline.unreadable for run in found.new})
    with duckdb.connect(config={"memory_limit": _MEMORY, "threads": threads()}) as database:
        database.execute("SET temp_directory = $path", {"path": str(work / "spilled")})
        create_tables(database)
        if of_ranks := [file for run in found.new for file in run.steps]:
            parts["steps"] = work / "steps.parquet"
            steps = write_steps(database, of_ranks, parts["steps"])
        if of_nodes:
            parts["telemetry"] = work / "telemetry.parquet"
            unreadable += write_telemetry(database, of_nodes, parts["telemetry"])
        load_others(database, records, printed)
        unreadable += unreadable_lines(database)
        rows: Mapping[str, Iterable[Row]] = {
            "runs": (
                run_row(run.folder, _completeness(run.folder, steps, unreadable))
                for run in found.new
            ),
            "metrics": (row for run in found.new for row in printed_loss_rows(run.folder)),
            "nodes": (row for run in found.new for row in node_rows(run.folder)),
            "failures": (row for run in found.new for row in failure_rows(run.folder)),
            "timeline": (
                row for run in found.new for row in timeline_rows(run.folder, run.timeline)
            ),
            "gpus": gpu_rows(of_nodes),
            "unread": unread_rows(of_nodes),
            "problems": found.problems,
        }
        for table, of_table in rows.items():
            insert_rows(database, table, of_table, work)
        write_tables(database, tables_dir, found.kept, parts)
    for table in COLUMNS:
        mark(tables_dir / f"{table}.parquet")


def _completeness(
    run: MeasuredRun, of_runs: Mapping[Run, Steps], unreadable: Counter[Run]
) -> Completeness:
    """Describe a run; `unreadable` counts its lines."""
    if run.state != "completed":
        return Completeness()
    steps, restarts = of_runs.get(run.key, Steps()), run.restarts
    # After losing nodes some ranks have fewer steps.
    is_whole = restarts is None or min(restarts.nodes) == run.asked.nodes
    return Completeness(
        unreadable_records=unreadable[run.key] + steps.unreadable,
        repeated_steps=steps.repeated,
        duplicate_steps=steps.duplicates,
        missing_steps=steps.missing if is_whole else 0,
        missing_ranks=tuple(sorted({*range(run.asked.processes)} - {*steps.ranks})),
        clock_spread_s=steps.clock_spread_s,
    )


def look(results_dir: Path, runs: Sequence[Path] | None, known: Mapping[Run, str]) -> Found:
    """List the runs; read small files and timelines of runs whose fingerprint is not `known`."""
    found = Found()
    for folder in _run_folders(results_dir, found) if runs is None else _in_order(runs):
        key = (folder.parent.name, folder.name)
        try:
            # DuckDB does not accept a backslash in file names.
            if any(plain(name) != name or "\\" in name for name in key):
                raise ResultsError(f"{folder}: its name has forbidden characters")
            listing = list_run(folder)
            if known.get(key) == listing.fingerprint:
                found.kept.append(key)
            else:
                run = read_run(listing)
                found.new.append(
                    NewRun(
                        run,
                        [*step_files(run)],
                        [*record_files(run)],
                        [*printed_files(run)],
                        [*telemetry_files(run)],
                        run_timeline(run),
                    )
                )
        except (ArgosyError, OSError) as problem:
            found.note(key, problem)
    return found


def _run_folders(results_dir: Path, found: Found) -> Iterator[Path]:
    """Yield folders that are or may be runs; record an unreadable folder as a problem."""
    # Links are listed too, so that each gets a row of `problems`.
    names = sorted(entry.name for entry in entries(results_dir, results_dir) if entry.is_dir())
    for experiment in (results_dir / name for name in names):
        try:
            runs = sorted(entry.name for entry in entries(experiment, experiment))
            yield from filter(_may_be_run, (experiment / name for name in runs))
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
