"""Names of sizes, and sentences on their missing runs and their batches."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Protocol

from argosy.report.numbers import count, samples
from argosy.report.summary.models import ExperimentSummary, PointSummary
from argosy.report.summary.parts import SizeRuns


def listed(parts: Sequence[str]) -> str:
    """Join parts as `a`, `a and b`, or `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


class Size(Protocol):
    """Any object with a number of nodes and ranks."""

    @property
    def nodes(self) -> int: ...
    @property
    def ranks_per_node(self) -> int: ...
    @property
    def ranks(self) -> int: ...


def same_width(experiment: ExperimentSummary) -> bool:
    """Check that all points have the same ranks per node, so that nodes alone name a point."""
    return _same_width(experiment.points)


def is_nested(points: Sequence[Size]) -> bool:
    """Check that nodes and ranks per node never decrease as ranks increase.

    Such points form one curve: ranks first fill a node, then more nodes.
    """
    ordered = sorted(points, key=lambda one: one.ranks)
    return all(
        one.nodes <= other.nodes and one.ranks_per_node <= other.ranks_per_node
        for one, other in pairwise(ordered)
    )


def size(experiment: ExperimentSummary, point: Size) -> str:
    """Return the name of a point among the points of its experiment."""
    return name_among(experiment.points, point)


def name_among(among: Sequence[Size], one: Size) -> str:
    """Return the name of a size: `2 nodes`, with its ranks if nodes alone are ambiguous."""
    nodes = count(one.nodes, "node")
    return nodes if _same_width(among) else f"{nodes} with {count(one.ranks, 'rank')}"


def _same_width(among: Sequence[Size]) -> bool:
    return len({one.ranks_per_node for one in among}) <= 1


_ALIKE = 0.1
"""Tolerated relative difference of mean batches: an epoch's last batch may be small."""
_WHOLE = 1.0
"""Tolerated difference in samples: a batch is divided into whole samples."""
_NOT_COMPLETED = ("failed", "interrupted", "cancelled", "unfinished", "pending")


def lost(experiment: ExperimentSummary, point: PointSummary) -> str:
    """Return a sentence on the excluded runs of a size, after a space; empty if all count."""
    found = _runs_of(experiment, point)
    missing = _missing(found) if found else ""
    if not found or not missing:
        return ""
    n = found.states.get("completed", 0) - found.left_out
    return f" Only {n} of its {count(found.runs, 'run')} count{'s' if n == 1 else ''}: {missing}."


def counted(experiment: ExperimentSummary, point: PointSummary) -> str:
    """Return the number of runs that count: `5`, or `2 of 5`."""
    n = point.throughput_samples_per_s.n if point.throughput_samples_per_s else 0
    found = _runs_of(experiment, point)
    return f"{n} of {found.runs}" if found and found.runs != n else str(n)


def not_completed(experiment: ExperimentSummary, one: SizeRuns, causes: Sequence[str]) -> str:
    """Return a sentence on the runs of a size that ended without a result, and their causes.

    It is empty if there are none, unless other sizes have completed runs and this one has not.
    """
    why = "; ".join(
        cause if times == len(causes) else f"{cause} ({times})"
        for cause, times in Counter(causes).most_common()
    )
    name, runs = name_among(experiment.sizes, one), count(one.runs, "run")
    if experiment.base and not one.states.get("completed"):
        because = f": {why}" if causes else ""
        return f"{name}: none of its {runs} counts ({_missing(one)}){because}."
    return f"{name}: {len(causes)} of {runs} did not complete: {why}." if causes else ""


def batches(experiment: ExperimentSummary) -> list[str]:
    """Return a sentence if the ranks' batches contradict `scale.kind`, or an empty list."""
    known = {one.ranks: one for one in experiment.points if one.samples_per_step}
    if len(known) < 2:
        return []
    base = known[min(known)]
    others = [known[ranks] for ranks in sorted(known) if ranks != base.ranks]
    stay = [one for one in others if _is_near(one, base, 1.0)]
    told = ", ".join(
        f"{samples(one.samples_per_step or 0)} samples on {count(one.ranks, 'rank')}"
        for one in (base, *others)
    )
    if experiment.scaling == "weak":
        if len(stay) == len(others):
            return []
        return [
            f"scale.kind is weak, but a rank's batch does not stay the same: {told}. Set "
            "scale.kind to strong if the problem is divided, or give each rank the same batch."
        ]
    if all(_is_near(one, base, base.ranks / one.ranks) for one in others):
        return []
    if _has_one_total(known):
        return [
            f"A rank's batch is not divided: {told}. All sizes process the same number of "
            "samples, with more ranks in fewer and larger steps."
        ]
    return [
        f"scale.kind is strong, but a rank's batch is not divided: {told}. With more ranks a step "
        "has more samples. Set scale.kind to weak if the problem grows with the ranks."
    ]


def _has_one_total(known: Mapping[int, PointSummary]) -> bool:
    """Check that all ranks together process the same number of samples at each size."""
    totals = [
        ranks * (one.samples_per_step or 0) * (one.steps or 0) for ranks, one in known.items()
    ]
    return min(totals) > 0 and max(totals) / min(totals) - 1 < _ALIKE


def _is_near(one: PointSummary, base: PointSummary, share: float) -> bool:
    assert one.samples_per_step and base.samples_per_step
    expected = share * base.samples_per_step
    slack = _ALIKE * expected if share == 1 else max(_WHOLE, _ALIKE * expected)
    return abs(one.samples_per_step - expected) <= slack


def _runs_of(experiment: ExperimentSummary, point: PointSummary) -> SizeRuns | None:
    return next((one for one in experiment.sizes if one.point == point.point), None)


def _missing(size: SizeRuns) -> str:
    """Describe the excluded runs of a size, such as `3 failed and 1 pending`; empty if none."""
    parts = [f"{size.states[state]} {state}" for state in _NOT_COMPLETED if size.states.get(state)]
    if size.left_out:
        parts.append(f"{size.left_out} completed without a throughput")
    return listed(parts)


_STATES = ("completed", "failed", "interrupted", "cancelled", "unfinished", "pending")


def states(found: Mapping[str, int]) -> str:
    """Describe counts of states, such as `9 completed, 1 failed and 2 pending`."""
    return listed([f"{found[state]} {state}" for state in _STATES if found.get(state)])
