"""How often hosts are named that are not slow, where a rank has more to do wherever it runs.

Each study has 12 runs or more on some of 8 hosts; ranks are looked at step by step as in a report.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.table import Table
from ugly_studies import Ugliness, rank_times

from argosy.report.runs.stragglers import stragglers
from argosy.report.topics.slowness import LookedAt, slow_hosts, slow_ranks_again

STUDIES = 300
SEED = 15
STEPS = 100
SCATTER = 0.03
HOSTS = tuple(f"host{number}" for number in range(8))
SLOW_HOST = "host2"
MOST_FALSE, LEAST_FOUND = 0.05, 0.95
SLACK = 2.5 * (0.05 * 0.95 / STUDIES) ** 0.5
"""2.5 standard errors of a share of so many studies."""


@dataclass(frozen=True)
class World:
    """By how many times rank 1's own work, and what runs on SLOW_HOST, takes longer; nodes of the runs.

    A scheduler chooses hosts in any order, sorted by name, or always the first ones. `tells`: so many runs
    tell the slow host in 95 of 100 studies; on the same hosts always, no number does.
    """

    name: str
    uneven: float = 1.0
    slow: float = 1.0
    nodes: tuple[int, ...] = (4,) * 12
    ranks_per_node: int = 1
    alike: float = 0.0
    chosen: str = "in any order"
    tells: bool = True


WORLDS = (
    World("nobody is slow"),
    World("nobody is slow, steps alike by 0.9", alike=0.9),
    World("an uneven rank", uneven=1.06),
    World("an uneven rank", uneven=1.06, chosen="sorted"),
    World("an uneven rank", uneven=1.06, chosen="the first"),
    World("an uneven rank, 2 ranks a node", uneven=1.06, ranks_per_node=2),
    World("an uneven rank, 2 to 8 nodes", uneven=1.06, nodes=(2, 4, 8) * 6, chosen="sorted"),
    World("a host 5 % slow", slow=1.05),
    World("a host 5 % slow", slow=1.05, chosen="sorted"),
    World("a host 6 % slow", slow=1.06),
    World("a host 6 % slow", slow=1.06, chosen="sorted"),
    World("a host 6 % slow", slow=1.06, chosen="the first", tells=False),
    World("a host 6 % slow, 2 ranks a node", slow=1.06, ranks_per_node=2),
    World("a host 6 % slow, 2 to 8 nodes", slow=1.06, nodes=(2, 4, 8) * 6),
    World(
        "a host 6 % slow, 2 to 8 nodes",
        slow=1.06,
        nodes=(2, 4, 8) * 6,
        chosen="sorted",
        tells=False,
    ),
    World("an uneven rank and a host 6 % slow", uneven=1.06, slow=1.06, nodes=(4,) * 24),
)


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each world, the figures, and whether all bars hold."""
    head = ("world", "hosts", "innocent hosts named", "slow host named")
    table = Table(*head, "uneven rank told", "others told so")
    figures: dict[str, object] = {}
    held = True
    for place, world in enumerate(WORLDS):
        chance = np.random.default_rng([SEED, place])
        found = [_named(list(_runs(world, chance))) for _ in range(STUDIES)]
        slow = {SLOW_HOST} if world.slow > 1 else set()
        uneven = {1} if world.uneven > 1 else set()
        shares = {
            "innocent hosts": _share(bool({*hosts} - slow) for hosts, _ in found),
            "slow host": _share(SLOW_HOST in hosts for hosts, _ in found) if slow else None,
            "uneven rank": _share(1 in ranks for _, ranks in found) if uneven else None,
            "other ranks": _share(bool({*ranks} - uneven) for _, ranks in found),
        }
        is_held = not any(
            (shares[name] or 0) > MOST_FALSE + SLACK for name in ("innocent hosts", "other ranks")
        )
        if slow and world.tells:
            is_held &= (shares["slow host"] or 0) >= LEAST_FOUND - SLACK
        held &= is_held
        said = ["" if share is None else f"{share:.3f}" for share in shares.values()]
        table.add_row(world.name, world.chosen + ("" if is_held else " missed"), *said)
        figures[f"{world.name}, {world.chosen}"] = shares | {"held": is_held}
    return table, figures, held


def _runs(world: World, chance: np.random.Generator) -> Iterator[LookedAt]:
    kind = Ugliness(scatter=SCATTER, autocorrelation=world.alike)
    for nodes in world.nodes:
        places = chance.choice(len(HOSTS), nodes, replace=False)
        if world.chosen == "sorted":
            places = np.sort(places)
        elif world.chosen == "the first":
            places = np.arange(nodes)
        hosts = tuple(HOSTS[place] for place in places for _ in range(world.ranks_per_node))
        [own_work_s] = rank_times(kind, 1, STEPS, len(hosts), chance)
        own_work_s[:, 1] *= world.uneven
        own_work_s[:, [host == SLOW_HOST for host in hosts]] *= world.slow
        node_of = [rank // world.ranks_per_node for rank in range(len(hosts))]
        slow = {
            rank
            for one in stragglers(own_work_s, node_of)
            for rank in range(len(hosts))
            if rank == one.rank or (one.rank is None and node_of[rank] == one.node)
        }
        yield LookedAt(nodes, hosts, frozenset(slow))


def _named(runs: list[LookedAt]) -> tuple[list[str], list[int]]:
    """The hosts that are named, and the ranks that are said to have more to do."""
    hosts = [one.host for one in slow_hosts(runs)]
    return hosts, [one.rank for one in slow_ranks_again(runs, hosts) if one.has_more_to_do]


def _share(cases: Iterator[bool]) -> float:
    return float(np.mean([*cases]))
