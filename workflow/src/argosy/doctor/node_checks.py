"""Compares nodes' reports about themselves with the site's file."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from argosy.doctor.findings import Finding, ok, unknown, warning, wrong
from argosy.doctor.login_checks import nearest
from argosy.doctor.queue_checks import Place
from argosy.probe.choices import Way, ways_of
from argosy.probe.look_jobs import Looked
from argosy.probe.looks import NodeLook, Questions
from argosy.site.models import Site
from argosy.site.values import TO_FILL_IN
from argosy_common.units import amount

MOST_WAYS = 3


def check_network(
    site_file: str, site: Site, looks: tuple[NodeLook, ...], interface: str
) -> Iterator[Finding]:
    """Yield whether nodes reach each other over the interface of runs.

    Args:
        interface: the best interface for all kinds of nodes; `?` if unknown.
    """
    check = "interface"
    if site.host_suffix:
        lost = [look.node for look in looks if site.host_suffix not in look.suffixes]
        if lost:
            yield wrong(
                check,
                f"{site_file}: host_suffix: {lost[0]}{site.host_suffix} has no address",
                "write a suffix that `getent hosts` finds, or remove host_suffix and set "
                "`interface`",
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
            f"{site_file}: interface: {lacking[0]} has no {site.interface} with an address for other "
            f"nodes; nodes have {', '.join(names) or 'none'}",
            _write_instead(interface),
        )
        return
    if len(looks) < 2:
        yield unknown(check, "only one node was inspected; testing the network takes two")
        return
    yield _network_finding(site, looks, over)


def _network_finding(site: Site, looks: tuple[NodeLook, ...], over: Sequence[Way]) -> Finding:
    check = "interface"
    problems = [look.meeting.problem for look in looks if look.meeting.problem]
    # Missing looks are reported elsewhere.
    if problems and len(looks) == looks[0].nodes:
        return wrong(check, problems[0], "logs/ must be on a file system that nodes share")
    if not over:
        return unknown(
            check, f"not all nodes have {site.interface}; host names resolve to other interfaces"
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
    others = f"they do over {', '.join(good)}" if good else "nor over any other: perhaps a firewall"
    return wrong(
        "interface",
        f"{site_file}: interface: nodes do not reach each other over {name}: "
        f"{_failed_pairs(failed, over)}; {others}",
        _write_instead(interface) if good else "ask the site which ports are open between nodes",
    )


def _failed_pairs(failed: Sequence[Way], tried: Sequence[Way]) -> str:
    """Return the nodes that are unreachable or isolated, or else the first failed connections."""
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
    """Return the remedy for a wrong interface: one that serves all kinds of nodes."""
    if interface == TO_FILL_IN:
        return "no single interface serves all kinds of nodes: ask the site, or make a folder for each kind"
    return f"write {interface}"


CLOCK_S = 60.0
"""Seconds of clock difference above which certificates and file times may fail."""

LITTLE_MIB = 1024

MOST_OF_A_SOCKET = 107
"""Maximum characters in the path of a UNIX socket (unix(7), without the final zero)."""

IN_TMPDIR = "/argosy-node.{node}.XXXXXX/pymp-XXXXXXXX/listener-XXXXXXXX"
"""Longest path of a socket of Python's multiprocessing, in a job's folder below tmpdir."""
ENGINES = "engines"


def questions_of(site: Site, project: Path, store: Path) -> Questions:
    """Return the questions to nodes of this site."""
    argosy = ["env", f"ARGOSY_STORE={store}", sys.executable, "-I", "-m", "argosy.cli"]
    return Questions(
        scratch=[each for each in (site.tmpdir, site.images.folder) if each],
        suffixes=[site.host_suffix] if site.host_suffix else [],
        paths={
            str(project): False,
            str(project / "results"): True,
            **dict.fromkeys(_store_folders(store), False),
        },
        commands={ENGINES: [*argosy, "image", "engines"]},
    )


def _store_folders(store: Path) -> list[str]:
    """Return the store's existing folders, since nodes may lack any of them or have another disk there."""
    parts = (store / name for name in ("roots", "layers", "udocker"))
    return [str(each) for each in parts if each.is_dir()] or [str(nearest(store))]


def check_nodes(
    site_file: str, place: Place, looked: Looked, interface: str, is_native: bool = False
) -> Iterator[Finding]:
    """Yield a finding for each requirement of runs on nodes.

    Args:
        interface: the best interface for all kinds of nodes; `?` if unknown.
        is_native: whether the study needs no container engine.
    """
    name = f"nodes {place.hardware}"
    if looked.problem:
        if not looked.is_fault:
            yield unknown(name, looked.problem)
        else:
            yield wrong(name, looked.problem, _remedy_without_looks(place))
    if not looked.looks:
        return
    site, looks = place.site, looked.looks
    yield _architecture(site_file, place, looks[0])
    yield from check_network(site_file, site, looks, interface)
    yield from _folders(site_file, site, looks)
    missing = [*_paths(looks)]
    yield from missing or [
        ok("files", "nodes and this machine have the same project, results and store")
    ]
    environment = [*_environment(looks)]
    yield from environment or [ok("environment", f"{sys.executable} runs on nodes")]
    if not missing and not environment:
        yield from _engines(looks, is_native)
    yield from _clocks(looks)
    if place.site.hardware[place.hardware].gpus:
        yield _gpus(place, looks[0])


