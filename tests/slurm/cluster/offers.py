"""What a cluster pretends to have, to be asked for jobs that never run there."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Offers:
    """All nodes are declared alike, larger than they are; the partitions are besides the usual ones."""

    cpus: int
    memory_mb: int
    gres: Sequence[str]
    """`name:type:count` or `name:count`."""
    features: Sequence[str]
    partitions: Sequence[str]

    def node(self) -> str:
        """The part of a node's line that says what it has."""
        return (
            f"CPUs={self.cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={self.cpus}"
            f" ThreadsPerCore=1 RealMemory={self.memory_mb} Feature={','.join(self.features)}"
            + (f" Gres={','.join(self.gres)}" if self.gres else "")
        )

    def gres_types(self) -> str:
        """The names alone, as slurm.conf lists them."""
        return ",".join(sorted({each.partition(":")[0] for each in self.gres} | {"gpu"}))

    def gres_lines(self, node: str, devices: Path) -> list[str]:
        """The lines of gres.conf for a node. Slurm believes in a GPU only where it has a device."""
        lines, device = [], 0
        for each in self.gres:
            name, *kind, count = each.split(":")
            of_type = f" Type={kind[0]}" if kind else ""
            what = f"Count={count}"
            if name == "gpu":
                what = f"File={devices}/nvidia[{device}-{device + int(count) - 1}]"
                device += int(count)
            lines.append(f"NodeName={node} Name={name}{of_type} {what}")
        return lines

    def partition_lines(self) -> str:
        """The lines of slurm.conf for the partitions."""
        return "".join(f"PartitionName={name} Nodes=ALL\n" for name in self.partitions)
