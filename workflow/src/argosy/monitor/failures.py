"""The runs of a site that failed, each with its cause, for the end of a workflow."""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from argosy.jobs.driver import JobError, ToldErrors
from argosy.monitor.jobs import newest_job
from argosy.monitor.run_state import RunState
from argosy.monitor.sites import run_folders
from argosy.monitor.study import Study
from argosy.run_folder.failures import log_of
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.log_tail import last_lines
from argosy.run_folder.models import Failure, Verdict
from argosy.terminal import plural
from argosy_common.errors import plain
from argosy_common.files import read_paths
from argosy_common.reading import status_of

ENDED_EARLY = (RunState.CANCELLED, RunState.INTERRUPTED)
STATES = (RunState.FAILED, RunState.GONE, RunState.UNREADABLE, *ENDED_EARLY)
MOST_CAUSES = 20
MOST_NAMES = 5
LINES = 40
OF_STARTS = ("it did not start: ", "cannot reach the head")
"""Beginnings of causes that are the fault of the site or its nodes."""

CHECKS = (
    ("interface", "interface"),
    ("host_suffix", "interface"),
    ("tmpdir", "tmpdir"),
    ("file system that all nodes", "files"),
    ("cannot run", "environment"),
    ("user namespaces", "engine"),
)
"""A word of such a cause, and the doctor's check for it."""

CLOCKS_S = 2.0
"""How far the clocks of a shared file system and of this machine may differ."""

PATIENCE_S = 5.0
"""Seconds to wait for the queue, which may know why a job ended."""


@dataclass(frozen=True)
class Failed:
    """A run without a result; `log` is the log of the rank or node that failed, if any.

    `early`: the user or the time limit ended it; `check`: the doctor's check for the cause.
    """

    name: str
    cause: str
    early: bool = False
    log: Path | None = None
    check: str = ""
    host: str | None = None
    """The host of the node that failed."""


def print_failures(site: Path, told: ToldErrors | None = None) -> None:
    """Print failed runs and their causes on standard error; print nothing if none failed.

    Args:
        site: the folder results/<site>.
        told: errors of the Snakemake that ends; None: use the runs' folders alone.
    """
    planned = read_paths(site / "runs.txt") if (site / "runs.txt").is_file() else []
    lines = [*_describe_rules(told.errors if told else ())]
    if failed := failed_runs(site, planned, told):
        lines += describe(failed, site / "report.html")
    if lines:
        print("\n".join(map(plain, lines)), file=sys.stderr)


def failed_runs(
    site: Path, planned: Collection[Path], told: ToldErrors | None = None
) -> list[Failed]:
    """Look at the runs below `site`, and return those of the `planned` ones that failed.

    Where `told` is given, older jobs of the runs do not count.
    """
    views = {}
    if any(run_folders(site)):
        looked = Study(site).look(PATIENCE_S)
        views = {site / view.experiment / view.run_id: view for view in looked.views}
    failed = [
        Failed(
            view.name,
            view.note or view.state,
            view.state in ENDED_EARLY,
            _log_of(folder),
            check_of(_newest_failure(folder)),
            _host_of(folder),
        )
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
        by_cause.setdefault(_without_log(each), []).append(each)
    for cause, runs in [*by_cause.items()][:MOST_CAUSES]:
        where = f"; see {runs[0].log}" if runs[0].log else ""
        yield plain(f"  {runs[0].name}: {cause}{where}")
        if check := runs[0].check:
            yield f"    `argosy doctor {report.parent.name}` checks that: `{check}`"
        if len(runs) > 1:
            yield plain(f"    the same for {_some_names(runs[1:])}")
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


def _without_log(failed: Failed) -> str:
    """Return the cause without the log that it names, if that is the log of the run."""
    cause, see, log = failed.cause.rpartition("; see ")
    return cause if see and log in str(failed.log or "") else failed.cause


def bad_host(failed: Sequence[Failed], site: Path) -> str:
    """Return the host on which all of several runs failed while others completed elsewhere; "" for none."""
    hosts = [each.host for each in failed if not each.early]
    host = hosts[0] if len(hosts) > 1 and len({*hosts}) == 1 else None
    if host is None:
        return ""
    verdicts = [RunFolder(path).result for path in run_folders(site)]
    used = {each for verdict in verdicts if verdict for each in verdict.hosts}
    return host if used - {host, None} and host not in used else ""


def check_of(failure: Failure | None) -> str:
    """Return the doctor's check that looks at why a job did not start; empty where there is none."""
    if failure is None or failure.rank is not None or not failure.cause.startswith(OF_STARTS):
        return ""
    return next((check for words, check in CHECKS if words in failure.cause), "")


def _newest_failure(run_dir: Path) -> Failure | None:
    """Return the failure that agents wrote in the newest attempt of a run's newest job."""
    verdict = _newest_verdict(run_dir)
    return verdict.failure if verdict else None


def _host_of(run_dir: Path) -> str | None:
    """Return the host of the node that failed in a run's newest job."""
    verdict = _newest_verdict(run_dir)
    node = verdict.failure.node if verdict and verdict.failure else None
    hosts = verdict.hosts if verdict else []
    return hosts[node] if node is not None and node < len(hosts) else None


def _newest_verdict(run_dir: Path) -> Verdict | None:
    run = RunFolder(run_dir)
    job = newest_job(run, None)
    return run.verdict(job.attempt) if job and job.attempt else None


def _some_names(runs: Sequence[Failed]) -> str:
    more = f" and {len(runs) - MOST_NAMES} more" if len(runs) > MOST_NAMES else ""
    return ", ".join(each.name for each in runs[:MOST_NAMES]) + more


def _log_of(run_dir: Path) -> Path | None:
    """Return the log of the program or node that failed first in the newest job, else the job's own."""
    run = RunFolder(run_dir)
    job = newest_job(run, None)
    if job is None:
        return max(run.scheduler_logs, default=None)
    paths = [run.scheduler_log(job.job_id)]
    if job.attempt:
        paths.insert(0, run.logs(job.attempt) / "job.log")
        failure = _newest_failure(run_dir)
        if failure and failure.node is not None:
            paths.insert(0, run.logs(job.attempt) / f"node-{failure.node}.log")
        if failure and (log := log_of(run, job.attempt, failure)):
            paths.insert(0, log)
    return next((path for path in paths if _has_content(path, run.site)), None)


def _has_content(path: Path, top: Path) -> bool:
    try:
        return status_of(path, top).st_size > 0
    except OSError:
        return False
