"""Finds out whether a run's ranks have met, from the recorded connections of all nodes.

The records come from inside the container: values of a wrong type count as missing.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Mapping, Sequence

from .contract import files, layout
from .contract.run import RunSpec


def groups_of_ranks(run: RunSpec, records: str) -> int | None:
    """Return the number of groups of connected ranks; 1: all have met.

    0: unknown. None: ranks need not meet, such as a single rank or `independent` ones.
    """
    if not run.has_to_meet:
        return None
    notes = [
        files.try_object(os.path.join(records, layout.node_links(node)))
        for node in range(run.nodes)
    ]
    links: dict[int, list[str]] = {}
    for node, noted in enumerate(notes):
        mine = noted.get("links")
        if not isinstance(mine, dict) or not all(
            _are_names(noted.get(kind)) for kind in ("ports", "called", "closed")
        ):
            return 0
        for rank in run.meeting_ranks(node):
            names = mine.get(str(rank))
            if not isinstance(names, list) or not _are_names(names):
                return 0
            links[rank] = names
    groups = count_groups(links) or 0
    members = [(noted, len(run.meeting_ranks(node))) for node, noted in enumerate(notes)]
    if run.lone_program and _is_alone(run.lone_program, links):
        # The head sees all connections of its own network.
        head = notes[0].get("network")
        members = [members[0], *(one for one in members[1:] if one[0].get("network") != head)]
    clear = all(noted.get("unclear") is False for noted, _ in members)
    return groups if groups == 1 or (clear and not _were_called(members)) else 0


def _is_alone(program: int, links: Mapping[int, list[str]]) -> bool:
    """Return whether all members except the program have met."""
    return count_groups({rank: names for rank, names in links.items() if rank != program}) == 1


def _are_names(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)


def _were_called(members: Sequence[tuple[Mapping[str, Any], int]]) -> bool:
    """Return whether a connection of unknown ranks used a port on which a rank listened.

    A single rank on a network, such as a machine's loopback, can only have called itself. `members` are
    records of nodes, each with its number of ranks.
    """
    networks = [noted.get("network") for noted, _ in members]
    closed = {port for noted, _ in members for port in noted["closed"]}
    return any(
        not closed.isdisjoint(noted["ports"])
        or (noted["called"] and (count > 1 or networks.count(noted.get("network")) > 1))
        for noted, count in members
    )


def count_groups(links: Mapping[int, list[str]]) -> int | None:
    """Return the number of groups of connected ranks; None if ranks of two groups may be connected."""
    group = groups_in(links)
    found = len({*group.values()})
    top = group.__getitem__
    return None if found > 1 and any(_may_have_met(rank, links, top) for rank in links) else found


def groups_in(links: Mapping[int, Iterable[str]]) -> dict[int, int]:
    """Return a number for each rank, the same for connected ranks.

    A link is `NETWORK>LOCAL>REMOTE`, or the name of something else that ranks share.
    """
    group = {rank: rank for rank in links}

    def top(rank: int) -> int:
        while group[rank] != rank:
            rank = group[rank]
        return rank

    holders: dict[str, set[int]] = {}
    for rank, names in links.items():
        for name in names:
            holders.setdefault(_both_ways(name), set()).add(rank)
    for ranks in holders.values():
        first, *others = sorted(ranks)
        for other in others:
            group[top(other)] = top(first)
    return {rank: top(rank) for rank in links}


def _may_have_met(rank: int, links: Mapping[int, list[str]], top: Callable[[int], int]) -> bool:
    """Return whether a rank has a connection to another group's address whose other end is unknown."""
    known = {_both_ways(name) for other, names in links.items() if other != rank for name in names}
    elsewhere = {
        _address(name, 1)
        for other, names in links.items()
        if top(other) != top(rank)
        for name in names
    }
    return any(
        _both_ways(name) not in known
        and _reverse(name) not in links[rank]
        and _address(name, 2) in elsewhere
        for name in links[rank]
        if name.count(">") == 2
    )


def _both_ways(name: str) -> str:
    network, _, ends = name.partition(">")
    return ">".join([network, *sorted(ends.split(">"))])


def _reverse(name: str) -> str:
    network, local, remote = name.split(">")
    return f"{network}>{remote}>{local}"


def _address(name: str, end: int) -> str:
    """Return the network and address of an end of a connection; other names are returned unchanged."""
    parts = name.split(">")
    return f"{parts[0]}>{parts[end].rpartition(':')[0]}" if len(parts) == 3 else name
