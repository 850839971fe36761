"""Make a run's results one incarnation's alone: ``python3 claim.py RUN_DIR INCARNATION SPEC``.

Runs on the host at the start of job.sbatch, before anything else is written. A job that a lost node
still runs may live on beside its successor: from this call on, what it does counts no longer. Its
agents find another name in the file `incarnation` and end; its verdict is not published. SPEC is what the
script was rendered for: where the run was planned anew since, the script is another one, and this one ends.

Where the run goes on from checkpoints, prints the folder of the one from which to go on, below
`checkpoints/`, or nothing. It is chosen here, once, so that all ranks go on from the same one.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import sys
import time
from typing import Any, Iterator, Sequence

FENCE = "incarnation"
SCHEMA_VERSION = 1


def main(arguments: Sequence[str]) -> int:
    """Claim the run; 2 for an incarnation that was here before, or a script of an older plan."""
    if len(arguments) != 3:
        print("usage: claim.py RUN_DIR INCARNATION SPEC", file=sys.stderr)
        return 2
    run_dir, incarnation, spec = arguments
    run = os.path.join(run_dir, "run.json")
    if (read_json(run) or {}).get("spec") != spec:
        print(
            f"argosy: {run} was planned anew after this script was submitted: submit job.sbatch beside it",
            file=sys.stderr,
        )
        return 2
    records = os.path.join(run_dir, "records", incarnation)
    try:
        os.makedirs(os.path.dirname(records), mode=0o700, exist_ok=True)
        os.mkdir(records, 0o700)
        write_text(os.path.join(run_dir, FENCE), incarnation + "\n")
        found = newest_checkpoint(run_dir)
        claimed = {**describe(spec, found), **describe_run(run_dir)}
        write_text(os.path.join(records, "claim.json"), json.dumps(claimed) + "\n")
        if found:
            print(found[0])
    except FileExistsError:
        print(f"argosy: {records} exists: this job has been here before", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"argosy: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


def describe(spec: str, found: tuple[str, dict[str, Any]] | None) -> dict[str, Any]:
    """The content of claim.json (docs/run-folder.md)."""
    checkpoint = found and {key: found[1][key] for key in ("incarnation", "step")}
    return {
        "schema_version": SCHEMA_VERSION,
        "unix": time.time(),
        "spec": spec,
        "continues": checkpoint,
    }


def describe_run(run_dir: str) -> dict[str, Any]:
    """What runs now: those files say what is planned next, as soon as the study has changed."""
    provenance = read_json(os.path.join(run_dir, "provenance.json")) or {}
    found = {
        "run": read_json(os.path.join(run_dir, "run.json")),
        "experiment": provenance.get("experiment"),
    }
    return {key: content for key, content in found.items() if isinstance(content, dict)}


def newest_checkpoint(run_dir: str) -> tuple[str, dict[str, Any]] | None:
    """The folder (below checkpoints/) and description of the checkpoint with the most steps done.

    Only those of the run as it is planned now count, and none from before its last completion: a
    run that is measured again begins again.
    """
    plan = plan_digest(run_dir)
    if plan is None:
        return None
    completed = last_completion(run_dir)
    found = [
        (folder, each)
        for folder, each in checkpoints(run_dir)
        if each.get("plan") == plan and each["unix"] > completed
    ]
    return max(found, key=lambda each: (each[1]["step"], each[1]["unix"]), default=None)


def checkpoints(run_dir: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """All whole checkpoints of the run."""
    top = os.path.join(run_dir, "checkpoints")
    for path in glob.glob(os.path.join(glob.escape(top), "*", "step-*", "checkpoint.json")):
        content = read_json(path)
        if content and isinstance(content.get("step"), int) and "unix" in content:
            yield os.path.relpath(os.path.dirname(path), top), content


def last_completion(run_dir: str) -> float:
    """When an incarnation of the run last completed (unix); 0 when none has."""
    pattern = os.path.join(glob.escape(run_dir), "records", "*", "verdict.json")
    verdicts = [read_json(path) for path in glob.glob(pattern)]
    ends = [each["ended"] for each in verdicts if each and each.get("state") == "completed"]
    return max(ends, default=0.0)


def plan_digest(run_dir: str) -> str | None:
    """A digest of run.json: what was saved by another plan is of no use. None: no checkpoints."""
    path = os.path.join(run_dir, "run.json")
    if not (read_json(path) or {}).get("checkpoints"):
        return None
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def read_json(path: str) -> dict[str, Any] | None:
    """The object in a file, None for what is cut off or of another version."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError):
        return None
    known = isinstance(content, dict) and content.get("schema_version") == SCHEMA_VERSION
    return content if known else None


def write_text(path: str, text: str) -> None:
    """Replace a file at once."""
    temporary = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    os.replace(temporary, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
