"""Claim a run for one attempt: ``python3 claim.py RUN_DIR ATTEMPT SPEC WORKLOADS [NODES]``.

Runs on the host at the start of job.sbatch, before anything else is written. A job on a lost node may
outlive its successor's start: from this call on, its agents find another name in the file `attempt` and
end, and its verdict is not published.

SPEC is the digest for which the script was rendered: an outdated script is refused. Digests of the
program's files in the folder WORKLOADS are recorded, since they may change from job to job. NODES is the
attempt's number of nodes, which a restart may have reduced.

For a run with checkpoints, it prints the folder of the one to resume from, below `checkpoints/`, if any:
all ranks then resume from the same one.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import sys
import time
from typing import Any, Iterator, Mapping, Sequence

if not __package__:  # started by its path
    import started_by_path

    __package__ = started_by_path.PACKAGE

from . import printing, working_folder
from .contract import files, layout
from .contract.attempt import Attempt
from .contract.run import RunSpec, run_of
from .program_files import Program, changed

_MOST_STEPS = 1 << 53


def main(arguments: Sequence[str]) -> int:
    """Claim the run; return 2 if the attempt has claimed it before, or if the script is outdated."""
    if len(arguments) not in (4, 5):
        printing.complain("usage: claim.py RUN_DIR ATTEMPT SPEC WORKLOADS [NODES]")
        return 2
    run_dir, name, spec, workloads, *nodes = arguments
    path = os.path.join(run_dir, layout.RUN)
    try:
        data = files.read_bytes(path)
        content = files.object_of(data)
        run = run_of(content)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        printing.complain(f"argosy: {path}: {why}")
        return 2
    if run.spec != spec:
        printing.complain(
            f"argosy: {path} was replanned after this script was submitted: submit job.sbatch beside it"
        )
        return 2
    plan = hashlib.sha256(data).hexdigest() if run.checkpoints else None
    program = Program.of(run, workloads)
    given = {**content, "nodes": int(nodes[0])} if nodes else content
    attempt = Attempt(run_dir, name)
    try:
        is_told = claim(attempt, {"spec": spec, "run": given}, plan, program)
        if is_told:
            show_project(run_dir, run, program.project or workloads)
    except FileExistsError:
        printing.complain(
            f"argosy: {attempt.folder} exists: this attempt has claimed the run before"
        )
        return 2
    except OSError as error:
        printing.complain(f"argosy: {error.filename}: {error.strerror}")
        return 2
    return 0 if is_told else 2


def show_project(run_dir: str, run: RunSpec, project: str) -> None:
    """Prepare the program's working directory. Raises OSError."""
    output, outputs = os.path.join(run_dir, layout.OUTPUT), run.outputs or ()
    # Absolute outputs are mounted from these folders.
    for path in outputs:
        if path.startswith("/"):
            working_folder.make_folder(output, path)
    if shown := run.shown_project(project):
        for said in working_folder.show(output, project, shown, outputs):
            printing.complain(f"argosy: {said}")


def claim(attempt: Attempt, asked: Mapping[str, Any], plan: str | None, program: Program) -> bool:
    """Claim the run, and print the checkpoint to resume from; return False if it cannot be printed.

    Args:
        attempt: the attempt.
        asked: keys of claim.json about the run.
        plan: the digest of run.json; None for a run without checkpoints.
        program: the run's program.

    Raises:
        FileExistsError: the attempt has claimed the run before.
        OSError: the run's folder is not writable.
    """
    run_dir = attempt.run_dir
    make_folders(attempt)
    files.write_text(os.path.join(run_dir, layout.OWNER), attempt.name + "\n")
    found = newest_checkpoint(run_dir, plan) if plan else None
    claimed = {
        "schema_version": layout.SCHEMA_VERSION,
        "unix": time.time(),
        "continues": found and {key: found[1][key] for key in ("attempt", "step", "unix")},
        **asked,
        **describe_experiment(run_dir),
        "log_begin": log_size(attempt.scheduler_log),
        "utc_offset_s": system_offset(),
        "programs": program.digests(),
    }
    tell_changes(run_dir, found, claimed["programs"])
    files.write_text(attempt.file(layout.CLAIM), json.dumps(claimed) + "\n")
    return found is None or printing.say(found[0])


