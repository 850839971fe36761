"""Times of allreduces alone, from the table `collectives`."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from argosy.report.numbers import number
from argosy.report.runs.study_tables import StudyTables
from argosy.report.sizes import listed, name_among
from argosy.report.statistics.estimates import total_estimate
from argosy.report.summary.models import ExperimentSummary
from argosy.report.summary.parts import AllreduceSummary
from argosy.units import amount

_MEANS_OF_RUNS = """
SELECT experiment, bytes, nodes, ranks_per_node, avg(collectives.seconds) AS seconds
FROM collectives JOIN runs USING (experiment, run_id)
WHERE collectives.name = 'allreduce' AND collectives.ranks = runs.ranks
GROUP BY experiment, run_id, bytes, nodes, ranks_per_node, repeat
ORDER BY experiment, nodes, ranks_per_node, bytes, repeat, run_id
"""


@dataclass(frozen=True)
class RunAllreduce:
    """The mean `seconds` of a run's allreduces of `bytes` of data on each rank, of the slowest rank."""

    bytes: int
    nodes: int
    ranks_per_node: int
    seconds: float


def run_allreduces(tables: StudyTables) -> Mapping[str, list[RunAllreduce]]:
    """Means of runs, which are independent of each other, by experiment."""
    found: defaultdict[str, list[RunAllreduce]] = defaultdict(list)
    for row in tables.fetch(_MEANS_OF_RUNS):
        found[row.pop("experiment")].append(RunAllreduce(**row))
    return dict(found)


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


def sentences(experiment: ExperimentSummary) -> list[str]:
    """Return what allreduces alone took at each size: the smallest message and the largest."""
    by_size: dict[tuple[int, int], list[AllreduceSummary]] = {}
    for one in experiment.allreduces:
        by_size.setdefault((one.ranks, one.nodes), []).append(one)
    return [
        "It times allreduces alone and trains nothing, so it has no throughput.",
        *(
            f"{name_among(experiment.allreduces, times[0])}: {listed(_smallest_and_largest(times))}."
            for times in by_size.values()
        ),
    ]


def _smallest_and_largest(times: Sequence[AllreduceSummary]) -> list[str]:
    ends = [times[0], times[-1]] if len(times) > 1 else times
    return [
        f"an allreduce of {amount(one.bytes)} takes {number(1000 * one.seconds.mean)} ms"
        for one in ends
    ]
