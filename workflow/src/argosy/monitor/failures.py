"""Prints the failed runs of a site, each with its cause, at the end of a workflow."""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from argosy.jobs.driver import JobError, ToldErrors
from argosy.monitor.jobs import NewestJob, job_logs, newest_job
from argosy.monitor.run_state import RunState, RunView
from argosy.monitor.sites import CLOCKS_S, PLANNED, planned_runs, run_folders
from argosy.monitor.study import Study
from argosy.run_folder.failures import log_of
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.log_tail import last_lines
from argosy.run_folder.models import Failure
from argosy.terminal import plural
from argosy_common.errors import plain, some
from argosy_common.reading import status_of

ENDED_EARLY = (RunState.CANCELLED, RunState.INTERRUPTED)
STATES = (RunState.FAILED, RunState.GONE, RunState.UNREADABLE, *ENDED_EARLY)
MOST_CAUSES = 20
MOST_NAMES = 5
LINES = 40
OF_STARTS = ("it did not start: ", "cannot reach the head")
"""Prefixes of causes that are faults of the site or its nodes."""

CHECKS = (
    ("interface", "interface"),
    ("host_suffix", "interface"),
    ("tmpdir", "tmpdir"),
    ("file system that all nodes", "files"),
    ("cannot run", "environment"),
    ("user namespaces", "engine"),
)
"""Words in such a cause, and the doctor's check for it."""

PATIENCE_S = 5.0
"""Seconds to wait for the queue, which may have the cause of a job's end."""


@dataclass(frozen=True)
class Failed:
    """A run without a result; `log` is the log of the rank or node that failed, if any.

    `early`: the user or the time limit ended it; `check`: the doctor's check for the cause.
    """

    name: str
    cause: str
    log: Path | None = None
    early: bool = False
    check: str = ""
    host: str | None = None
    """The host of the node that failed."""


def print_failures(site: Path, told: ToldErrors | None = None) -> None:
    """Print failed runs and their causes on standard error; print nothing if none failed.

    Args:
        site: the folder results/<site>.
        told: errors of the Snakemake that ends; None: use only the runs' folders.
    """
    lines = [*_describe_rules(told.errors if told else ())]
    # Without the list, this Snakemake has planned no run.
    has_planned = told is None or (site / PLANNED).is_file()
    if failed := failed_runs(site, planned_runs(site) if has_planned else (), told):
        lines += describe(failed, site / "report.html")
    if lines:
        print("\n".join(map(plain, lines)), file=sys.stderr)


def failed_runs(
    site: Path, planned: Collection[Path], told: ToldErrors | None = None
) -> list[Failed]:
    """Return the failed runs among the `planned` ones below `site`.

    If `told` is given, older jobs of the runs do not count.
    """
    views = {}
    if any(run_folders(site)):
        looked = Study(site).look(PATIENCE_S)
        views = {site / view.experiment / view.run_id: view for view in looked.views}
    failed = [
        _failed(folder, view)
        for folder, view in views.items()
        if folder in planned
        and view.state in STATES
        and (told is None or _is_touched(folder, told.began))
    ]
    # A run may have completed in a later attempt.
    known = {each.name for each in failed} | {
        view.name for view in views.values() if view.state is RunState.COMPLETED
    }
    causes = {
        "/".join(Path(output).parts[-3:-1]): error.message
        for error in (told.errors if told else ())
        for output in error.outputs
        if error.message
    }
    failed += [
        Failed(name, _without_name(cause, name))
        for name, cause in causes.items()
        if name not in known
    ]
    return failed + [
        Failed("/".join(folder.parts[-2:]), "its folder is gone; `snakemake` plans it again")
        for folder in planned
        if not folder.exists()
    ]


def _is_touched(folder: Path, since: float) -> bool:
    """Return whether a job of the run was submitted or ended since a time (unix)."""
    run = RunFolder(folder)
    paths = [folder / "job.json"]
    if job := newest_job(run, None):
        paths += [run.attempt_dir(job.attempt) / "verdict.json"] if job.attempt else []
    for path in paths:
        # A job submitted by hand has no job.json.
        with suppress(OSError):
            if status_of(path, run.site).st_mtime >= since - CLOCKS_S:
                return True
    return False


def _without_name(cause: str, name: str) -> str:
    return cause.strip().rstrip(".").rpartition(f"{name}: ")[2]


def _describe_rules(errors: Iterable[JobError]) -> Iterator[str]:
    """Yield the last error in the log of each rule that failed on this machine."""
    for error in errors:
        if not error.message:
            lines = [line for log in error.logs for line in _last_error(Path(log))]
            where = (
                f"; see {error.logs[0]}"
                if error.logs and "; see " not in "".join(lines[:1])
                else ""
            )
            yield (
                f"The rule {error.rule} failed: "
                f"{lines[0] if lines else 'no error was recorded'}{where}"
            )
            yield from (f"    {line}" for line in lines[1:])


