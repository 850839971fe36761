"""The site that a batch script becomes: the options of its job, and its block `environment`."""

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from argosy.schedulers.slurm.user_script.container import MOUNT_OPTIONS
from argosy.schedulers.slurm.user_script.environment import Environment
from argosy.schedulers.slurm.user_script.job import IMAGE_OPTIONS, Job
from argosy.schedulers.slurm.user_script.options import Directive
from argosy.schedulers.slurm.user_script.sizes import GPU_OPTIONS, MEMORY_OPTIONS, Sizes
from argosy.shipped.new_project import site_profile
from argosy.site.models import Site
from argosy.site.values import option_name, option_value

_OUTPUT = "the output is in the run's folder: argosy logs"
_OF_THE_JOB = {
    "array": "a run is one job: write an experiment for each element, or repeats",
    "begin": "it is of one job: leave it out, or add it to options of the site's file",
    "chdir": "Argosy's jobs have folders of their own; the command's paths are rewritten",
    "clusters": "Argosy works with the cluster of the login node",
    "dependency": "it is of one job: Snakemake orders the runs",
    "error": _OUTPUT,
    "get-user-env": "write what jobs need into the block `environment` of job.sbatch.j2",
    "hold": "it is of one job",
    "input": "ranks have no input: let the program read a file",
    "job-name": "Argosy names each job by its run",
    "open-mode": _OUTPUT,
    "output": _OUTPUT,
    "parsable": "Argosy submits the jobs",
    "test-only": "Argosy tests each shape of job before it submits one",
    "wait": "Snakemake waits for the runs",
}
_OF_TASKS = re.compile(
    r"ntasks-per-(?:socket|core|gpu)|(?:cpu|gpu|mem)-bind|(?:gpus|cores|sockets)-per-\w+|distribution|"
    r"overcommit|mpi|kill-on-bad-exit|label|cpus-per-gpu"
)
_OF_EXPERIMENT = ("signal", *IMAGE_OPTIONS, *MOUNT_OPTIONS)
_LEVELS = {"partition": "queues", "qos": "queues", "constraint": "hardware", "gres": "hardware"}
"""Options that are not the whole site's."""
_RESOURCES = {
    "cpus-per-task": "cpus_per_rank",
    "cpus-per-gpu": "cpus_per_rank",
    "time": "time",
    **dict.fromkeys(MEMORY_OPTIONS, "memory_per_rank"),
    **dict.fromkeys(GPU_OPTIONS, "gpus_per_rank"),
}
_TEMPLATE = """\
{{% extends "job.sbatch.j2" %}}

{{% block environment %}}
{}
{{% endblock %}}
"""


