"""Writes the `#SBATCH` lines of a job, and finds the file and key behind each."""

import math
import shlex
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from argosy.run_folder.folder import SCRIPT
from argosy.schedulers.base import job_name
from argosy.schedulers.job_request import JobRequest
from argosy.schedulers.slurm.answers import span_seconds
from argosy.schedulers.slurm.given import GPU_OPTIONS, MEMORY_OPTIONS, asked_as, read_options
from argosy.site.models import Site, read_site
from argosy.site.values import Options
from argosy_common.errors import ArgosyError
from argosy_common.reading import read_object, read_text, site_of

LOOPBACK = "lo"

SIZES = {
    "nodes": "{nodes}",
    "ntasks-per-node": "1",
    "cpus-per-task": "{cpus}",
    "mem": "{memory}M",
    "time": "{minutes}",
}
"""Argosy's own options for the size of a job, with fields as in a site's options."""

OF_A_PLACE = ("account", "partition", "qos", "constraint", "gres", "gpus", "gpus-per-node")
"""Options that many sites demand of every job."""


def script_options(job: JobRequest) -> dict[str, str | None]:
    """Return the options of sbatch by their long names; see `BatchSystem`."""
    job.check_folder()
    folder = str(job.folder)
    if "\\" in folder:
        raise ArgosyError(f"{folder}: move the project: Slurm interprets backslashes in paths")
    options: dict[str, str | None] = {
        "job-name": job_name(job.folder),
        "chdir": folder,
        # sbatch expands % and reads %% as a literal %.
        "output": f"{folder.replace('%', '%%')}/logs/scheduler-%j.log",
        # A requeued job appends to the same file.
        "open-mode": "append",
        "requeue": None,
        "account": job.account,
        **{name: size.format_map(job.fields) for name, size in SIZES.items()},
    }
    if not job.account:
        del options["account"]
    if job.survives_nodes:
        options["no-kill"] = None
    if job.warning is not None:
        # B: only the batch script gets the signal; it forwards it to the agents.
        options["signal"] = f"B:USR1@{job.warning}"
    options = _with_one_memory(job, job.with_options_of_site(options))
    _check_complete(job, options)
    return options


def _with_one_memory(job: JobRequest, options: Mapping[str, str | None]) -> dict[str, str | None]:
    """Keep a single memory option: the innermost level's, else Argosy's `mem`."""
    given = (name for level in job.levels[::-1] for name in MEMORY_OPTIONS if name in level)
    chosen = next((name for name in given if name in options), "mem")
    return {
        name: value
        for name, value in options.items()
        if name == chosen or name not in MEMORY_OPTIONS
    }


def directive(name: str, value: str | None) -> str:
    """Return one `#SBATCH` line, with shell quoting, which sbatch reads."""
    return f"#SBATCH --{name}" if value is None else f"#SBATCH --{name}={shlex.quote(value)}"


def _check_complete(job: JobRequest, options: Mapping[str, str | None]) -> None:
    site, placement = job.site, job.placement
    missing = []
    if site.account_required and not options.get("account"):
        other = f", or below hardware.{placement.hardware_name}" if len(site.hardware) > 1 else ""
        missing.append(
            f"account: this site requires one; write the name of your project here{other}"
        )
    if not site.interface:
        missing.append(
            "interface: unknown; write the network interface over which the nodes reach each other; "
            f"`{_look_at_nodes(job, options)}` lists them with their addresses"
        )
    several = options.get("nodes", "1") != "1"
    if site.interface == LOOPBACK and several:
        missing.append(
            f"interface: {LOOPBACK} is local to each node and reaches no other; "
            f"`{_look_at_nodes(job, options)}` lists the others"
        )
    if missing:
        raise ArgosyError("; ".join(missing))


def _look_at_nodes(job: JobRequest, options: Mapping[str, str | None]) -> str:
    """Return a command that lists the interfaces of two nodes, with the site's required options."""
    asked = {name: value for name in OF_A_PLACE if (value := options.get(name))}
    if job.site.account_required:
        asked = {"account": "PROJECT", **asked}
    words = [f"--{name}={shlex.quote(value)}" for name, value in asked.items()]
    return " ".join(["srun", *words, "--nodes=2", "--time=5", "ip -o addr"])


OF_ALL_RANKS = ("resources.cpus_per_rank", "resources.memory_per_rank", "resources.gpus_per_rank")
"""Keys whose values are multiplied by the ranks per node."""

FIELD_KEYS = {
    "nodes": "scale.nodes",
    "ranks": "scale.ranks_per_node",
    "ranks_per_node": "scale.ranks_per_node",
    "cpus": "resources.cpus_per_rank",
    "gpus": "resources.gpus_per_rank",
    "gpus_total": "resources.gpus_per_rank",
    "memory": "resources.memory_per_rank",
    "memory_per_cpu": "resources.memory_per_rank",
    "memory_per_gpu": "resources.memory_per_rank",
    "minutes": "resources.time",
}
"""The experiment's key behind each field in braces of an option."""

BUILD_KEYS = {"time": "queues", "nodes": "queues", "cpus-per-task": "hardware", "mem": "hardware"}
"""Keys of a site's file that limit a build job, which has no experiment."""


