"""What could not be found out, and what is worth knowing of nodes besides."""

import sys
from collections.abc import Iterator, Sequence

from argosy.probe.looks import NodeLook
from argosy.probe.pending_look import Looked
from argosy.probe.values import Value
from argosy.schedulers.cluster_facts import ClusterFacts
from argosy.site.values import TO_FILL_IN

CLOCK_S = 1.0
"""A clock that is further off than this is worth a word."""


def not_found(
    facts: ClusterFacts, looked: Sequence[Looked], interface: Value, tmpdir: Value | None
) -> Iterator[str]:
    """Yield what could not be found out, and why."""
    if interface.value == TO_FILL_IN:
        yield f"interface ({interface.origin})"
    if facts.account_required and not facts.account:
        yield f"account ({facts.account_origin}; --account names one)"
    if tmpdir is None:
        yield "tmpdir (no folder of a node's own was found; without the key it is /tmp)"
    seen = {each.name for each in looked}
    for each in looked:
        if each.problem:
            yield f"hardware.{each.name} from the inside ({each.problem})"
    for kind in facts.kinds:
        if kind.name not in seen:
            yield f"hardware.{kind.name} from the inside (not looked at)"
    yield "images.build: whether login nodes are a place for builds, the site's pages say"


def worth_knowing(facts: ClusterFacts, looked: Sequence[Looked]) -> Iterator[str]:
    """Yield what nodes have that no key of a site's file is for, and what will be in the way."""
    with_gpus = {each.name for each in facts.kinds if each.gpus}
    for each in looked:
        for number, look in enumerate(each.looks):
            where = f"{each.name} ({look.node})"
            lines = _of_second(look) if number else _of_first(look, each.name in with_gpus)
            yield from (f"{where}: {line}" for line in lines)


def _of_first(look: NodeLook, has_gpus: bool) -> Iterator[str]:
    pythons = [one.partition("=") for one in look.pythons if one]
    versions = ", ".join(sorted({version for _, _, version in pythons}))
    yield (
        f"{look.system}, Linux {look.kernel}, Python {versions}, "
        f"{'user namespaces' if look.user_namespaces else 'NO user namespaces'}"
        + (f", {', '.join(look.fabrics)}" if look.fabrics else "")
        + (f", {len(look.gpus)} GPUs seen" if look.gpus else "")
    )
    if sys.executable not in [path for path, _, _ in pythons]:
        yield (
            f"Argosy's environment does NOT run there ({sys.executable}): it, and the Python that it was "
            "made with, have to lie where nodes see them"
        )
    if has_gpus and not look.gpus:
        yield "a job that was given a GPU saw none"
    for host, problem in look.outside.items():
        yield f"does not reach {host} ({problem})" if problem else f"reaches {host}"


def _of_second(look: NodeLook) -> Iterator[str]:
    if look.meeting.problem:
        yield look.meeting.problem
    for one in look.meeting.interfaces.values():
        if not one.problem and abs(one.clock_ahead_s) > CLOCK_S + one.clock_within_s:
            yield f"its clock and that of the node beside it differ by {abs(one.clock_ahead_s):.1f} s"
            return
