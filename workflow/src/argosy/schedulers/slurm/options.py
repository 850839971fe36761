"""The `#SBATCH` lines of a job: what Argosy asks for, and what the site adds, replaces and forbids."""

import shlex
from collections.abc import Mapping

from argosy.errors import ArgosyError
from argosy.schedulers.base import job_name
from argosy.schedulers.job_request import JobRequest, as_text
from argosy.schedulers.slurm.given import MEMORY_OPTIONS

LOOPBACK = "lo"

OF_A_PLACE = ("account", "partition", "qos", "constraint", "gres", "gpus", "gpus-per-node")
"""Options without which many sites start nothing, not even a look at two nodes."""


def script_options(job: JobRequest) -> dict[str, str | None]:
    """Return the options of sbatch by their long names; see `BatchSystem`."""
    job.check_folder()
    folder, fields = str(job.folder), job.fields
    if "\\" in folder:
        raise ArgosyError(
            f"{folder}: move the project: Slurm reads a backslash as a sign of its own"
        )
    options: dict[str, str | int | None] = {
        "job-name": job_name(job.folder),
        "chdir": folder,
        # A batch option expands %: two of them stand for one.
        "output": f"{folder.replace('%', '%%')}/logs/scheduler-%j.log",
        # A requeued job goes on in the same file.
        "open-mode": "append",
        "requeue": None,
        "account": job.account,
        "nodes": job.request.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": fields["cpus"],
        "mem": f"{job.request.memory}M",
        "time": fields["minutes"],
    }
    if not job.account:
        del options["account"]
    if job.warning is not None:
        # B: to the batch script, which passes it on to the agents.
        options["signal"] = f"B:USR1@{job.warning}"
    options = _with_one_memory(job, job.with_options_of_site(options))
    _check_complete(job, options)
    return as_text(options)


def _with_one_memory(
    job: JobRequest, options: Mapping[str, str | int | None]
) -> dict[str, str | int | None]:
    """Return the options with one way to ask for memory: the innermost level's, else Argosy's own `mem`."""
    given = (name for level in job.levels[::-1] for name in MEMORY_OPTIONS if name in level)
    chosen = next((name for name in given if name in options), "mem")
    return {
        name: value
        for name, value in options.items()
        if name == chosen or name not in MEMORY_OPTIONS
    }


def directive(name: str, value: str | None) -> str:
    """Return one `#SBATCH` line. Its quoting is the shell's, as sbatch reads these lines by like rules."""
    return f"#SBATCH --{name}" if value is None else f"#SBATCH --{name}={shlex.quote(value)}"


def _check_complete(job: JobRequest, options: Mapping[str, str | int | None]) -> None:
    site, placement = job.site, job.placement
    missing = []
    if site.account_required and not options.get("account"):
        other = f", or below hardware.{placement.hardware_name}" if len(site.hardware) > 1 else ""
        missing.append(f"account: this site wants one; write the name of your project here{other}")
    if not site.interface:
        missing.append(
            "interface: not known; write the network interface over which the nodes reach each other; "
            f"`{_look_at_nodes(job, options)}` lists them with their addresses"
        )
    several = str(options.get("nodes", 1)) != "1"
    if site.interface == LOOPBACK and several:
        missing.append(
            f"interface: {LOOPBACK} is each node's own, over which it reaches no other; "
            f"`{_look_at_nodes(job, options)}` lists those that there are"
        )
    if missing:
        raise ArgosyError("; ".join(missing))


def _look_at_nodes(job: JobRequest, options: Mapping[str, str | int | None]) -> str:
    """Return the command that lists the interfaces of two nodes, with what the site wants to be said."""
    asked = {name: options[name] for name in OF_A_PLACE if options.get(name) is not None}
    if job.site.account_required:
        asked = {"account": "PROJECT", **asked}
    words = [f"--{name}={shlex.quote(str(value))}" for name, value in asked.items()]
    return " ".join(["srun", *words, "--nodes=2", "--time=5", "ip -o addr"])