@dataclass(frozen=True)
class ScriptOptions:
    """The options of one job.

    `run_dir` is <project>/results/<site>/<experiment>/<run>, or <project>/logs/<site>/builds/<image> for a
    build job, which has no keys for its size.
    """

    run_dir: Path

    @property
    def where(self) -> str:
        """The run's name in messages."""
        return "/".join(self.run_dir.parts[-2:])

    @property
    def site_file(self) -> str:
        """The site file's name in messages."""
        return f"slurm/{self._site_name}/site.yaml"

    @cached_property
    def text(self) -> str:
        """The script's text; empty without a script."""
        try:
            return read_text(self.run_dir / SCRIPT, site_of(self.run_dir))
        except OSError:
            return ""

    @cached_property
    def values(self) -> Mapping[str, str | None]:
        """The options by their long names; None: an option without a value. Empty without a script."""
        return read_options(self.text)

    @property
    def cluster_name(self) -> str | None:
        """The cluster's name in the site's file."""
        return self._site.cluster_name if self._site else None

    @property
    def minutes(self) -> float:
        """The time limit in minutes: 0 without one, infinite for words such as UNLIMITED."""
        span = span_seconds(self.values.get("time") or "0")
        return math.inf if span is None else span / 60

    def named(self, option: str) -> list[str]:
        """Return the script's options of a group: `gres`: all for GPUs; `mem`: all for memory."""
        names = {"gres": GPU_OPTIONS, "mem": MEMORY_OPTIONS}.get(option, (option,))
        return [name for name in names if name in self.values]

    def keys(self, option: str) -> str:
        """Return the files and keys that set `option`, or the key under which to add it."""
        of_site = self._site_keys(option)
        of_experiment = self._experiment_keys(option)
        parts = []
        if of_site or not of_experiment or option in GPU_OPTIONS:
            parts.append(f"{self.site_file}: {of_site or self._new_key(option)}")
        if of_experiment and (experiment := self._experiment):
            full = " and ".join(f"experiments.{experiment}.{key}" for key in of_experiment)
            parts.append(f"config.yaml: {full}")
        return ", or ".join(parts)

    def listed(self, options: Sequence[str]) -> str:
        """Return options of the script with their values and keys."""
        return "; ".join(
            f"{name}{'' if self.values[name] is None else f'={self.values[name]}'} ({self.keys(name)})"
            for name in options
            if name in self.values
        )

    def size_keys(self) -> str:
        """Return the file and key of the job's size."""
        if self._experiment is None:
            return f"{self.site_file}: hardware"
        return f"config.yaml: experiments.{self._experiment}.resources"

    @property
    def _site_name(self) -> str:
        return self.run_dir.parts[-3]

    @property
    def _experiment(self) -> str | None:
        return asked_as(self.run_dir) if self.run_dir.parts[-4] == "results" else None

    @cached_property
    def _run(self) -> Mapping[str, object]:
        """The content of run.json; empty for a build."""
        try:
            return read_object(self.run_dir / "run.json", site_of(self.run_dir))
        except (OSError, ValueError):
            return {}

    @cached_property
    def _site(self) -> Site | None:
        try:
            return read_site(self.run_dir.parents[3] / "slurm" / self._site_name)
        except ArgosyError:
            return None

    def _levels(self) -> list[tuple[str, Options]]:
        """Return the site's options for this run, innermost first; for a build, those of all levels."""
        if self._site is None:
            return []
        places = {
            f"queues.{self._run.get('queue')}.options",
            f"hardware.{self._run.get('hardware')}.options",
            "options",
        }
        levels = self._site.all_options()[::-1]
        return [level for level in levels if level[0] in places] if self._run else levels

    def _site_keys(self, option: str) -> str:
        if option == "account":
            return self._account_key()
        found = [
            f"{where}.{option}"
            for where, options in self._levels()
            if self._is_from(option, options.get(option))
        ]
        # If the run's place is known, the innermost level wins.
        return found[0] if self._run and found else " or ".join(found)

    def _is_from(self, option: str, value: str | int | None) -> bool:
        """Return whether the script's value may come from this value of a level."""
        if value is None:
            return False
        asked = self.values.get(option)
        return asked is None or bool(self._run) or "{" in str(value) or str(value) == asked

    def _account_key(self) -> str:
        hardware = str(self._run.get("hardware"))
        kind = self._site.hardware.get(hardware) if self._site else None
        return f"hardware.{hardware}.account" if kind and kind.account else "account"

    def _new_key(self, option: str) -> str:
        """Return the key under which to add an option to a site's file."""
        if self._experiment is None:
            return BUILD_KEYS.get(option, f"options.{option}")
        queue = self._run.get("queue")
        if option in ("partition", "qos") and queue is not None:
            return f"queues.{queue}.options.{option}"
        return f"options.{option}"

    def _experiment_keys(self, option: str) -> list[str]:
        """Return the experiment's keys that determine an option's value."""
        if self._experiment is None:
            return []
        of_site = [str(options[option]) for _, options in self._levels() if options.get(option)]
        text = next(iter(of_site), SIZES.get(option, ""))
        fields = [name for _, name, _, _ in string.Formatter().parse(text) if name]
        keys = [FIELD_KEYS[name] for name in fields if name in FIELD_KEYS]
        if option == "signal" and not text:
            keys = ["checkpoints.warning"]
        if option in GPU_OPTIONS and not text and self.values and not self.named("gres"):
            keys = ["resources.gpus_per_rank"]
        if self._run.get("ranks_per_node", 1) != 1 and set(keys) & set(OF_ALL_RANKS):
            keys.append("scale.ranks_per_node")
        return list(dict.fromkeys(keys))
