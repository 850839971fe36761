"""Whether nodes reach each other over the interface that the site's file names."""

from collections.abc import Iterator, Sequence

from argosy.doctor.findings import Finding, ok, unknown, wrong
from argosy.probe.interfaces import Way, ways_of
from argosy.probe.looks import NodeLook
from argosy.site.models import Site
from argosy.site.values import TO_FILL_IN
from argosy.units import amount

MOST_WAYS = 3


def check_network(
    site_file: str, site: Site, looks: tuple[NodeLook, ...], interface: str
) -> Iterator[Finding]:
    """Yield whether nodes reach each other as runs do.

    Args:
        interface: the best of all kinds of nodes; `?` where none is known.
    """
    check = "interface"
    if site.host_suffix:
        lost = [look.node for look in looks if site.host_suffix not in look.suffixes]
        if lost:
            yield wrong(
                check,
                f"{site_file}: host_suffix: {lost[0]}{site.host_suffix} has no address",
                "write the suffix that `getent hosts` knows, or leave it out and name `interface`",
            )
            return
    ways = ways_of(looks)
    over = [way for way in ways if way.interface == site.interface]
    if failed := [way for way in over if way.problem]:
        yield _not_reached(site_file, site, ways, failed, interface)
        return
    lacking = [
        look.node for look in looks if site.interface not in {each.name for each in look.interfaces}
    ]
    if lacking and not site.host_suffix:
        names = sorted({each.name for look in looks for each in look.interfaces})
        yield wrong(
            check,
            f"{site_file}: interface: {lacking[0]} has no {site.interface} with an address that leads to "
            f"another node; nodes have {', '.join(names) or 'none'}",
            _write_instead(interface),
        )
        return
    if len(looks) < 2:
        yield unknown(check, "one node was looked at; two would show whether they reach each other")
        return
    yield _reached(site, looks, over)


def _reached(site: Site, looks: tuple[NodeLook, ...], over: Sequence[Way]) -> Finding:
    check = "interface"
    problems = [look.meeting.problem for look in looks if look.meeting.problem]
    # A node that is not among the looks has said, or left unsaid, why: that is told already.
    if problems and len(looks) == looks[0].nodes:
        return wrong(check, problems[0], "logs/ has to lie on a file system that nodes share")
    if not over:
        return unknown(
            check, f"{site.interface} is not on all nodes; names of nodes lead elsewhere"
        )
    speeds = [
        found.bytes_per_s
        for look in looks
        for name, found in look.meeting.interfaces.items()
        if name == site.interface and not found.problem
    ]
    fast = f", {amount(int(speeds[0]))}/s" if speeds else ""
    nodes = ", ".join(look.node for look in looks)
    return ok(
        check,
        f"{nodes} reach each other both ways over {site.interface}{fast}; no other node was tried",
    )


def _not_reached(
    site_file: str, site: Site, ways: Sequence[Way], failed: Sequence[Way], interface: str
) -> Finding:
    name = failed[0].interface
    over = [way for way in ways if way.interface == name]
    good = sorted({way.interface for way in ways} - {way.interface for way in ways if way.problem})
    others = (
        f"they do over {', '.join(good)}" if good else "nor over any other: a firewall, perhaps"
    )
    return wrong(
        "interface",
        f"{site_file}: interface: nodes do not reach each other over {name}: "
        f"{_described(failed, over)}; {others}",
        _write_instead(interface) if good else "ask the site which ports are open between nodes",
    )


def _described(failed: Sequence[Way], tried: Sequence[Way]) -> str:
    """Return which nodes are not reached, or reach nobody, or else the first ways that fail."""
    problem = failed[0].problem
    for side, words in (("end", "no other node reaches {}"), ("start", "{} reaches no other node")):
        lost = sorted(
            node
            for node in {getattr(way, side) for way in failed}
            if all(way.problem for way in tried if getattr(way, side) == node)
        )
        if lost and all(getattr(way, side) in lost for way in failed):
            return f"{words.format(' and '.join(lost))} ({problem})"
    shown = [f"{way.start} does not reach {way.end}" for way in failed[:MOST_WAYS]]
    more = f" and {len(failed) - MOST_WAYS} more ways" if len(failed) > MOST_WAYS else ""
    return f"{', '.join(shown)}{more} ({problem})"


def _write_instead(interface: str) -> str:
    """Return the remedy for an interface that does not serve; one for all kinds of nodes."""
    if interface == TO_FILL_IN:
        return "no one interface serves all kinds of nodes: ask the site, or make a folder for each kind"
    return f"write {interface}"
