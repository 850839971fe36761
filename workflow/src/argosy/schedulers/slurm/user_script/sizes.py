"""Sizes and options of a batch script: what they become in an experiment and in a site's file."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.schedulers.slurm.user_script.launch import TORCH_STARTERS
from argosy.site.values import option_name, option_value
from argosy_common.units import duration, mebibytes

OF_THE_JOB = {
    "array": "a run is one job: write an experiment for each element, or repeats",
    "begin": "it is of one job: leave it out, or add it to options of the site's file",
    "chdir": "Argosy's jobs have folders of their own; the command's paths are rewritten",
    "clusters": "Argosy works with the cluster of the login node",
    "dependency": "it is of one job: Snakemake orders the runs",
    "error": "the output is in the run's folder: argosy logs",
    "get-user-env": "write what jobs need into the block `environment` of job.sbatch.j2",
    "hold": "it is of one job",
    "input": "ranks have no input: let the program read a file",
    "job-name": "Argosy names each job by its run",
    "open-mode": "the output is in the run's folder: argosy logs",
    "output": "the output is in the run's folder: argosy logs",
    "parsable": "Argosy submits the jobs",
    "test-only": "Argosy tests each shape of job before it submits one",
    "wait": "Snakemake waits for the runs",
}
OF_TASKS = re.compile(
    r"ntasks-per-(?:socket|core|gpu)|(?:cpu|gpu|mem)-bind|(?:gpus|cores|sockets)-per-\w+|distribution|"
    r"overcommit|mpi|kill-on-bad-exit|label|cpus-per-gpu"
)
"""Options of tasks: Argosy starts one task on each node, and that starts the ranks."""
SIZES = ("nodes", "ntasks", "ntasks-per-node")
GPU_OPTIONS = ("gres", "gpus-per-node", "gpus", "gpus-per-task")
MEMORY_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")
_DEFAULT_WARNING_S = 60
_LEAST_TIME_S = 60
_MOST_MEBIBYTES = 999_999_999
_GPU_REQUEST = re.compile(r"(?:(?P<type>[A-Za-z][\w.-]*):)?(?P<count>[0-9]{1,4})")


@dataclass(frozen=True)
class Sizes:
    """Sizes of a script's job.

    Args:
        options: of sbatch, and of srun where sbatch has none.
        launch: sizes that the launchers of the launch line have, with srun's.
        starters: the launchers.
    """

    options: Mapping[str, str]
    launch: Mapping[str, str]
    starters: Sequence[str]

    @property
    def nodes(self) -> int:
        """Nodes of the job."""
        named = self.launch.get("nodes", ""), self.options.get("nodes", "")
        for text in named:
            counts = [int(each) for each in re.findall(r"(?<![\w.])[0-9]{1,6}(?![\w.])", text)]
            if any(counts):
                return max(counts)
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
        if not set(self.starters) & set(TORCH_STARTERS):
            return self.tasks_per_node
        if each := _count(self.launch.get("workers-per-node", "")):
            return each
        if workers := _count(self.launch.get("workers", "")):
            return max(1, workers // self.nodes)
        is_one = "torchrun" in self.starters and "workers-per-node" not in self.launch
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
    def gpu_option(self) -> dict[str, str]:
        """The option of a site's file that requests GPUs as the script does."""
        name, found = self.gpu_request
        if not found:
            return {}
        field = "{gpus_total}" if name == "gpus" else "{gpus}"
        request = f"{found['type']}:{field}" if found["type"] else field
        if name != "gres":
            return {name: request}
        _, given = site_option("gres", self.options["gres"])
        others = [part for part in given.split(",") if not part.startswith("gpu")]
        return {"gres": ",".join([f"gpu:{request}", *others])}

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
    def memory_options(self) -> dict[str, str | None]:
        """The options of a site's file by which memory is requested as in the script."""
        if self.memory_per_rank is None:
            # Without it Argosy would request memory; the whole node's is 0.
            return {"mem": "0" if self.options.get("mem", "1").strip("KMGTkmgtB") == "0" else None}
        if "mem" in self.options:
            return {}
        name = "mem-per-cpu" if "mem-per-cpu" in self.options else "mem-per-gpu"
        return {name: "{memory_per_cpu}M" if name == "mem-per-cpu" else "{memory_per_gpu}M"}

    @property
    def time_s(self) -> int | None:
        """Seconds of the job; None without a limit."""
        found = re.fullmatch(
            r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", self.options.get("time", "")
        )
        if not found:
            return None
        days, first, second, third = (int(each or 0) for each in found.groups())
        if found[1] is not None:
            seconds = days * 86400 + first * 3600 + second * 60 + third
        elif found[4] is not None:
            seconds = first * 3600 + second * 60 + third
        else:
            seconds = first * 60 + second
        return max(_LEAST_TIME_S, seconds) if seconds else None

    @property
    def scale(self) -> list[int]:
        """Node counts: powers of two up to the script's nodes."""
        powers = [1 << power for power in range(self.nodes.bit_length())]
        return sorted({*powers, self.nodes})

    @property
    def resources(self) -> dict[str, Any]:
        """The key `resources` of the experiment."""
        found: dict[str, Any] = {"cpus_per_rank": self.cpus_per_rank}
        if self.gpus_per_rank:
            found["gpus_per_rank"] = self.gpus_per_rank
        if memory := self.memory_per_rank:
            found["memory_per_rank"] = size_text(memory)
        if self.time_s:
            found["time"] = duration(self.time_s)
        return found

    def _count(self, name: str) -> int:
        return _count(self.launch.get(name, "")) or _count(self.options.get(name, ""))


def warning_s(value: str) -> int | None:
    """Return the seconds before the limit of `--signal`; None for another signal than SIGUSR1."""
    found = re.fullmatch(r"(?:[BR]+:)?(?:SIG)?(USR1|10)(?:@(\d{1,6}))?", value.strip("'\""))
    return (int(found[2]) if found[2] else _DEFAULT_WARNING_S) or None if found else None


def site_option(name: str, value: str) -> tuple[str, Any]:
    """Return an option for a site's file. Raises ValueError where a site may not set it."""
    text = value.replace("{", "{{").replace("}", "}}")
    return option_name(name), option_value(text or True)


def size_text(value: int) -> str:
    """Return mebibytes as a user writes them."""
    return f"{value}M" if value % 1024 else f"{value // 1024}G"


def _count(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,7}", text) else 0
