"""Converts a batch script into a site: the options of its job, and its block `environment`."""

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import yaml

from argosy.schedulers.slurm.given import GPU_OPTIONS, MEMORY_OPTIONS
from argosy.schedulers.slurm.user_script.environment import Environment
from argosy.schedulers.slurm.user_script.job import Job
from argosy.schedulers.slurm.user_script.options import IMAGES, MOUNTS, Directive
from argosy.schedulers.slurm.user_script.sizes import escaped
from argosy.shipped.new_project import site_profile
from argosy.site.models import Site
from argosy.site.values import option_name, option_value

_BY_REASON = {
    "a run is one job: give each element its values by `sweep`, or write repeats": "array",
    "Argosy's jobs have their own folders; Argosy rewrites paths in the command": "chdir",
    "it concerns one job: leave it out, or add it to options of the site's file": "begin hold",
    "Snakemake orders the runs, and waits for them": "dependency wait",
    "write required variables into the block `environment` of job.sbatch.j2": "get-user-env",
    "ranks have no standard input: let the program read a file": "input",
    "Argosy names each job by its run": "job-name",
    "the output is in the run's folder: argosy logs": "error open-mode output",
    "Argosy tests and submits the jobs itself": "parsable test-only",
    "Argosy starts one task on each node, which starts the ranks": (
        "ntasks-per-socket ntasks-per-core ntasks-per-gpu cpu-bind gpu-bind mem-bind gpus-per-socket "
        "cores-per-socket sockets-per-node cpus-per-gpu distribution overcommit mpi kill-on-bad-exit label"
    ),
}
_REASONS = {name: reason for reason, names in _BY_REASON.items() for name in names.split()}
"""Reasons why an option of a job has no key, by option."""
_OF_EXPERIMENT = ("signal", *IMAGES, *MOUNTS)
_LEVELS = {"partition": "queues", "qos": "queues", "constraint": "hardware", "gres": "hardware"}
"""Options that belong to queues or hardware instead of the site."""
_RESOURCES = {
    **dict.fromkeys(("cpus-per-task", "cpus-per-gpu"), "cpus_per_rank"),
    **dict.fromkeys(MEMORY_OPTIONS, "memory_per_rank"),
    **dict.fromkeys(GPU_OPTIONS, "gpus_per_rank"),
    "time": "time",
}
_TEMPLATE = """\
{{% extends "job.sbatch.j2" %}}

{{% block environment %}}
{}
{{% endblock %}}
"""


@dataclass(frozen=True)
class SiteFiles:
    """The files of a site; `files` notes the key of each option of the job."""

    name: str
    job: Job
    environment: Environment

    def files(self, source: str) -> dict[str, str]:
        """Return the files by name; `source` is the script's name."""
        options = self._options_by_level()
        gpus, account = self.job.sizes.gpus_per_node, self.job.options.get("account")
        kind = "gpu" if gpus else "cpu"
        partition = options["queues"].get("partition", "")
        queue = re.sub(r"[^A-Za-z0-9._-]+", "-", partition).strip("-._") or kind
        hardware = {"architecture": _architecture(), "gpus": gpus, "options": options["hardware"]}
        content = {
            "scheduler": "slurm",
            "interface": self.environment.interface,
            "account": account and account.value,
            "options": options["options"],
            "hardware": {kind: _given(hardware)},
            "queues": {queue: _given({"hardware": [kind], "options": options["queues"]})},
        }
        Site.model_validate(_given(content))
        text = yaml.safe_dump(_given(content), sort_keys=False, width=1000)
        files = {"config.yaml": site_profile(self.name), "site.yaml": self._head(source) + text}
        if self.environment.block:
            files["job.sbatch.j2"] = _TEMPLATE.format("\n".join(self.environment.block))
        return {f"slurm/{self.name}/{name}": text for name, text in files.items()}

    def _head(self, source: str) -> str:
        text = f"# Written by `argosy init --from` from {source!r}. docs/porting.md explains the keys.\n"
        text += "# The architecture is the one of the machine where init ran.\n"
        if not self.environment.interface:
            said = "Jobs need the network interface that connects the nodes. Write it here"
            text += f"# {said}: interface: NAME\n"
        if self.job.sizes.memory_option.get("mem", "") is None:
            text += "# The script requests no memory, so `mem: null` leaves it to Slurm.\n"
        return text

    def _options_by_level(self) -> dict[str, dict[str, Any]]:
        """Return the options of the site, its hardware and its queues; note the key of each option."""
        sizes, script = self.job.sizes, self.job.script
        found: dict[str, dict[str, Any]] = {
            "options": {**sizes.memory_option},
            "hardware": {**sizes.gpu_option},
            "queues": {},
        }
        for name, each in self.job.options.items():
            if name in _OF_EXPERIMENT:
                continue
            script.note(each.line, each.text, partial(self._key, each, found))
        return found

    def _key(self, each: Directive, found: Mapping[str, dict[str, Any]]) -> str:
        """Add an option to its level, and return its key. Raises ValueError for options without a key."""
        if key := self._key_of_size(each.name):
            return key
        if each.name == "requeue":
            return "Argosy's jobs all have it"
        if each.name == "account":
            return f"slurm/{self.name}: account"
        if each.name == "no-requeue":
            found["options"]["requeue"] = None
            return f"slurm/{self.name}: options.requeue: null"
        if reason := _REASONS.get(each.name):
            raise ValueError(reason)
        level = _LEVELS.get(each.name, "options")
        found[level][option_name(each.name)] = option_value(escaped(each.value) or True)
        return (
            f"slurm/{self.name}: {'' if level == 'options' else f'{level}.*.'}options.{each.name}"
        )

    def _key_of_size(self, name: str) -> str:
        """Return the key of an option for a size; empty for other options, and options without effect."""
        sizes, key = self.job.sizes, _RESOURCES.get(name, "")
        if name == "nodes":
            return f"scale.nodes: {sizes.scale}"
        if name in ("ntasks", "ntasks-per-node"):
            return f"scale.ranks_per_node: {sizes.ranks_per_node}"
        if key in sizes.resources and (name != "gres" or name in sizes.gpu_option):
            return f"resources.{key}: {sizes.resources[key]}"
        is_whole = name == "mem" and sizes.memory_option.get("mem")
        return f"slurm/{self.name}: options.mem" if is_whole else ""


def _architecture() -> str:
    return "aarch64" if platform.machine() in ("aarch64", "arm64") else "x86_64"


def _given(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value}
