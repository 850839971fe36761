"""What Slurm would give a job, held against what its script asks for."""

import math

from argosy.schedulers.slurm.answers import read_start
from argosy.schedulers.slurm.given import mebibytes
from argosy.schedulers.slurm.option_keys import ScriptOptions
from argosy.schedulers.slurm.partitions import Partition


def other_partition(options: ScriptOptions, answer: str) -> str:
    """Return the partition in the answer of `sbatch --test-only` where the script names another."""
    start = read_start(answer)
    given = start[1] if start else ""
    asked = (options.values.get("partition") or "").split(",")
    return given if given and any(asked) and given not in asked else ""


def fewer_nodes(options: ScriptOptions, answer: str) -> int | None:
    """Return how many nodes the answer of `sbatch --test-only` has where the script asks for more."""
    start, asked = read_start(answer), options.values.get("nodes") or ""
    return start[0] if start and asked.isdigit() and 0 < start[0] < int(asked) else None


def more_cpus(options: ScriptOptions, partition: Partition | None) -> str:
    """Say that Slurm will give more CPUs of a node than are asked for; else nothing.

    It does so for memory that counts as CPUs. `sbatch --test-only` counts as the script does, and so does
    not tell.
    """
    cpus, memory = options.values.get("cpus-per-task") or "1", mebibytes(options.values.get("mem"))
    memory = memory or mebibytes(options.values.get("mem-per-cpu")) * int(cpus)
    most = partition.memory_per_cpu if partition else math.inf
    given = math.ceil(memory / most)
    if partition is None or given <= int(cpus):
        return ""
    return (
        f"Slurm will give it {given} CPUs of each node where it asks for {cpus}, as the partition "
        f"{partition.name} counts {most:.0f} MiB for a CPU and it asks for {memory:.0f}: "
        f"{options.keys('mem')}, or {options.keys('cpus-per-task')}, changes that"
    )