def _remedy_without_looks(place: Place) -> str:
    return (
        f"see {place.folder}, which contains its script and its log. The project, with logs/ and "
        "results/, must be on a file system that all nodes share and can write to"
    )


def _architecture(site_file: str, place: Place, look: NodeLook) -> Finding:
    check = f"architecture {place.hardware}"
    said = place.site.hardware[place.hardware].architecture
    if look.architecture != said:
        return wrong(
            check,
            f"{site_file}: hardware.{place.hardware}.architecture: is {said}, but {look.node} is "
            f"{look.architecture}",
            f"write {look.architecture}",
        )
    return ok(check, f"{look.node} is {said}")


# ---- folders


def _folders(site_file: str, site: Site, looks: tuple[NodeLook, ...]) -> Iterator[Finding]:
    keys = {site.tmpdir: "tmpdir"}
    if site.images.folder:
        keys.setdefault(site.images.folder, "images.folder")
    for written, key in keys.items():
        found = [_scratch(site_file, key, written, look) for look in looks]
        yield next((each for each in found if each.verdict != "ok"), found[0])


def _scratch(site_file: str, key: str, written: str, look: NodeLook) -> Finding:
    place = f"{site_file}: {key}: is {written}"
    each = next(one for one in look.scratch if one.written == written)
    if "$" in each.folder:
        return wrong(
            key, f"{place}, a variable that jobs on {look.node} lack", "name another folder"
        )
    if not each.kind:
        return wrong(key, f"{place}, which {look.node} does not have", "name another folder")
    if not each.writable:
        return wrong(
            key, f"{place}, where {look.node} cannot write: {each.problem}", "name another folder"
        )
    if each.free_mib < LITTLE_MIB:
        return warning(
            key,
            f"{place}, with {amount(each.free_mib << 20)} free on {look.node}",
            "name a larger one",
        )
    longest = len(each.folder + IN_TMPDIR.format(node=look.node.partition(".")[0]))
    if key == "tmpdir" and longest > MOST_OF_A_SOCKET:
        return warning(
            key,
            f"{place}, where sockets of Python's multiprocessing have paths of {longest} characters, more "
            f"than the {MOST_OF_A_SOCKET} allowed",
            "name a folder with a shorter path",
        )
    programs = "" if each.runs_programs else "; programs in it do not run (noexec)"
    return ok(key, f"{each.folder}, {each.kind}, {amount(each.free_mib << 20)} free{programs}")


def _paths(looks: tuple[NodeLook, ...]) -> Iterator[Finding]:
    """Yield a finding for the first node that lacks a folder of runs."""
    for look in looks:
        lacking = [f"{path} {problem}" for path, problem in look.paths.items() if problem]
        if lacking:
            yield wrong(
                "files",
                f"on {look.node} {', '.join(lacking)}",
                "the project, its results and the store (ARGOSY_STORE) must be on a file system "
                "that all nodes share",
            )
            return


def _environment(looks: tuple[NodeLook, ...]) -> Iterator[Finding]:
    for look in looks:
        if sys.executable not in [one.partition("=")[0] for one in look.pythons]:
            yield wrong(
                "environment",
                f"on {look.node} {sys.executable} does not run",
                "Argosy's environment (.venv), and its base Python, must be in a folder that nodes share",
            )
            return


def _engines(looks: tuple[NodeLook, ...], is_native: bool) -> Iterator[Finding]:
    for look in looks:
        told = look.commands.get(ENGINES)
        if told is None or told.status == 0:
            continue
        said = [line for line in told.said.splitlines() if line.strip()]
        userns = "" if look.user_namespaces else "; it has no user namespaces"
        verdict = warning if is_native else wrong
        yield verdict(
            "engine",
            f"on {look.node} no engine starts containers: {said[0] if said else told.status}{userns}",
            "`argosy image engines` on a node explains each engine; docs/images.md lists what engines need",
        )
        return
    if any(look.commands.get(ENGINES) for look in looks):
        yield ok("engine", "containers can be started on nodes")
    else:
        yield unknown("engine", "no node has reported whether containers start there")


# ---- clocks and GPUs


def _clocks(looks: tuple[NodeLook, ...]) -> Iterator[Finding]:
    for look in looks[1:]:
        for one in look.meeting.interfaces.values():
            if one.problem:
                continue
            off = abs(one.clock_ahead_s)
            if off > CLOCK_S + one.clock_within_s:
                yield warning(
                    "clocks",
                    f"the clocks of {looks[0].node} and {look.node} differ by {off:.0f} s",
                    "report it to the site; times of a run come from one clock, so they stay correct",
                )
            else:
                yield ok("clocks", f"two nodes' clocks differ by {off:.3f} s")
            return


def _gpus(place: Place, look: NodeLook) -> Finding:
    check = f"GPUs {place.hardware}"
    if not look.gpus:
        return wrong(
            check,
            f"a job on {look.node} with a GPU allocated found none",
            "run `nvidia-smi -L` in such a job to find the cause, such as the driver or the site's "
            "allocation of GPUs",
        )
    driver = f"; {look.gpu_driver}" if look.gpu_driver else ""
    return ok(check, f"{look.gpus[0]}{driver}")
