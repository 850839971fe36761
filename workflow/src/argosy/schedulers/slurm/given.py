"""Compare a job's allocation with its script's request: ``python3 given.py SCRIPT``.

The job's first node runs it before the measurement. It reports smaller resources or another partition and
exits with 2; it accepts a larger allocation. Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

Values = Mapping[str, "str | None"]

MEMORY_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")
"""Options that request memory; sbatch accepts one of them."""
_MEMORY_VARIABLES = ("SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU")
_MEBIBYTES = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
# Slurm rounds memory per CPU down to whole MiB.
_ROUNDED = 0.99
# One of them is set in every job with GPUs, for all versions of Slurm and all vendors.
_GPU_LISTS = ("SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


def asked_as(run_dir: Path) -> str:
    """Return the run's experiment in config.yaml; its folder may have another name."""
    try:
        made = json.loads((run_dir / "provenance.json").read_text(encoding="utf-8"))["experiment"]
        of = [made[key]["of"] for key in ("sweep", "variant") if key in made]
        return str([*of, made.get("native_of") or run_dir.parts[-2]][0])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return run_dir.parts[-2]


def main(arguments: Sequence[str]) -> int:
    """Print the missing resources in one line and return 2; return 0 if none are missing."""
    (script,) = arguments
    run_dir = Path(script).absolute().parent
    site, experiment = run_dir.parts[-3], asked_as(run_dir)
    values = read_options(Path(script).read_text(encoding="utf-8", errors="replace"))
    partition = values.get("partition")
    given = os.environ.get("SLURM_JOB_PARTITION")
    said = [
        f"config.yaml: experiments.{experiment}.{key}: the job requested {words}"
        for key, words in shortfalls(values, os.environ)
    ]
    if partition and given and given not in partition.split(","):
        said.append(
            f"slurm/{site}/site.yaml: the job requested the partition {partition} and Slurm assigned "
            f"{given}, whose nodes may differ"
        )
    if said:
        print("argosy: " + "; ".join(said), file=sys.stderr, flush=True)
    return 2 if said else 0


def read_options(script: str) -> dict[str, str | None]:
    """Return a batch script's options by their long names; None: an option without a value."""
    found: dict[str, str | None] = {}
    for line in script.splitlines():
        if line.startswith("#SBATCH --"):
            name, equals, value = _unquoted(line).removeprefix("--").partition("=")
            found[name] = value if equals else None
    return found


def shortfalls(values: Values, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the experiment's key, and request and allocation in words, for each smaller resource.

    Args:
        values: options of the script by their long names.
        environment: environment of the job's script, with Slurm's variables.
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
    words = f"{asked:.0f} {what}{where} and Slurm allocated {given:.0f}"
    return f"{words}: request no more than the site allows"


def _memory(values: Values, names: Sequence[str], cpus: int, gpus: int) -> float:
    """Return a node's memory in MiB from values per node, CPU or GPU; 0 without a value."""
    of_node, of_cpu, of_gpu = (mebibytes(values.get(name)) for name in names)
    return of_node or of_cpu * cpus or of_gpu * gpus


def _gpus(environment: Mapping[str, str]) -> str | None:
    """Return the number of the job's GPUs on this node; None if unknown."""
    count = environment.get("SLURM_GPUS_ON_NODE")
    return count or (None if any(name in environment for name in _GPU_LISTS) else "0")


def mebibytes(text: str | None) -> float:
    """Convert an option's memory to MiB; 0 without a value or for a whole node."""
    found = re.fullmatch(r"(\d+)([KMGT]?)", text or "")
    return int(found[1]) * _MEBIBYTES[found[2] or "M"] if found else 0


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


def _unquoted(line: str) -> str:
    """Return the option of a line `#SBATCH --name='value'`, unquoted as by sbatch."""
    words = line.removeprefix("#SBATCH ")
    try:
        return shlex.split(words)[0]
    except ValueError:
        return words


GPU_OPTIONS = ("gres", "gpus-per-node", "gpus-per-task", "gpus")

_COUNT = re.compile(r"(\d+)([KMGT]?)")
_UNITS = " KMGT"


def offered_gres(text: str) -> Mapping[str, int]:
    """Return a node's resources from sinfo, by `name` and by `name:type`."""
    found: dict[str, int] = {}
    for kind, count in _items(re.sub(r"\([^)]*\)", "", text)):
        for name in {kind, kind.partition(":")[0]}:
            found[name] = found.get(name, 0) + count
    return found


def asked_gres(option: str, text: str | None) -> Mapping[str, int]:
    """Return an option's request per node; empty for requests of a whole job."""
    if not text or option == "gpus":
        return {}
    if option != "gres":
        # Jobs have one task per node, so per task means per node.
        text = ",".join(f"gpu:{part}" for part in text.split(","))
    found: dict[str, int] = {}
    for kind, count in _items(text):
        found[kind] = found.get(kind, 0) + count
    return found


def _items(text: str) -> list[tuple[str, int]]:
    """Return the name, or `name:type`, and the count of each resource; 1 without a count."""
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
