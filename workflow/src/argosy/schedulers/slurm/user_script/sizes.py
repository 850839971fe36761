"""Sizes of a batch script's job: what they become in an experiment."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from argosy.schedulers.slurm.user_script.launch import Launch
from argosy.schedulers.slurm.user_script.lines import is_open
from argosy.schedulers.slurm.user_script.options import Directive
from argosy_common.units import duration, mebibytes

GPU_OPTIONS = ("gres", "gpus-per-node", "gpus", "gpus-per-task")
MEMORY_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")
_LEAST_TIME_S = 60
_MOST_MEBIBYTES = 999_999_999
_GPU_REQUEST = re.compile(r"(?:(?P<type>[A-Za-z][\w.-]*):)?(?P<count>[0-9]{1,4})")
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


@dataclass(frozen=True)
class Sizes:
    """Sizes of a script's job.

    Args:
        options: of sbatch, and of srun where sbatch has none.
        launch: sizes that the launchers of the launch line have, with srun's.
        is_torch: whether torchrun or its like starts ranks.
        is_torchrun: whether torchrun itself does.
    """

    options: Mapping[str, str]
    launch: Mapping[str, str]
    is_torch: bool
    is_torchrun: bool

    @classmethod
    def of(cls, options: Mapping[str, Directive], launch: Launch) -> "Sizes":
        """Return the sizes of a job with these options and this launch line."""
        of_job = {name: each.value for name, each in options.items()}
        of_srun = {name: each for name, each in launch.sizes.items() if not is_open(each)}
        # A GPU option of srun counts where the job has none.
        if not of_job.keys().isdisjoint(GPU_OPTIONS):
            of_srun = {name: each for name, each in of_srun.items() if name not in GPU_OPTIONS}
        # A size that is not known before the job is there, and says nothing.
        of_launch = {name: "" if is_open(each) else each for name, each in launch.sizes.items()}
        is_torchrun = "torchrun" in launch.starters
        return cls({**of_srun, **of_job}, of_launch, launch.is_torch, is_torchrun)

    @property
    def nodes(self) -> int:
        """Nodes of the job."""
        for named in (self.launch, self.options):
            counts = re.findall(r"(?<![\w.])[0-9]{1,6}(?![\w.])", named.get("nodes", ""))
            if most := max(map(int, counts), default=0):
                return most
        tasks, each = self._count("ntasks"), self._count("ntasks-per-node")
        return math.ceil(tasks / each) if tasks and each else 1

    @property
    def tasks_per_node(self) -> int:
        """Tasks that Slurm or MPI starts on a node."""
        each, tasks = self._count("ntasks-per-node"), self._count("ntasks")
        return each or (math.ceil(tasks / self.nodes) if tasks else 1)

    @property
    def ranks_per_node(self) -> int:
        """Ranks of a node: torchrun and its like start several by one task."""
        if not self.is_torch:
            return self.tasks_per_node
        if each := _count(self.launch.get("workers-per-node", "")):
            return each
        if workers := _count(self.launch.get("workers", "")):
            return max(1, workers // self.nodes)
        is_one = self.is_torchrun and "workers-per-node" not in self.launch
        return 1 if is_one else self.gpus_per_node or 1

    @property
    def gpus_per_node(self) -> int:
        """GPUs of a node."""
        name, found = self.gpu_request
        count = int(found["count"]) if found else 0
        if name == "gpus":
            return math.ceil(count / self.nodes)
        return count * self.tasks_per_node if name == "gpus-per-task" else count

    @property
    def gpu_request(self) -> tuple[str, re.Match[str] | None]:
        """The option that requests GPUs, and its type and count."""
        for name in GPU_OPTIONS:
            for part in self.options[name].split(",") if name in self.options else ():
                is_gpu = name != "gres" or re.match(r"gpu(?::|$)", part)
                request = part.removeprefix("gpu").removeprefix(":") if name == "gres" else part
                if is_gpu and (found := _GPU_REQUEST.fullmatch(request or "1")):
                    return name, found
        return "", None

    @property
    def gpus_per_rank(self) -> int:
        """GPUs of a rank; where ranks share one, each of them has one."""
        return max(self.gpus_per_node // self.ranks_per_node, min(1, self.gpus_per_node))

    @property
    def cpus_per_rank(self) -> int:
        """Cores of a rank."""
        cpus = (self._count("cpus-per-task") or 1) * self.tasks_per_node
        cpus = max(cpus, self._count("cpus-per-gpu") * self.gpus_per_node)
        return max(1, cpus // self.ranks_per_node)

    @property
    def memory_per_rank(self) -> int | None:
        """Memory of a rank in MiB; None if the script does not say."""
        for name in MEMORY_OPTIONS:
            found = re.fullmatch(r"([0-9]{1,9})([KMGT]?)B?", self.options.get(name, "").upper())
            if found and int(found[1]):
                value = mebibytes(f"{found[1]}{found[2] or 'M'}")
                factor = {"mem-per-cpu": self.cpus_per_rank, "mem-per-gpu": self.gpus_per_rank}
                size = int(value * factor.get(name, 1 / self.ranks_per_node))
                return min(max(1, size), _MOST_MEBIBYTES)
        return None

    @property
    def time_s(self) -> int | None:
        """Seconds of the job; None without a limit."""
        found = _TIME.fullmatch(self.options.get("time", ""))
        if not found:
            return None
        days, *parts = (int(each or 0) for each in found.groups())
        # Without days, and with one colon or none, Slurm counts minutes first.
        units = (3600, 60, 1) if found[1] or found[4] else (60, 1, 0)
        seconds = days * 86400 + sum(part * unit for part, unit in zip(parts, units, strict=True))
        return max(_LEAST_TIME_S, seconds) if seconds else None

    @property
    def scale(self) -> list[int]:
        """Node counts: powers of two up to the script's nodes."""
        powers = [1 << power for power in range(self.nodes.bit_length())]
        return sorted({*powers, self.nodes})

    @property
    def resources(self) -> dict[str, Any]:
        """The key `resources` of the experiment."""
        memory = self.memory_per_rank or 0
        size = f"{memory}M" if memory % 1024 else f"{memory // 1024}G"
        found = {
            "cpus_per_rank": self.cpus_per_rank,
            "gpus_per_rank": self.gpus_per_rank,
            "memory_per_rank": size if memory else None,
            "time": duration(self.time_s) if self.time_s else None,
        }
        return {key: value for key, value in found.items() if value}

    def _count(self, name: str) -> int:
        return _count(self.launch.get(name, "")) or _count(self.options.get(name, ""))


def _count(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,7}", text) else 0
