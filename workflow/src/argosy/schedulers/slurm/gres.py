"""Generic resources as Slurm writes them, such as `gpu:a100:4(S:0-1),tmpfs:1T`."""

import re
from collections.abc import Mapping

GPU_OPTIONS = ("gres", "gpus-per-node", "gpus-per-task", "gpus")

_COUNT = re.compile(r"(\d+)([KMGT]?)")
_UNITS = " KMGT"


def offered(text: str) -> Mapping[str, int]:
    """Return what a node has by sinfo's word, by `name` and by `name:type`."""
    found: dict[str, int] = {}
    for kind, count in _items(re.sub(r"\([^)]*\)", "", text)):
        for name in {kind, kind.partition(":")[0]}:
            found[name] = found.get(name, 0) + count
    return found


def asked(option: str, text: str | None) -> Mapping[str, int]:
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
