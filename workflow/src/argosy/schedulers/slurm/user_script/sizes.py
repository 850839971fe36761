"""Converts the sizes of a batch script's job into keys of an experiment."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from argosy.schedulers.slurm.answers import span_seconds
from argosy.schedulers.slurm.given import GPU_OPTIONS, MEMORY_OPTIONS
from argosy.schedulers.slurm.user_script.launch import Launch
from argosy.schedulers.slurm.user_script.lines import is_open
from argosy.schedulers.slurm.user_script.options import Directive
from argosy_common.units import duration, mebibytes

_LEAST_TIME_S = 60
_MOST_MEBIBYTES = 999_999_999
_GPUS = r"(?:(?P<type>[A-Za-z][\w.-]*):)?(?P<count>[0-9]{1,4})"


@dataclass(frozen=True)
class Sizes:
    """Sizes of a job, and its requests for GPUs and memory as options of a site's file."""

    nodes: int
    ranks_per_node: int
    gpus_per_node: int
    resources: Mapping[str, Any]
    """The key `resources` of the experiment."""
    gpu_option: Mapping[str, str]
    memory_option: Mapping[str, str | None]

    @property
    def scale(self) -> list[int]:
        """Node counts: powers of two up to the script's nodes."""
        powers = [1 << power for power in range(self.nodes.bit_length())]
        return sorted({*powers, self.nodes})


def sizes_of(options: Mapping[str, Directive], launch: Launch) -> Sizes:
    """Return the sizes of a job with these options of sbatch and this launch line."""
    of_job = {name: each.value for name, each in options.items()}
    of_launch = {name: each for name, each in launch.sizes.items() if not is_open(each)}
    # GPU options of srun count only if the job has none.
    if not of_job.keys().isdisjoint(GPU_OPTIONS):
        of_launch = {name: each for name, each in of_launch.items() if name not in GPU_OPTIONS}
    either = {**of_launch, **of_job}

    def count(name: str) -> int:
        return _count(of_launch.get(name, "")) or _count(of_job.get(name, ""))

    tasks, each = count("ntasks"), count("ntasks-per-node")
    by_tasks = math.ceil(tasks / each) if tasks and each else 1
    nodes = _most(of_launch.get("nodes", "")) or _most(of_job.get("nodes", "")) or by_tasks
    each = each or math.ceil(tasks / nodes) or 1
    gpu_option, gpus = _gpus(either, nodes, each)
    ranks = _workers(launch, nodes, gpus) if launch.is_torch else each
    cpus = max((count("cpus-per-task") or 1) * each, count("cpus-per-gpu") * gpus) // ranks or 1
    # Ranks that share a GPU have one each.
    gpus_per_rank = max(gpus // ranks, min(1, gpus))
    factors = {"mem": 1 / ranks, "mem-per-cpu": cpus, "mem-per-gpu": gpus_per_rank}
    memory, memory_option = _memory(either, factors)
    seconds = int(span_seconds(either.get("time", "")) or 0)
    resources = {
        "cpus_per_rank": cpus,
        "gpus_per_rank": gpus_per_rank,
        "memory_per_rank": memory,
        "time": duration(max(_LEAST_TIME_S, seconds)) if seconds else None,
    }
    given = {key: value for key, value in resources.items() if value}
    return Sizes(nodes, ranks, gpus, given, gpu_option, memory_option)


def _workers(launch: Launch, nodes: int, gpus: int) -> int:
    """Return the number of ranks that torchrun, accelerate or deepspeed starts on a node."""
    if each := _count(launch.sizes.get("workers-per-node", "")):
        return each
    if workers := _count(launch.sizes.get("workers", "")):
        return max(1, workers // nodes)
    # An unknown number is probably the number of GPUs, the default of other launchers than torchrun.
    is_one = "torchrun" in launch.starters and "workers-per-node" not in launch.sizes
    return 1 if is_one else gpus or 1


def _gpus(options: Mapping[str, str], nodes: int, tasks: int) -> tuple[dict[str, str], int]:
    """Return the site's option that requests the script's GPUs, and the number of GPUs of a node."""
    for name in GPU_OPTIONS:
        parts = escaped(options[name]).split(",") if name in options else []
        for part in parts:
            is_gres = name == "gres" and re.match(r"gpu(?::|$)", part)
            request = (part[4:] if is_gres else part) or "1"
            if (is_gres or name != "gres") and (found := re.fullmatch(_GPUS, request)):
                field = "{gpus_total}" if name == "gpus" else "{gpus}"
                prefix = "gpu:" if is_gres else ""
                text = prefix + (f"{found['type']}:" if found["type"] else "") + field
                others = [other for other in parts if is_gres and not other.startswith("gpu")]
                count = int(found["count"]) * (tasks if name == "gpus-per-task" else 1)
                of_node = math.ceil(count / nodes) if name == "gpus" else count
                return {name: ",".join([text, *others])}, of_node
    return {}, 0


def _memory(
    options: Mapping[str, str], factors: Mapping[str, float]
) -> tuple[str, dict[str, str | None]]:
    """Return the memory of a rank, and the site's option that requests it in the script's way."""
    for name in MEMORY_OPTIONS:
        found = re.fullmatch(r"([0-9]{1,9})([KMGT]?)B?", options.get(name, "").upper())
        if found and int(found[1]):
            value = mebibytes(f"{found[1]}{found[2] or 'M'}")
            size = min(max(1, int(value * factors[name])), _MOST_MEBIBYTES)
            option = f"{{{name.replace('mem', 'memory').replace('-', '_')}}}M"
            is_whole = "mem" in options
            text = f"{size}M" if size % 1024 else f"{size // 1024}G"
            return text, {} if is_whole else {name: option}
    # Without an option Argosy would request memory; `mem=0` requests the whole node's.
    return "", {"mem": "0" if options.get("mem", "1").strip("KMGTkmgtB") == "0" else None}


def _most(nodes: str) -> int:
    """Return the number of nodes, or the maximum of a range."""
    counts = re.findall(r"(?<![\w.])[0-9]{1,6}(?![\w.])", nodes)
    return max(map(int, counts), default=0)


def escaped(value: str) -> str:
    """Double the braces of a value, since options of a site's file use them for fields."""
    return value.replace("{", "{{").replace("}", "}}")


def _count(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,7}", text) else 0
