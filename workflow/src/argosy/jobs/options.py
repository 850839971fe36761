"""The `#SBATCH` lines of a job: what Argosy asks for, and what the site adds, replaces and forbids."""

import math
import shlex
from collections.abc import Mapping
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.jobs.schedulers.base import job_name
from argosy.site.models import Site
from argosy.site.placement import Placement, Request
from argosy.site.values import Options
from argosy.study.runs import Run

GPU_FIELDS = ("{gpus}", "{gpus_total}")

LOOPBACK = "lo"

OF_A_PLACE = ("account", "partition", "qos", "constraint", "gres", "gpus", "gpus-per-node")
"""Options without which many sites start nothing, not even a look at two nodes."""


def request_of(run: Run) -> Request:
    """What a run asks of one node, and of the site."""
    resources, ranks = run.resources, run.ranks_per_node
    return Request(
        nodes=run.nodes,
        ranks_per_node=ranks,
        cpus=resources.cpus_per_rank * ranks,
        gpus=resources.gpus_per_rank * ranks,
        memory=resources.memory_per_rank * ranks,
        time=resources.time,
    )


def batch_options(
    site: Site,
    placement: Placement,
    request: Request,
    job_dir: Path,
    warning: int | None = None,
) -> dict[str, str | None]:
    """Options of sbatch by their long names, in the order of the script; None: it takes no value.

    Args:
        job_dir: where the job runs and its log lies; the job is found again by it.
        warning: how many seconds before its time limit the script is to be told.

    Raises:
        ArgosyError: when the site's file still lacks what only its user knows, or the job's folder
            cannot be used there.
    """
    account = _account(site, placement)
    _check_folder(site, job_dir)
    threads = placement.hardware.threads_per_core if placement.hardware else 1
    fields = _fields(request, threads)
    options: dict[str, str | int | None] = {
        "job-name": job_name(job_dir),
        "chdir": str(job_dir),
        # A batch option expands %: two of them stand for one.
        "output": f"{str(job_dir).replace('%', '%%')}/logs/slurm-%j.log",
        # A requeued job goes on in the same file.
        "open-mode": "append",
        "requeue": None,
        "account": account,
        "nodes": request.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": fields["cpus"],
        "mem": f"{request.memory}M",
        "time": fields["minutes"],
    }
    if not account:
        del options["account"]
    if warning is not None:
        # B: to the batch script, which passes it on to the agents.
        options["signal"] = f"B:USR1@{warning}"
    for name in site.unsupported_options:
        options.pop(name, None)
    for level in _levels(site, placement):
        _apply(options, level, fields)
    _check_complete(site, placement, options)
    return {name: None if value is None else str(value) for name, value in options.items()}


def _account(site: Site, placement: Placement) -> str | None:
    return (placement.hardware and placement.hardware.account) or site.account


def _check_complete(
    site: Site, placement: Placement, options: Mapping[str, str | int | None]
) -> None:
    missing = []
    if site.account_required and not options.get("account"):
        other = f", or below hardware.{placement.hardware_name}" if len(site.hardware) > 1 else ""
        missing.append(f"account: this site wants one; write the name of your project here{other}")
    if not site.interface:
        missing.append(
            "interface: not known; write the network interface over which the nodes reach each other; "
            f"`{_look_at_nodes(site, options)}` lists them with their addresses"
        )
    several = str(options.get("nodes", 1)) != "1"
    if site.interface == LOOPBACK and site.scheduler == "slurm" and several:
        missing.append(
            f"interface: {LOOPBACK} is each node's own, over which it reaches no other; "
            f"`{_look_at_nodes(site, options)}` lists those that there are"
        )
    if missing:
        raise ArgosyError("; ".join(missing))


def _look_at_nodes(site: Site, options: Mapping[str, str | int | None]) -> str:
    """The command that lists the interfaces of two nodes, with what the site wants to be said."""
    asked = {name: options[name] for name in OF_A_PLACE if options.get(name) is not None}
    if site.account_required:
        asked = {"account": "PROJECT", **asked}
    words = [f"--{name}={shlex.quote(str(value))}" for name, value in asked.items()]
    return " ".join(["srun", *words, "--nodes=2", "--time=5", "ip -o addr"])


def _check_folder(site: Site, job_dir: Path) -> None:
    """A line break would end the comment that a batch option is, and what follows would be run."""
    if not str(job_dir).isprintable():
        raise ArgosyError(f"{str(job_dir)!r}: move the project: its path holds control characters")
    if site.scheduler == "slurm" and "\\" in str(job_dir):
        raise ArgosyError(
            f"{job_dir}: move the project: Slurm reads a backslash as a sign of its own"
        )
    for folder, remedy in site.absent_folders.items():
        if job_dir.is_relative_to(folder):
            raise ArgosyError(f"absent_folders: compute nodes have no {folder}: {remedy}")


def _levels(site: Site, placement: Placement) -> list[Options]:
    levels = [site.options]
    if placement.hardware:
        levels.append(placement.hardware.options)
    if placement.queue:
        levels.append(placement.queue.options)
    return levels


def _apply(options: dict[str, str | int | None], level: Options, fields: Mapping[str, int]) -> None:
    for name, value in level.items():
        if value is None:
            options.pop(name, None)
        elif value is True:
            options[name] = None
        elif filled := _fill(str(value), fields):
            options[name] = filled
        else:
            options.pop(name, None)


def _fill(value: str, fields: Mapping[str, int]) -> str:
    """The value for this run; the parts between its commas that speak of GPUs only where it has any."""
    if not fields["gpus"]:
        parts = value.split(",")
        value = ",".join(part for part in parts if not any(gpu in part for gpu in GPU_FIELDS))
    return value.format_map(fields)


def _fields(request: Request, threads_per_core: int) -> Mapping[str, int]:
    return {
        "nodes": request.nodes,
        "ranks": request.nodes * request.ranks_per_node,
        "ranks_per_node": request.ranks_per_node,
        "cpus": request.cpus * threads_per_core,
        "gpus": request.gpus,
        "gpus_total": request.nodes * request.gpus,
        "memory": request.memory,
        "minutes": math.ceil(request.time / 60),
    }
