"""Kinds of nodes, from `scontrol show node -o`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.schedulers.cluster_facts import NodeKind
from argosy.schedulers.slurm import gres
from argosy.schedulers.slurm.answers import read_records
from argosy.schedulers.slurm.survey.records import key_of, known, number

ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
ORIGIN = "scontrol show node"


@dataclass(frozen=True)
class Node:
    """A node as slurm.conf and slurmd declare it."""

    name: str
    architecture: str
    cores: int
    threads_per_core: int
    memory: int
    gpus: Mapping[str, int]
    """By type; one without a type is under an empty name."""
    partitions: frozenset[str]
    state: str

    @property
    def is_away(self) -> bool:
        """Whether it takes no jobs now."""
        return any(word in self.state for word in ("DOWN", "DRAIN", "FAIL", "MAINT", "RESERVED"))


def read_nodes(text: str) -> list[Node]:
    """Return the nodes of an answer; one whose size is not known, as it never came up, is left out."""
    return [node for record in read_records(text, "NodeName") if (node := _node(record))]


def _node(record: dict[str, str]) -> Node | None:
    cpus, memory = number(record.get("CPUTot", "")), number(record.get("RealMemory", ""))
    if not cpus or not memory:
        return None
    sockets = number(record.get("Sockets", "")) or 0
    cores = sockets * (number(record.get("CoresPerSocket", "")) or 0) or cpus
    threads = max(1, cpus // cores)
    # What Slurm keeps for itself and the system, jobs may not ask for.
    kept = number(record.get("CoreSpecCount", "")) or 0
    usable = number(record.get("CPUEfctv", ""))
    return Node(
        name=record["NodeName"],
        architecture=known(record, "Arch"),
        cores=max(1, usable // threads if usable else min(cores, cpus) - kept),
        threads_per_core=threads,
        memory=max(1, memory - (number(record.get("MemSpecLimit", "")) or 0)),
        gpus=_gpus(known(record, "Gres")),
        partitions=frozenset(known(record, "Partitions").split(",")) - {""},
        state=record.get("State", ""),
    )


def _gpus(text: str) -> dict[str, int]:
    offered = gres.offered(text) if text else {}
    typed = {
        name.removeprefix("gpu:"): count
        for name, count in offered.items()
        if name.startswith("gpu:")
    }
    rest = offered.get("gpu", 0) - sum(typed.values())
    return {**typed, **({"": rest} if rest > 0 else {})}


def kinds_by_partition(nodes: Iterable[Node]) -> dict[str, list[NodeKind]]:
    """Return the kinds of nodes of each partition: a kind for each type of GPU, and one for none.

    Nodes of a partition that differ in cores or memory are one kind, of what the least of them has: a job
    cannot choose between them. The same kind in two partitions is one.
    """
    members: dict[str, dict[tuple[str, str], list[Node]]] = {}
    for node in nodes:
        for partition in sorted(node.partitions):
            groups = members.setdefault(partition, {})
            for gpu in node.gpus or {"-": 0}:
                groups.setdefault((node.architecture, gpu), []).append(node)
    found = {
        partition: [_kind(gpu, group) for (_, gpu), group in groups.items()]
        for partition, groups in members.items()
    }
    return _named(found)


def _kind(gpu: str, nodes: Sequence[Node]) -> NodeKind:
    has_gpus = gpu != "-"
    asked = f"gpu:{gpu}:{{gpus}}" if gpu else "gpu:{gpus}"
    return NodeKind(
        name="",
        architecture=ARCHITECTURES.get(nodes[0].architecture, nodes[0].architecture),
        cores=min(each.cores for each in nodes),
        threads_per_core=min(each.threads_per_core for each in nodes),
        memory=min(each.memory for each in nodes),
        gpus=min(each.gpus[gpu] for each in nodes) if has_gpus else 0,
        gpu=gpu if has_gpus and gpu else None,
        options={"gres": asked} if has_gpus else {},
        nodes=tuple(sorted(each.name for each in nodes)),
        usable=sum(not each.is_away for each in nodes),
        origin=_described(nodes),
    )


def _described(nodes: Sequence[Node]) -> str:
    away = sum(each.is_away for each in nodes)
    differ = len({(each.cores, each.memory) for each in nodes}) > 1
    words = f"{ORIGIN} {nodes[0].name}" if len(nodes) == 1 else f"{ORIGIN}: {len(nodes)} nodes"
    return (
        words
        + (", the least of what they have" if differ else "")
        + (f", of which {away} take no jobs now" if away else "")
    )


def _named(found: dict[str, list[NodeKind]]) -> dict[str, list[NodeKind]]:
    """Give each kind a name: that of its GPUs or `cpu`, with the partition's where there are several."""
    shapes: dict[object, NodeKind] = {}
    taken: set[str] = set()
    for partition, kinds in found.items():
        for kind in kinds:
            if _shape(kind) in shapes:
                continue
            plain = key_of(kind.gpu or ("gpu" if kind.gpus else "cpu"))
            name = plain if plain not in taken else f"{plain}-{key_of(partition)}"
            while name in taken:
                name += "-2"
            taken.add(name)
            shapes[_shape(kind)] = replace(kind, name=name)
    return {
        partition: [shapes[_shape(kind)] for kind in kinds] for partition, kinds in found.items()
    }


def _shape(kind: NodeKind) -> object:
    return (
        *(kind.architecture, kind.cores, kind.threads_per_core, kind.memory),
        *(kind.gpus, kind.gpu),
    )