def _last_error(log: Path) -> list[str]:
    """Return the last error in a log and the hint below it."""
    lines = last_lines(log, log.parent, LINES)
    places = [place for place, line in enumerate(lines) if line.startswith("error: ")]
    if not places:
        return lines[-1:]
    hint = [line for line in lines[places[-1] + 1 :] if line.startswith("hint: ")]
    return [lines[places[-1]].removeprefix("error: "), *hint[:1]]


def describe(failed: Sequence[Failed], report: Path) -> Iterator[str]:
    """Yield the end of the first failed run's log, the failed runs with their causes, and the report.

    Runs with one cause share a line.
    """
    first = next((each for each in failed if each.log and not each.early), None)
    if first and first.log:
        yield f"The last lines of {first.log}:"
        yield from (f"    {line}" for line in last_lines(first.log, report.parent, LINES))
        yield ""
    early = any(each.early for each in failed)
    yield f"{plural(len(failed), 'run')} failed{' or ended early' if early else ''}:"
    by_cause: dict[str, list[Failed]] = {}
    for each in failed:
        by_cause.setdefault(each.cause, []).append(each)
    for cause, runs in [*by_cause.items()][:MOST_CAUSES]:
        where = f"; see {runs[0].log}" if runs[0].log else ""
        yield plain(f"  {runs[0].name}: {cause}{where}")
        if check := runs[0].check:
            yield f"    `argosy doctor {report.parent.name}` checks that: `{check}`"
        if len(runs) > 1:
            others = [each.name for each in runs[1:]]
            yield plain(f"    the same for {some(others, MOST_NAMES)}")
    if unsaid := [*by_cause.values()][MOST_CAUSES:]:
        count = sum(len(runs) for runs in unsaid)
        yield f"  and {count} more; `argosy status {report.parent.name}` has all"
    if host := bad_host(failed, report.parent):
        yield plain(
            f"  all on {host}, where no run completed: `options: {{exclude: {host}}}` in "
            f"slurm/{report.parent.name}/site.yaml keeps jobs away from it"
        )
    if report.is_file():
        yield f"Report of the completed runs: {report}"


def bad_host(failed: Sequence[Failed], site: Path) -> str:
    """Return the host on which several runs failed, if all others completed elsewhere; else empty."""
    hosts = [each.host for each in failed if not each.early]
    host = hosts[0] if len(hosts) > 1 and len({*hosts}) == 1 else None
    if host is None:
        return ""
    verdicts = [RunFolder(path).result for path in run_folders(site)]
    used = {each for verdict in verdicts if verdict for each in verdict.hosts}
    return host if used - {host, None} and host not in used else ""


def check_of(failure: Failure | None) -> str:
    """Return the doctor's check for a failure to start; empty without one."""
    if failure is None or failure.rank is not None or not failure.cause.startswith(OF_STARTS):
        return ""
    return next((check for words, check in CHECKS if words in failure.cause), "")


def _failed(folder: Path, view: RunView) -> Failed:
    """Describe a failed run by its view and the verdict of its newest job."""
    run = RunFolder(folder)
    job = newest_job(run, None)
    verdict = run.verdict(job.attempt) if job and job.attempt else None
    failure, hosts = (verdict.failure, verdict.hosts) if verdict else (None, [])
    node = failure.node if failure else None
    return Failed(
        view.name,
        *_cause_and_log(view.note or view.state, run, job, failure),
        view.state in ENDED_EARLY,
        check_of(failure),
        hosts[node] if node is not None and node < len(hosts) else None,
    )


def _cause_and_log(
    cause: str, run: RunFolder, job: NewestJob | None, failure: Failure | None
) -> tuple[str, Path | None]:
    """Return the cause without the log that it names, as runs share causes, and the log to read."""
    short, see, name = cause.rpartition("; see ")
    if not see or not name.startswith("logs/"):
        return cause, _log_of(run, job, failure)
    named = run.path / name
    return short, named if _has_content(named, run.site) else _log_of(run, job, failure)


def _log_of(run: RunFolder, job: NewestJob | None, failure: Failure | None) -> Path | None:
    """Return the log of the program or node that failed first in the job, else the job's log."""
    paths = job_logs(run, job)
    if job and job.attempt and failure:
        node = run.logs(job.attempt) / f"node-{failure.node}.log"
        paths = [*filter(None, [log_of(run, job.attempt, failure)]), node, *paths]
    return next((path for path in paths if _has_content(path, run.site)), None)


def _has_content(path: Path, top: Path) -> bool:
    try:
        return status_of(path, top).st_size > 0
    except OSError:
        return False