@dataclass(frozen=True)
class SiteFiles:
    """Writes the files of a site.

    Args:
        name: of the site.
        job: of the script.
        environment: of the ranks.
    """

    name: str
    job: Job
    environment: Environment

    def files(self, source: str) -> dict[str, str]:
        """Return the files by their names; `source` is the script's name."""
        options = self._options_by_level()
        gpus = self.job.sizes.gpus_per_node
        kind = "gpu" if gpus else "cpu"
        partition = options["queues"].get("partition", "")
        queue = re.sub(r"[^A-Za-z0-9._-]+", "-", partition).strip("-._") or kind
        hardware = {"architecture": _architecture(), "gpus": gpus, "options": options["hardware"]}
        account = self.job.options.get("account")
        content = _set(
            {
                "scheduler": "slurm",
                "interface": self.environment.interface,
                "account": account and account.value,
                "options": options["options"],
                "hardware": {kind: _set(hardware)},
                "queues": {queue: _set({"hardware": [kind], "options": options["queues"]})},
            }
        )
        Site.model_validate(content)
        text = yaml.safe_dump(content, sort_keys=False, width=1000)
        files = {"config.yaml": site_profile(self.name), "site.yaml": self._head(source) + text}
        if self.environment.block:
            files["job.sbatch.j2"] = _TEMPLATE.format("\n".join(self.environment.block))
        return {f"slurm/{self.name}/{name}": text for name, text in files.items()}

    def _head(self, source: str) -> str:
        lines = [
            f"Written by `argosy init --from`, of {source!r}. docs/porting.md explains the keys.",
            "The architecture is that of the machine where it was written.",
        ]
        if not self.environment.interface:
            said = "Jobs need the network interface that connects the nodes. Write it here: interface: NAME"
            lines.append(said)
        if _memory_options(self.job.sizes).get("mem", "") is None:
            lines.append("The script requests no memory, so `mem: null` leaves it to Slurm.")
        return "".join(f"# {line}\n" for line in lines)

    def _options_by_level(self) -> dict[str, dict[str, Any]]:
        """Return the options of the site, its hardware and its queues; note what became of each."""
        found: dict[str, dict[str, Any]] = {
            "options": dict(_memory_options(self.job.sizes)),
            "hardware": dict(_gpu_option(self.job.sizes)),
            "queues": {},
        }
        for name, each in self.job.options.items():
            if name not in _OF_EXPERIMENT:
                said, reason = self._place(each, found)
                if said:
                    self.job.script.take(each.line, each.text, said)
                else:
                    self.job.script.leave(each.line, each.text, reason)
        return found

    def _place(self, each: Directive, found: dict[str, dict[str, Any]]) -> tuple[str, str]:
        """Put an option into its level; return its key, or else why it has none."""
        where = f"slurm/{self.name}"
        if key := self._key_of_size(each.name):
            return key, ""
        if each.name == "account":
            return f"{where}: account", ""
        if each.name == "requeue":
            return "each of Argosy's jobs has it", ""
        if each.name == "no-requeue":
            found["options"]["requeue"] = None
            return f"{where}: options.requeue: null", ""
        if _OF_TASKS.fullmatch(each.name):
            return "", "Argosy starts one task on each node, which starts the ranks"
        if reason := _OF_THE_JOB.get(each.name):
            return "", reason
        level = _LEVELS.get(each.name, "options")
        try:
            name, found[level][each.name] = _site_option(each.name, each.value)
        except ValueError as problem:
            return "", str(problem)
        return f"{where}: {'' if level == 'options' else f'{level}.*.'}options.{name}", ""

    def _key_of_size(self, name: str) -> str:
        """Return the key that a size of the job became; empty for other options, and without effect."""
        resources, key = self.job.sizes.resources, _RESOURCES.get(name, "")
        if name == "nodes":
            return f"scale.nodes: {self.job.sizes.scale}"
        if name in ("ntasks", "ntasks-per-node"):
            return f"scale.ranks_per_node: {self.job.sizes.ranks_per_node}"
        if key in resources and (name not in GPU_OPTIONS or self.job.sizes.gpu_request[0]):
            return f"resources.{key}: {resources[key]}"
        is_whole = name == "mem" and _memory_options(self.job.sizes).get("mem")
        return f"slurm/{self.name}: options.mem" if is_whole else ""


def _memory_options(sizes: Sizes) -> dict[str, str | None]:
    """Return the options of a site's file by which memory is requested as in the script."""
    of_job = sizes.options
    if sizes.memory_per_rank is None:
        # Without it Argosy would request memory; the whole node's is 0.
        return {"mem": "0" if of_job.get("mem", "1").strip("KMGTkmgtB") == "0" else None}
    if "mem" in of_job:
        return {}
    name = "mem-per-cpu" if "mem-per-cpu" in of_job else "mem-per-gpu"
    return {name: f"{{{name.replace('mem', 'memory').replace('-', '_')}}}M"}


def _gpu_option(sizes: Sizes) -> dict[str, str]:
    """Return the option of a site's file that requests GPUs as the script does."""
    name, found = sizes.gpu_request
    if not found:
        return {}
    field = "{gpus_total}" if name == "gpus" else "{gpus}"
    request = f"{found['type']}:{field}" if found["type"] else field
    if name != "gres":
        return {name: request}
    _, given = _site_option("gres", sizes.options["gres"])
    others = [part for part in given.split(",") if not part.startswith("gpu")]
    return {"gres": ",".join([f"gpu:{request}", *others])}


def _site_option(name: str, value: str) -> tuple[str, Any]:
    """Return an option for a site's file. Raises ValueError where a site may not set it."""
    text = value.replace("{", "{{").replace("}", "}}")
    return option_name(name), option_value(text or True)


def _architecture() -> str:
    return "aarch64" if platform.machine() in ("aarch64", "arm64") else "x86_64"


def _set(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value}