def make_folders(attempt: Attempt) -> None:
    """Create the attempt's folders, which are mount points of containers. Raises as `claim`."""
    checkpoints = os.path.join(attempt.run_dir, layout.CHECKPOINTS, attempt.name)
    ranks = os.path.join(attempt.logs, layout.RANK_LOGS)
    for new in (attempt.folder, attempt.records, checkpoints, ranks):
        os.makedirs(os.path.dirname(new), files.FOLDER_MODE, exist_ok=True)
        os.mkdir(new, files.FOLDER_MODE)
    os.makedirs(os.path.join(attempt.run_dir, layout.OUTPUT), files.FOLDER_MODE, exist_ok=True)


def describe_experiment(run_dir: str) -> dict[str, Any]:
    """Return the run's current experiment, which replanning may change."""
    experiment = files.try_object(os.path.join(run_dir, layout.PROVENANCE)).get("experiment")
    return {"experiment": experiment} if isinstance(experiment, dict) else {}


def log_size(path: str) -> int:
    """Return the current size of the job's log, which has earlier attempts of a requeued job."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def system_offset() -> int:
    """Return the UTC offset of this node's time zone in seconds, ignoring the user's TZ."""
    own = os.environ.pop("TZ", None)
    time.tzset()
    offset = time.localtime().tm_gmtoff
    if own is not None:
        os.environ["TZ"] = own
        time.tzset()
    return offset


def tell_changes(
    run_dir: str, found: tuple[str, dict[str, Any]] | None, programs: Mapping[str, str]
) -> None:
    """Report files of the program that have changed since the checkpoint."""
    if found is None:
        return
    saved_by = Attempt(run_dir, found[0].split(os.sep)[0])
    before = saved_by.read(layout.CLAIM).get("programs")
    for name in changed(before, programs) if isinstance(before, dict) else ():
        told = f"argosy: {files.text(name)} has changed since the checkpoint was saved"
        printing.complain(told)


def newest_checkpoint(run_dir: str, plan: str) -> tuple[str, dict[str, Any]] | None:
    """Return the folder (below checkpoints/) and description of the checkpoint with the most steps.

    Only checkpoints of the current plan count (`plan` is the digest of run.json), and only those after the
    last completion: a run that is measured again starts from the beginning.
    """
    completed = last_completion(run_dir)
    found = [
        (folder, each)
        for folder, each in checkpoints(run_dir)
        if each.get("plan") == plan and each["unix"] > completed
    ]
    return max(found, key=lambda each: (each[1]["step"], each[1]["unix"]), default=None)


def checkpoints(run_dir: str) -> Iterator[tuple[str, dict[str, Any]]]:
    top = os.path.join(run_dir, layout.CHECKPOINTS)
    for path in glob.glob(os.path.join(glob.escape(top), "*", "step-*", layout.CHECKPOINT)):
        content = files.try_object(path)
        is_named = isinstance(content.get("attempt"), str)
        is_dated = files.number(content.get("unix")) is not None
        if is_named and is_dated and files.whole(content.get("step"), _MOST_STEPS) is not None:
            yield os.path.relpath(os.path.dirname(path), top), content


def last_completion(run_dir: str) -> float:
    """Return the unix time at which an attempt last completed; 0 without one."""
    found = glob.escape(run_dir)
    paths = glob.glob(os.path.join(found, layout.ATTEMPTS, "*", layout.VERDICT))
    verdicts = [each for each in map(files.try_object, paths) if each.get("state") == "completed"]
    return max((files.number(each.get("ended")) or 0.0 for each in verdicts), default=0.0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
