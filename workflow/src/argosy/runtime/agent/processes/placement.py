"""CPUs of each rank of this node: with `resources.bind`, whole cores or a NUMA domain.

The kernel lists cores, NUMA domains and the domains of GPUs:
https://docs.kernel.org/admin-guide/cputopology.html
"""

from __future__ import annotations

import contextlib
import glob
import ipaddress
import os
import re
from typing import Callable, Iterable, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from ..hangs.places import ranges
from ..kernel_files import read_text
from ..settings import Settings
from ..telemetry import amd, nvidia
from ..telemetry.source import why
from .launch import StartError

_MOST_SAID = 8


class Place(NamedTuple):
    """CPUs of a rank, and the number of their cores."""

    cpus: Tuple[int, ...]
    cores: int

    @property
    def text(self) -> str:
        """Its CPUs, such as `0-3+8`."""
        return ranges(self.cpus, "+")


@contextlib.contextmanager
def held(place: Place | None) -> Iterator[None]:
    """Bind this thread to the CPUs, so that a child is bound from its first instruction."""
    if place is None:
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, place.cpus)
    except OSError as error:
        raise StartError(f"resources.bind: CPUs {place.text}: {why(error)}") from None
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def places_of(settings: Settings, say: Callable[[str], None]) -> List[Place] | None:
    """Return and `say` the place of each rank of this node; None: ranks are not bound.

    Raises:
        StartError: there are fewer cores than ranks.
    """
    run, width = settings.run, settings.ranks_per_node
    if run.bind is None:
        return None
    # All nodes of the site `local` share this machine.
    is_shared = ipaddress.ip_address(settings.head_address).is_loopback
    nodes, node = (settings.nodes, settings.node) if is_shared else (1, 0)
    gpus = run.gpus_per_rank or 0
    try:
        near = _domains_of_gpus(settings)[:: gpus or 1] if gpus else []
    except Exception as error:  # drivers raise anything
        say(f"node {settings.node}: bound without the NUMA domains of GPUs: {why(error)}")
        near = []
    homes = [*near, *[-1] * width][:width] * nodes
    domains = domains_of(os.sched_getaffinity(0))
    places = placed(domains, homes, run.bind, run.cpus_per_rank or 1)
    own = places[node * width : (node + 1) * width]
    said = ", ".join(place.text for place in own[:_MOST_SAID])
    more = f" and {width - _MOST_SAID} more" * (width > _MOST_SAID)
    first = settings.node * width
    ranks = f"ranks {first}-{first + width - 1} are" if width > 1 else f"rank {first} is"
    say(f"node {settings.node}: {ranks} bound to CPUs {said}{more}")
    return own


def domains_of(cpus: Iterable[int], sys: str = "/sys") -> Mapping[int, Sequence[Sequence[int]]]:
    """Return the CPUs of each core, by NUMA domain; a CPU without topology counts as a core."""
    system = f"{sys}/devices/system"
    lists = glob.glob(f"{system}/node/node[0-9]*/cpulist")
    nodes = {int(re.findall("node([0-9]+)/", path)[0]): _listed(path) for path in lists}
    cores: dict[tuple[int, int], list[int]] = {}
    for cpu in sorted(cpus):
        threads = _listed(f"{system}/cpu/cpu{cpu}/topology/thread_siblings_list")
        domain = next((node for node, near in nodes.items() if cpu in near), 0)
        cores.setdefault((domain, min(threads, default=cpu)), []).append(cpu)
    found: dict[int, list[list[int]]] = {}
    for (domain, _), core in sorted(cores.items()):
        found.setdefault(domain, []).append(core)
    return found


def placed(
    domains: Mapping[int, Sequence[Sequence[int]]], homes: Sequence[int], bind: str, most: int
) -> list[Place]:
    """Return the place of each rank: with `core` up to `most` cores, with `numa` its domain.

    `homes` has the domain of each rank; ranks of unknown domains fill the domains in blocks.
    Raises StartError.
    """
    ranks, blocks = len(homes), [domain for domain, cores in domains.items() for _ in cores]
    each = min(most, len(blocks) // ranks)
    if not each:
        raise StartError(
            f"resources.bind: {bind}: this machine has {len(blocks)} of the {ranks} cores that its ranks "
            "need: lower scale.ranks_per_node, raise resources.cpus_per_rank, or remove resources.bind"
        )
    free = {domain: [*cores] for domain, cores in domains.items()}
    places = []
    for rank, near in enumerate(homes):
        home = near if near in domains else blocks[rank * len(blocks) // ranks]
        cores: Sequence[Sequence[int]] = domains[home]
        if bind == "core":
            order = sorted(free, key=lambda domain: (len(free[domain]) < each, domain != home))
            cores = [core for domain in order for core in free[domain]][:each]
            free = {key: [one for one in left if one not in cores] for key, left in free.items()}
        places.append(Place(tuple(sorted(cpu for core in cores for cpu in core)), len(cores)))
    return places


def _domains_of_gpus(settings: Settings) -> list[int]:
    """Return the NUMA domain of each GPU, in the order of the ranks; negative: unknown."""
    folders = [
        each.folder for each in amd.visible_devices("/sys", "/dev", settings.visible_amd_gpus)
    ]
    if not folders:
        addresses = nvidia.pci_addresses(settings.nvml, settings.visible_gpus)
        folders = [f"/sys/bus/pci/devices/{address}" for address in addresses]
    return [int(read_text(f"{folder}/numa_node")) for folder in folders]


def _listed(path: str) -> list[int]:
    """Parse a file with a list of CPUs, such as `0-3,8`; empty if the file is missing."""
    try:
        ranges = [each.split("-") for each in read_text(path).strip().split(",") if each]
    except OSError:
        return []
    return [cpu for each in ranges for cpu in range(int(each[0]), int(each[-1]) + 1)]
