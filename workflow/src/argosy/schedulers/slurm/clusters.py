"""Argosy works with one cluster: the one to which Slurm's commands speak without being told another."""

import os
import re

from argosy.errors import ArgosyError
from argosy.schedulers.slurm.answers import read_config
from argosy.schedulers.slurm.commands import Patience, SlurmError, call
from argosy.schedulers.slurm.option_keys import ScriptOptions

CONFIG = ("scontrol", "show", "config")
_VARIABLE = re.compile(r"(?:SLURM|SBATCH|SALLOC|SRUN|SQUEUE|SACCT|SINFO|SCANCEL|SCONTROL)_CLUSTERS")
_OPTION = re.compile(r"^#SBATCH\s(?:.*\s)?(?:--cluster|-M).*$", re.MULTILINE)
_REMEDY = "work on a login node of that cluster, or let SLURM_CONF name its slurm.conf"


def cluster_name(patience: Patience) -> str:
    """Return the name that the commands' cluster has. Raises SlurmError."""
    return read_config(patience.ask(*CONFIG)).get("ClusterName", "")


def check_variables() -> None:
    """Refuse variables by which the user's own commands speak to another cluster than Argosy's do.

    Raises:
        ArgosyError: naming the variable.
    """
    named = {
        name: value for name, value in os.environ.items() if _VARIABLE.fullmatch(name) and value
    }
    if not named:
        return
    try:
        here = cluster_name(Patience())
    except SlurmError:
        here = ""
    for name, value in named.items():
        if value != here:
            than = f", and Argosy's jobs go to {here}" if here else ""
            raise ArgosyError(
                f"{name} is {value}{than}: Argosy works with one cluster",
                f"unset {name}; {_REMEDY}",
            )


def check_script(options: ScriptOptions) -> None:
    """Refuse a script that a site's template sends to another cluster.

    Raises:
        ArgosyError: naming the template.
    """
    if found := _OPTION.search(options.text):
        template = options.site_file.replace("site.yaml", "job.sbatch.j2")
        raise ArgosyError(
            f"{template}: it writes `{found[0]}`: Argosy works with one cluster",
            f"take that line away; {_REMEDY}",
        )


def check_cluster(job_id: str, cluster: str) -> None:
    """Refuse a job that went to another cluster, where nobody would find it again; it is cancelled.

    Raises:
        SlurmError: saying where it went.
    """
    try:
        here = cluster_name(Patience())
    except SlurmError:
        # Its number is known, and the next look at the queue tells.
        return
    if cluster == here:
        return
    call("scancel", f"--clusters={cluster}", job_id)
    raise SlurmError(
        f"sbatch gave the job {job_id} to the cluster {cluster}, and Argosy looks for it on {here}: "
        f"it is cancelled; {_REMEDY}"
    )
