"""Why Slurm refuses a job, and which key of which file to change."""

import re
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.site.models import read_site

TOO_MANY_NOW = re.compile(
    r"submit limit|QOSMaxSubmit|AssocMaxSubmit|AssocGrpSubmit|temporarily unable to accept job|"
    r"max(?:imum)? number of jobs",
    re.IGNORECASE,
)
"""The user has as many jobs in the queue as the site allows: this one has to wait, no more."""

GPU_OPTIONS = ("gres", "gpus", "gpus-per-node", "gpus-per-task")

SITE_OPTIONS = (
    (r"invalid account|account/partition", "account"),
    (r"partition.*(?:not|in)valid|invalid partition|no partition|specify.*partition", "partition"),
    (r"invalid qos|qos", "qos"),
    (r"generic resource|gres|\bgpus?\b", "gres"),
    (r"feature|constraint", "constraint"),
    (r"reservation", "reservation"),
    (r"memory", "mem"),
)
"""Words of sbatch (slurm_errno.h), and the batch option they are about."""

NO_SUCH_NODES = re.compile(r"node configuration", re.IGNORECASE)
"""No node has all that is asked for together; Slurm does not say which part is too much."""

EXPERIMENT_KEYS = (
    (r"time limit", "needs.time"),
    (
        r"node count|more processors|too many nodes|PartitionNodeLimit",
        "scale.nodes",
    ),
)


def explain(run_dir: Path, said: str) -> str:
    """One line for the user: file, key and Slurm's words.

    `run_dir` is <project>/results/<site>/<experiment>/<run>, or that of a build by a job,
    <project>/logs/<site>/builds/<image>, whose size nobody has configured.
    """
    site, experiment, run_id = run_dir.parts[-3:]
    folder = run_dir.parents[3] / "slurm" / site
    where = f"{experiment}/{run_id}"
    if re.search(r"munge|authentication|credential", said, re.IGNORECASE):
        return f"{where}: munge does not run on this machine, so Slurm trusts nobody here: {said}"
    configured = run_dir.parts[-4] == "results"
    if keys := _keys_of_size(folder, said, experiment if configured else None):
        return f"{keys}: Slurm refuses {where}: {said}"
    for pattern, option in SITE_OPTIONS:
        if re.search(pattern, said, re.IGNORECASE):
            key = _key_of(folder, option) or f"options.{option}"
            return f"slurm/{site}/site.yaml: {key}: Slurm refuses {where}: {said}"
    return f"{where}: Slurm refuses {run_dir / 'job.sbatch'}: {said}"


def _keys_of_size(folder: Path, said: str, experiment: str | None) -> str:
    """Where it is said how large the job is, or how large it may be; empty when it is not about that."""
    site = f"slurm/{folder.name}/site.yaml"
    if NO_SUCH_NODES.search(said):
        asked = _key_of(folder, "gres", "constraint", "mem")
        if experiment is None:
            return f"{site}: {asked or 'hardware'}"
        of_site = f"{site}: {asked}, or " if asked else ""
        return f"{of_site}config.yaml: experiments.{experiment}.needs"
    for pattern, key in EXPERIMENT_KEYS:
        if re.search(pattern, said, re.IGNORECASE):
            return (
                f"config.yaml: experiments.{experiment}.{key}" if experiment else f"{site}: queues"
            )
    return ""


def _key_of(folder: Path, *options: str) -> str:
    """Where the site's file speaks of one of these options; empty where it does not."""
    if "account" in options:
        return "account"
    try:
        levels = read_site(folder).all_options()
    except ArgosyError:
        return ""
    names = [
        name for option in options for name in (GPU_OPTIONS if option == "gres" else (option,))
    ]
    found = [
        f"{where}.{name}"
        for where, values in levels
        for name in names
        if values.get(name) is not None
    ]
    return " or ".join(found)
