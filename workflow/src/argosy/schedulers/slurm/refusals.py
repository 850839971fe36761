"""Why Slurm refuses a job, and which key of which file to change."""

import re
from collections.abc import Iterable
from pathlib import Path

from argosy.schedulers.slurm.gres import GPU_OPTIONS
from argosy.schedulers.slurm.option_keys import ScriptOptions

TOO_MANY_NOW = re.compile(
    r"submit limit|QOSMaxSubmit|AssocMaxSubmit|AssocGrpSubmit|temporarily unable to accept job|"
    r"max(?:imum)? number of jobs",
    re.IGNORECASE,
)
"""The user has as many jobs in the queue as the site allows: this one has to wait, no more."""

NO_MUNGE = re.compile(r"munge|authentication|credential", re.IGNORECASE)
"""Slurm's commands cannot say who asks: a fault of this machine, which no waiting mends."""

NO_SUCH_NODES = re.compile(r"node configuration", re.IGNORECASE)
"""No node has all that is asked for together; Slurm does not say which part is too much."""

NODE_OPTIONS = ("cpus-per-task", "mem", *GPU_OPTIONS, "constraint", "nodes", "partition")
"""What a node, or their number, may be too small for."""

SLURMS_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"time limit", ("time",)),
    (r"memory specification", ("mem",)),
    (r"more processors|cpu count", ("cpus-per-task", "nodes")),
    (r"node count|too many nodes|PartitionNodeLimit", ("nodes",)),
    (r"accounting/QOS policy", ("nodes", "time", "qos", "account")),
    (r"invalid account|account/partition", ("account", "partition")),
    (r"invalid qos|qos specification", ("qos",)),
    (r"\bpartition", ("partition",)),
    (r"invalid generic resource|\(gres\)", ("gres",)),
    (r"feature specification", ("constraint",)),
    (r"reservation", ("reservation",)),
    (r"license specification", ("licenses",)),
    (r"node name", ("nodelist",)),
    (r"wckey", ("wckey",)),
)
"""Words of sbatch (slurm_errno.h), and the batch options they are about."""

SITES_WORDS: tuple[tuple[str, str], ...] = (
    (r"project|account|allocation|budget|charge|\s-A\b", "account"),
    (r"partition|queue|\s-p\b", "partition"),
    (r"\bqos|quality of service|\s-q\b", "qos"),
    (r"time ?limit|wall ?-?time|--time|\s-t\b", "time"),
    (r"\bgpu|\bgres|accelerator|\s-G\b", "gres"),
    (r"constraint|feature|file ?system|\s-C\b", "constraint"),
    (r"licen[cs]e|\s-L\b", "licenses"),
    (r"reservation", "reservation"),
    (r"memory|--mem\b", "mem"),
    (r"\bcores?\b|\bcpus?\b|processors|\s-c\b", "cpus-per-task"),
    (r"number of nodes|many nodes|few nodes|\bnodes\b|--nodes|\s-N\b", "nodes"),
)
"""Words that sites use in messages of their own (submit plugins), and the batch option they may mean."""

NO_REASON = re.compile(
    r"(?:; |^)(?:allocation failure|Batch job submission failed): Unspecified error$|"
    r"(?:; |^)cli_filter plugin terminated with error$"
)
"""What Slurm adds to the words of a plugin."""

UNSAID = ("job-name", "chdir", "output", "open-mode", "requeue", "ntasks-per-node")
"""Options that are the same for every job, and that no key decides."""


def explain(run_dir: Path, said: str) -> str:
    """Return one line for the user: file, key and Slurm's words, for the job of a run or of a build."""
    script = ScriptOptions(run_dir)
    if NO_MUNGE.search(said):
        return f"{script.where}: munge does not run on this machine, so Slurm trusts nobody here: {said}"
    if NO_SUCH_NODES.search(said) and not re.search("memory specification", said, re.IGNORECASE):
        return _of_some_node_option(script, said)
    for pattern, options in SLURMS_WORDS:
        if re.search(pattern, said, re.IGNORECASE):
            # What the script does not have is not blamed, unless Slurm wants just that.
            further = [option for option in options[1:] if script.named(option)]
            return refusal(script, [options[0], *further], said)
    return _in_the_sites_words(script, said)


def refusal(script: ScriptOptions, options: Iterable[str], said: str) -> str:
    """Return one line: the keys of these options, and what Slurm says."""
    return f"{_keys(script, options)}: Slurm refuses {script.where}: {said}"


def _of_some_node_option(script: ScriptOptions, said: str) -> str:
    """Slurm does not say which of them is too much: all that the script has, with their keys."""
    asked = [option for option in NODE_OPTIONS if option in script.values]
    keys = f"Slurm refuses {script.where}: {said}"
    if not asked:
        return f"{script.size_keys()}: {keys}"
    return f"{script.site_file}: {keys}: no nodes give all of {script.listed(asked)}"


def _keys(script: ScriptOptions, options: Iterable[str]) -> str:
    """Return the keys of options; `gres` stands for those of the script that ask for GPUs."""
    names = [
        name
        for option in options
        for name in (script.named(option) if option == "gres" else ()) or (option,)
    ]
    return ", or ".join(dict.fromkeys(script.keys(name) for name in names))


def _in_the_sites_words(script: ScriptOptions, said: str) -> str:
    """Return a message that is not Slurm's own: what it may mean, or else all that the script asks for."""
    said = NO_REASON.sub("", said) or said
    meant = [option for pattern, option in SITES_WORDS if re.search(pattern, said, re.IGNORECASE)]
    if meant:
        return (
            f"{_keys(script, meant)}: Slurm refuses {script.where} in words of the site's own, which "
            f"speak of {', '.join(meant)}: {said}"
        )
    asked = script.listed([option for option in script.values if option not in UNSAID])
    of_what = f"; the script asks for {asked}" if asked else ""
    return f"{script.where}: Slurm refuses {script.run_dir / 'job.sbatch'}: {said}{of_what}"
