"""Reads launchers: a project's file launchers/NAME.yaml, or else Argosy's file of this name."""

import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from argosy.runtime.contract.placeholders import as_format
from argosy.shipped.files import SHIPPED
from argosy.study.launcher import Launcher
from argosy.study.runs import Run
from argosy.validation import validated
from argosy.yaml_file import read_yaml
from argosy_common.errors import ArgosyError, choices

FOLDER = "launchers"


def with_launchers(runs: Iterable[Run], project: Path) -> list[Run]:
    """Add a project's own launchers to the runs that use them.

    Raises:
        ArgosyError: with the file, or the experiment whose launcher does not exist.
    """
    runs = list(runs)
    own = {name: read_own(project, name) for name in {run.launcher for run in runs}}
    for run in runs:
        if own[run.launcher] is None and run.launcher not in shipped():
            raise ArgosyError(
                f"experiments.{run.asked_as}.launcher: there is no launcher {run.launcher}",
                _remedy(project, run.launcher),
            )
    return [
        run.model_copy(update={"own_launcher": mine}) if (mine := own[run.launcher]) else run
        for run in runs
    ]


def _remedy(project: Path, name: str) -> str:
    files = sorted((project / FOLDER).glob("*"))
    if misnamed := next((path.name for path in files if path.stem == name), ""):
        return f"rename {FOLDER}/{misnamed} to {name}.yaml"
    known = {*shipped(), *(path.stem for path in files if path.suffix == ".yaml")}
    return f"{choices(sorted(known), name)}; or add {FOLDER}/{name}.yaml"


def launcher_of(run: Run) -> Launcher:
    """Return the launcher of a run."""
    return run.own_launcher or shipped()[run.launcher]


def read_own(project: Path, name: str) -> Launcher | None:
    """Return a project's own launcher; None without such a file, or if it equals Argosy's."""
    path = project / FOLDER / f"{name}.yaml"
    own = read_launcher(path) if os.path.lexists(path) else None
    return None if own == shipped().get(name) else own


@cache
def shipped() -> Mapping[str, Launcher]:
    """Return Argosy's launchers by name."""
    return {path.stem: read_launcher(path) for path in sorted((SHIPPED / FOLDER).glob("*.yaml"))}


def read_launcher(path: Path) -> Launcher:
    """Read a launcher's file.

    Raises:
        ArgosyError: with the file, and the wrong key or field.
    """
    return validated(read_yaml(path), path, Launcher)


def rank_variables(run: Run) -> Mapping[str, str]:
    """Return the launcher's variables, as format strings."""
    timeline = TIMELINE_ENVIRONMENT if run.timeline else {}
    own = {name: as_format(text) for name, text in launcher_of(run).variables.items()}
    return {**own, **timeline}


_LEAST_HANG_TIMEOUT_S = 60
_CHECKS = 5


def stall_environment(hang_timeout: int | None) -> Mapping[str, str]:
    """Set Horovod's stall check so that it reports missing ranks before the agents report a hang.

    Horovod checks once per interval, and reports tensors in its cache after up to four intervals.

    Args:
        hang_timeout: seconds; None: derived from the run's steps, at least a minute; 0: no detection.
    """
    if hang_timeout == 0:
        return {}
    seconds = max(1, (hang_timeout or _LEAST_HANG_TIMEOUT_S) // _CHECKS)
    # Horovod's default is 60 s.
    return {"HOROVOD_STALL_CHECK_TIME_SECONDS": str(min(60, seconds))}


TIMELINE_ENVIRONMENT: Mapping[str, str] = {
    # Only rank 0 writes it, but every rank needs the variable: a rank with a timeline sends vectors of
    # twice the length (horovod/common/response_cache.cc), and the job would hang until Gloo's timeout.
    "HOROVOD_TIMELINE": "{timeline}",
}
