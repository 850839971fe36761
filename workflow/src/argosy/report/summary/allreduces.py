"""Times of allreduces alone, for the report."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from argosy.report.statistics.estimates import Estimate, total_estimate
from argosy.report.topics.allreduces import RunAllreduce


@dataclass(frozen=True)
class AllreduceSummary:
    """An allreduce of `bytes` of data on each rank, at one size of an experiment."""

    nodes: int
    ranks_per_node: int
    ranks: int
    bytes: int
    seconds: Estimate
    """Over runs, each with the mean of its repetitions."""

    @property
    def busbw_gb_per_s(self) -> float:
        """Bus bandwidth in 10^9 bytes/s as nccl-tests defines it: algbw times 2 (n - 1) / n."""
        return self.bytes / self.seconds.mean * 2 * (self.ranks - 1) / self.ranks / 1e9


def allreduce_summaries(timed: Iterable[RunAllreduce]) -> list[AllreduceSummary]:
    """Return each size's and message's time, the smallest first."""
    by_message: defaultdict[tuple[int, int, int, int], list[float]] = defaultdict(list)
    for one in timed:
        ranks = one.nodes * one.ranks_per_node
        by_message[ranks, one.nodes, one.ranks_per_node, one.bytes].append(one.seconds)
    return [
        AllreduceSummary(nodes, width, ranks, size, total_estimate(seconds))
        for (ranks, nodes, width, size), seconds in sorted(by_message.items())
    ]
