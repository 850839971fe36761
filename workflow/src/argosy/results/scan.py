"""Which runs there are, and which of them have to be read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from argosy.results.errors import ResultsError
from argosy.results.fingerprint import list_run
from argosy.results.measured_run import MeasuredRun, read_run
from argosy.results.records import RecordFile, read_problem, record_files
from argosy.results.rows import Row
from argosy.results.step_rows import StepFile, step_files
from argosy.results.tables import Run
from argosy.results.telemetry import TelemetryFile, telemetry_files
from argosy.results.timeline import Timeline, run_timeline
from argosy_common.errors import ArgosyError, plain
from argosy_common.reading import entries


@dataclass(frozen=True)
class NewRun:
    """A run that was read, and the files of its measurement."""

    folder: MeasuredRun
    steps: Sequence[StepFile]
    files: Sequence[RecordFile]
    telemetry: Sequence[TelemetryFile]
    timeline: Timeline

    @property
    def paths(self) -> list[str]:
        """Of the files of its measurement."""
        kinds = (self.steps, self.files, self.telemetry)
        return [file.path for files in kinds for file in files]

    @property
    def key(self) -> Run:
        return self.folder.asked.experiment, self.folder.asked.run_id


@dataclass(frozen=True)
class Found:
    """The runs of a site: those to be read, those as they were, and rows of `problems`."""

    new: list[NewRun] = field(default_factory=list)
    kept: list[Run] = field(default_factory=list)
    problems: list[Row] = field(default_factory=list)

    def note(self, run: Run, problem: Exception) -> None:
        """Remember why a run cannot be read."""
        texts = (plain(" ".join(text.split("\n"))) for text in (*run, str(problem)))
        row = dict(zip(("experiment", "run_id", "problem"), texts, strict=True))
        self.problems.append(row)

    def drop_culprit(self, problem: duckdb.Error | OSError) -> bool:
        """Take out the run with the file that DuckDB could not read, as one that was removed meanwhile.

        Whether there is one: DuckDB says a file's name where a file is at fault. It may have read a copy,
        whose path ends as that of the file itself does.
        """
        for run in self.new:
            if isinstance(problem, OSError) and problem.filename in run.paths:
                self.new.remove(run)
                self.note(run.key, problem)
                return True
            if any(f'/{"/".join(Path(path).parts[-5:])}"' in str(problem) for path in run.paths):
                self.new.remove(run)
                self.note(
                    run.key, read_problem(problem) if isinstance(problem, duckdb.Error) else problem
                )
                return True
        return False


def look(results_dir: Path, runs: Sequence[Path] | None, known: Mapping[Run, str]) -> Found:
    """Look at the runs; read small files and timelines of those whose fingerprint is not `known`."""
    found = Found()
    for folder in _run_folders(results_dir, found) if runs is None else _in_order(runs):
        key = (folder.parent.name, folder.name)
        try:
            # A backslash is no part of a name where DuckDB looks for files.
            if any(plain(name) != name or "\\" in name for name in key):
                raise ResultsError(f"{folder}: its name has characters that no name has")
            listing = list_run(folder)
            if known.get(key) == listing.fingerprint:
                found.kept.append(key)
            else:
                run = read_run(listing)
                steps, records = [*step_files(run)], [*record_files(run)]
                telemetry = [*telemetry_files(run)]
                found.new.append(NewRun(run, steps, records, telemetry, run_timeline(run)))
        except (ArgosyError, OSError) as problem:
            found.note(key, problem)
    return found


def _run_folders(results_dir: Path, found: Found) -> Iterator[Path]:
    """Yield the folders of runs, and those that may be; a folder that cannot be listed is a problem."""
    # Those that are links are listed as well: that they are not read is said of each run.
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
