"""A study's runs as JSON, for other programs (docs/commands.md)."""

from typing import Any

from argosy.errors import plain
from argosy.monitor.states import RunView
from argosy.monitor.study import Snapshot

SCHEMA_VERSION = 1


def described(snapshot: Snapshot) -> dict[str, Any]:
    """Return the runs at one moment: times in seconds, `at` in Unix time, null for what is not known."""
    answer = snapshot.answer
    return {
        "schema_version": SCHEMA_VERSION,
        "site": plain(snapshot.site),
        "at": snapshot.at,
        "scheduler": snapshot.scheduler,
        "scheduler_silent_since": answer.silent_since if answer else None,
        "runs": [_run(view) for view in snapshot.views],
    }


def _run(view: RunView) -> dict[str, Any]:
    return {
        "experiment": plain(view.experiment),
        "run": plain(view.run_id),
        "state": str(view.state),
        "ended": view.ended,
        "stuck": view.stuck,
        "job": plain(view.job) or None,
        "nodes": plain(view.nodes) or None,
        "used_s": view.used_s,
        "left_s": view.left_s,
        "steps": view.progress.steps,
        "total_steps": view.progress.total,
        "samples_per_s": view.progress.samples_per_s,
        "silent_s": view.progress.silent_s,
        "reason": plain(view.reason) or None,
        "note": plain(view.note) or None,
    }
