"""Places a job on a site: first the kind of node for its ranks, then a queue that accepts it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.site.models import LOCAL, Hardware, Queue, Site
from argosy_common.errors import ArgosyError
from argosy_common.units import duration


@dataclass(frozen=True)
class Request:
    """A job's request; `cpus`, `gpus` and `memory` (MiB) are per node, `time` is in seconds."""

    nodes: int
    ranks_per_node: int
    cpus: int
    gpus: int
    memory: int
    time: int


@dataclass(frozen=True)
class Placement:
    """The kind of node and the queue of a job; both None without a queue."""

    hardware_name: str | None
    hardware: Hardware | None
    queue_name: str | None
    queue: Queue | None


def place(site: Site, request: Request, hardware: str | None, queue: str | None) -> Placement:
    """Choose the first kind of node that fits the ranks, then its first queue that accepts the job.

    The number of nodes does not affect the kind of node, so that sizes of a study stay comparable. A named
    `hardware` or `queue` is used or refused, never replaced.

    Raises:
        ArgosyError: with the reason against each candidate.
    """
    if site.scheduler == LOCAL:
        return Placement(None, None, None, None)
    kind = _choose_hardware(site, request, hardware, queue)
    name = _choose_queue(site, request, kind, queue)
    return Placement(kind, site.hardware[kind], name, site.queues[name])


def gpus_of_a_node(site: Site, rank: Request, hardware: str | None, queue: str | None) -> int:
    """Return the GPUs per node of the first kind of node with GPUs; 0 if there is none.

    Raises:
        ArgosyError: if the site lacks `hardware` or `queue`, or a node cannot fit a `rank` on each GPU.
    """
    for name in _candidates(site, hardware, queue):
        kind = site.hardware[name]
        if kind.gpus:
            cpus, memory = rank.cpus * kind.gpus, rank.memory * kind.gpus
            whole = replace(rank, gpus=kind.gpus, cpus=cpus, memory=memory)
            for reason in _what_it_lacks(kind, whole):
                raise ArgosyError(
                    f"hardware.{name} does not fit a rank on each GPU: {reason}",
                    "lower resources.cpus_per_rank or memory_per_rank, or write another `hardware: NAME`",
                )
            return kind.gpus
    return 0


def _candidates(site: Site, hardware: str | None, queue: str | None) -> list[str]:
    _check_name("hardware", hardware, list(site.hardware))
    _check_name("queue", queue, list(site.queues))
    names = [hardware] if hardware else list(site.hardware)
    return [name for name in names if not queue or name in site.queues[queue].hardware]


def _choose_hardware(site: Site, request: Request, wanted: str | None, queue: str | None) -> str:
    candidates = _candidates(site, wanted, queue)
    why = {name: next(_what_it_lacks(site.hardware[name], request), None) for name in candidates}
    for name, reason in why.items():
        if reason is None and (wanted or bool(site.hardware[name].gpus) == bool(request.gpus)):
            return name
    # Fall back to nodes whose GPUs stay idle.
    for name, reason in why.items():
        if reason is None:
            return name
    reasons = "; ".join(f"{name}: {reason}" for name, reason in why.items())
    if not reasons:
        reasons = f"{wanted}: not in the queue {queue}"
    raise ArgosyError(f"no hardware of the site fits the ranks of one node: {reasons}")


def _choose_queue(site: Site, request: Request, hardware: str, wanted: str | None) -> str:
    candidates = [name for name, each in site.queues.items() if hardware in each.hardware]
    if wanted:
        candidates = [wanted]
    why = {
        name: [*_refusals(site.queues[name], site.hardware[hardware], request, name == wanted)]
        for name in candidates
    }
    for name, refusals in why.items():
        if not refusals:
            return name
    reasons = "; ".join(f"{name}: {refusals[0].words}" for name, refusals in why.items())
    raise ArgosyError(
        f"no queue accepts {_count_of_nodes(request.nodes)} for {duration(request.time)} on {hardware}: "
        f"{reasons or 'none has this hardware'}",
        _remedy(why),
    )


def _remedy(why: Mapping[str, Sequence["_Refusal"]]) -> str:
    """Return a hint: queues that accept the job by name, or else the keys to reduce."""
    by_name = [name for name, found in why.items() if found == [_ONLY_BY_NAME]]
    if by_name:
        others = f" (or {', '.join(by_name[1:])})" if by_name[1:] else ""
        return f"write `queue: {by_name[0]}`{others} into config.yaml: jobs must name this queue"
    keys = dict.fromkeys(each.key for found in why.values() for each in found if each.key)
    if not keys:
        return "name it in `queues.*.hardware` of the site's file"
    return f"change {' or '.join(keys)} of the experiment, or the site's file where the site allows more"


def _check_name(key: str, name: str | None, known: list[str]) -> None:
    if name is not None and name not in known:
        raise ArgosyError(f"{key}: the site has no {name}", f"there are {', '.join(known)}")


def _what_it_lacks(hardware: Hardware, request: Request) -> Iterator[str]:
    if request.gpus > hardware.gpus:
        yield f"{hardware.gpus} GPUs per node, {request.gpus} needed"
    if hardware.cores is not None and request.cpus > hardware.cores:
        yield f"{hardware.cores} cores per node, {request.cpus} needed"
    if hardware.memory is not None and request.memory > hardware.memory:
        yield f"{hardware.memory} MiB per node, {request.memory} needed"


@dataclass(frozen=True)
class _Refusal:
    """A queue's reason to refuse a job, and the experiment's key to change; "" if none."""

    words: str
    key: str = ""


_ONLY_BY_NAME = _Refusal("only for runs that name it")


def _refusals(
    queue: Queue, hardware: Hardware, request: Request, named: bool
) -> Iterator[_Refusal]:
    if queue.only_by_name and not named:
        yield _ONLY_BY_NAME
    if queue.gpus_only and not request.gpus:
        yield _Refusal("refuses jobs without GPUs", "resources.gpus_per_rank")
    whole = queue.whole_nodes_from
    if whole is not None and whole <= request.nodes and request.gpus < hardware.gpus:
        yield _Refusal(
            f"jobs of {_count_of_nodes(whole)} or more must use all {hardware.gpus} GPUs of each, "
            f"not {request.gpus}",
            "resources.gpus_per_rank",
        )
    limit = next((each for each in queue.limits if each.holds(request.nodes)), None)
    if limit is None and queue.limits:
        yield _Refusal(f"at most {_count_of_nodes(queue.limits[-1].nodes or 0)}", "scale.nodes")
    if limit and limit.time is not None and request.time > limit.time:
        yield _Refusal(
            f"at most {duration(limit.time)} with {_count_of_nodes(request.nodes)}",
            "resources.time",
        )


def _count_of_nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
