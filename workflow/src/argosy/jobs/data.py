"""Resolves the names of experiments' data to a site's paths, and checks the paths before submission."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from argosy.jobs.description import Plan
from argosy.schedulers import find_batch_system
from argosy.site.data import read_data
from argosy.study.data import Data, is_name
from argosy.study.runs import Run
from argosy_common.errors import ArgosyError, choices
from argosy_common.host_paths import expanded

_OF_EACH_NODE = ("/tmp", "/var/tmp", "/dev/shm", "/run")
"""Folders that exist on every machine, each with its own content."""


def with_paths(runs: Iterable[Run], site: Path) -> list[Run]:
    """Replace names of data in runs by the site's paths and `stage`.

    Args:
        runs: the study's runs.
        site: the site's folder.

    Raises:
        ArgosyError: for a name that data.yaml lacks, or for writable data that it stages on nodes.
    """
    runs = [*runs]
    path = site / "data.yaml"
    is_named = any(is_name(each.source) for run in runs for each in run.data.values())
    known = read_data(path) if is_named else {}

    def found(key: str, data: Data) -> Data:
        if not is_name(data.source):
            return data
        if data.source not in known:
            raise ArgosyError(
                f"{key}: slurm/{site.name}/data.yaml has no {data.source}",
                choices([*known], data.source)
                if known
                else f"add the line `{data.source}: PATH` to it",
            )
        place = known[data.source]
        if data.write and place.stage == "node":
            raise ArgosyError(
                f"{key}: write: true, but slurm/{site.name}/data.yaml has stage: node for {data.source}",
                "leave out one of them: the copies on nodes are read-only",
            )
        stage = "node" if "node" in (data.stage, place.stage) else "shared"
        return data.model_copy(update={"source": place.source, "stage": stage})

    return [
        run.model_copy(
            update={
                "data": {
                    target: found(f"experiments.{run.asked_as}.data.{target}", data)
                    for target, data in run.data.items()
                }
            }
        )
        for run in runs
    ]


def check_data(own: Iterable[Path], plans: Iterable[Plan]) -> None:
    """Reject data that is missing, unreadable or empty, and writable data in Argosy's own folders.

    Nodes check paths that only they have: paths below a folder that is missing here, or with a variable
    that is unset here.

    Args:
        own: folders of results and images, which no program may change.
        plans: plans of the runs that will start.

    Raises:
        ArgosyError: with the key and the path.
    """
    own, checked = [folder.resolve() for folder in own], set()
    for plan in plans:
        for target, data in plan.run.data.items():
            key = f"experiments.{plan.run.asked_as}.data.{target}"
            path = expanded(data.source, os.environ)
            if path is None or key in checked or _is_of_nodes(path, plan):
                continue
            checked.add(key)
            top = Path(path).resolve()
            shared = [one for one in own if one.is_relative_to(top) or top.is_relative_to(one)]
            if data.write and shared:
                problem: str | None = f"must not be writable: Argosy uses {shared[0]}"
            else:
                problem = _problem(Path(path), data.write)
            if problem:
                raise ArgosyError(
                    f"{key}: {path} {problem}",
                    f"change the path there or in slurm/{plan.site}/data.yaml",
                )


def _is_of_nodes(path: str, plan: Plan) -> bool:
    if not find_batch_system(plan.facts.scheduler).HAS_QUEUE:
        return False
    folders = (*_OF_EACH_NODE, os.path.expandvars(plan.facts.tmpdir))
    return not Path(path).parent.is_dir() or any(map(Path(path).is_relative_to, folders))


def _problem(path: Path, write: bool) -> str | None:
    """Return why a program cannot use the data; None if it can, or if that is unknown."""
    with suppress(OSError):
        if not path.exists():
            leads = f"is a link to {path.readlink()}, which is" if path.is_symlink() else "is"
            return f"{leads} missing"
        is_folder = path.is_dir()
        if not is_folder and not path.is_file():
            return "is neither a folder nor a file"
        if not os.access(path, os.R_OK | (os.X_OK if is_folder else 0)):
            return "is not readable"
        if write:
            return None if os.access(path, os.W_OK) else "is not writable"
        is_empty = not any(os.scandir(path)) if is_folder else not path.stat().st_size
        return "is empty" if is_empty else None
    return None
