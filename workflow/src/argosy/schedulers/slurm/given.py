"""Hold what Slurm gave a job against what its script asks for: ``python3 given.py SCRIPT``.

Runs on the job's first node, before anything is measured. Says what is less, or another partition, and ends
with 2; more than was asked for is taken. Standard library only.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

Values = Mapping[str, "str | None"]

MEMORY_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")
"""Ways to ask for memory, of which sbatch takes one."""
_MEMORY_VARIABLES = ("SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU")
_MEBIBYTES = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
# Slurm divides memory among CPUs in whole MiB, and multiplies it again.
_ROUNDED = 0.99
# One of them is set wherever a job has GPUs of Slurm, whatever its version and their maker.
_GPU_LISTS = ("SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


def main(arguments: Sequence[str]) -> int:
    """Print what is missing, in one line, and return 2; 0 where nothing is."""
    (script,) = arguments
    site, experiment = Path(script).absolute().parts[-4:-2]
    values = read_options(Path(script).read_text(encoding="utf-8", errors="replace"))
    partition = values.get("partition")
    given = os.environ.get("SLURM_JOB_PARTITION")
    said = [
        f"config.yaml: experiments.{experiment}.{key}: the job asked for {words}"
        for key, words in shortfalls(values, os.environ)
    ]
    if partition and given and given not in partition.split(","):
        said.append(
            f"slurm/{site}/site.yaml: the job asked for the partition {partition} and Slurm gave it "
            f"{given}, whose nodes may be others than those that are to be measured"
        )
    if said:
        print("argosy: " + "; ".join(said), file=sys.stderr, flush=True)
    return 2 if said else 0


def read_options(script: str) -> dict[str, str | None]:
    """Return the options of a batch script by their long names; None: it takes no value."""
    found: dict[str, str | None] = {}
    for line in script.splitlines():
        if line.startswith("#SBATCH --"):
            name, equals, value = _unquoted(line).removeprefix("--").partition("=")
            found[name] = value if equals else None
    return found


def shortfalls(values: Values, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the experiment's key, and what was asked for and given, of all that a job has less of.

    Args:
        values: the options of its script, by their long names.
        environment: of the job's script, with Slurm's variables.
    """
    cpus = _number(values.get("cpus-per-task")) or 1
    gpus = sum(
        count
        for option in GPU_OPTIONS
        for kind, count in asked_gres(option, values.get(option)).items()
        if kind.partition(":")[0] == "gpu"
    )
    has_gpus = _gpus(environment)
    held = (
        ("scale.nodes", "nodes", values.get("nodes"), environment.get("SLURM_JOB_NUM_NODES")),
        ("resources.cpus_per_rank", "CPUs", str(cpus), environment.get("SLURM_CPUS_ON_NODE")),
        ("resources.gpus_per_rank", "GPUs", str(gpus), has_gpus),
    )
    for key, what, wanted, has in held:
        asked, given = _number(wanted), _number(has)
        if asked and given is not None and given < asked:
            yield key, _in_words(asked, what, given)
    wanted_memory = _memory(values, MEMORY_OPTIONS, cpus, gpus)
    counts = _number(environment.get("SLURM_CPUS_ON_NODE")) or cpus, _number(has_gpus) or 0
    given_memory = _memory(environment, _MEMORY_VARIABLES, *counts)
    if 0 < given_memory < wanted_memory * _ROUNDED:
        yield "resources.memory_per_rank", _in_words(wanted_memory, "MiB of memory", given_memory)


def _in_words(asked: float, what: str, given: float) -> str:
    where = "" if what == "nodes" else " of each node"
    return f"{asked:.0f} {what}{where} and Slurm gave it {given:.0f}: ask for what the site gives"


def _memory(values: Values, names: Sequence[str], cpus: int, gpus: int) -> float:
    """Return the MiB of a node by the values of these names: of a node, a CPU or a GPU; 0: not said."""
    of_node, of_cpu, of_gpu = (mebibytes(values.get(name)) for name in names)
    return of_node or of_cpu * cpus or of_gpu * gpus


def _gpus(environment: Mapping[str, str]) -> str | None:
    """Return how many GPUs the job has on this node; None where that is not known."""
    count = environment.get("SLURM_GPUS_ON_NODE")
    return count or (None if any(name in environment for name in _GPU_LISTS) else "0")


def mebibytes(text: str | None) -> float:
    """Return the memory that an option asks for; 0 where it says nothing, or all that a node has."""
    found = re.fullmatch(r"(\d+)([KMGT]?)", text or "")
    return int(found[1]) * _MEBIBYTES[found[2] or "M"] if found else 0


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


def _unquoted(line: str) -> str:
    """Return the option of a line `#SBATCH --name='value'` as sbatch reads it."""
    words = line.removeprefix("#SBATCH ")
    try:
        return shlex.split(words)[0]
    except ValueError:
        return words


GPU_OPTIONS = ("gres", "gpus-per-node", "gpus-per-task", "gpus")

_COUNT = re.compile(r"(\d+)([KMGT]?)")
_UNITS = " KMGT"


def offered_gres(text: str) -> Mapping[str, int]:
    """Return what a node has by sinfo's word, by `name` and by `name:type`."""
    found: dict[str, int] = {}
    for kind, count in _items(re.sub(r"\([^)]*\)", "", text)):
        for name in {kind, kind.partition(":")[0]}:
            found[name] = found.get(name, 0) + count
    return found


def asked_gres(option: str, text: str | None) -> Mapping[str, int]:
    """Return what an option of sbatch asks of one node; nothing where it asks of the whole job."""
    if not text or option == "gpus":
        return {}
    if option != "gres":
        # Jobs have one task a node: per task is per node.
        text = ",".join(f"gpu:{part}" for part in text.split(","))
    found: dict[str, int] = {}
    for kind, count in _items(text):
        found[kind] = found.get(kind, 0) + count
    return found


def _items(text: str) -> list[tuple[str, int]]:
    """Name, with a type perhaps, and number of each; one where there is no number."""
    found = []
    for part in filter(None, text.split(",")):
        *kind, last = part.split(":")
        count = _COUNT.fullmatch(last)
        if count and kind:
            number = int(count[1]) * 1024 ** _UNITS.index(count[2] or " ")
            found.append((":".join(kind), number))
        else:
            found.append((part, 1))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
