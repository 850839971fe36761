"""Whole contents of the JSON files of a run, of which a test says what matters to it."""

from typing import Any

from argosy.run_folder.models import Verdict
from argosy.runtime.contract.run import RunSpec, run_of


def run_content(**keys: Any) -> dict[str, Any]:
    """Return the JSON object of a run without a container on one node; `keys` may be wrong."""
    return {
        "schema_version": 2,
        "run_id": "nodes1-ranks1-repeat1",
        "experiment": "study",
        "site": "site",
        "nodes": 1,
        "ranks_per_node": 1,
        "repeat": 1,
        "scaling": "strong",
        "image": None,
        "command": ["true"],
        **keys,
    }


def run_spec(**keys: Any) -> RunSpec:
    """Return a run.json of a run without a container on one node."""
    return run_of(run_content(**keys))


def verdict(**keys: Any) -> Verdict:
    """Return a verdict.json, or result.json, of a run that completed."""
    said = {
        "run_id": "nodes1-ranks1-repeat1",
        "attempt": "7.0",
        "state": "completed",
        "started": 0.0,
        "ended": 1.0,
        "seconds": 1.0,
        "hosts": ["n1"],
        "failure": None,
    }
    return Verdict.model_validate({**said, **keys})
