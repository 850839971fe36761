"""Allreduce benchmarks: times by size and message, from the table `collectives`."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from argosy.report.numbers import number
from argosy.report.runs.measurements import Point
from argosy.report.runs.scaling import LOST, MUCH_LOST, is_much_lost, without_interval
from argosy.report.runs.study_tables import StudyTables
from argosy.report.sizes import listed, name_among
from argosy.report.statistics.estimates import scaled, total_estimate
from argosy.report.summary.models import ExperimentSummary, Summary
from argosy.report.summary.parts import AllreduceSummary
from argosy.report.table import Table, column, estimate, figure, size_columns
from argosy_common.units import amount

_MEANS_OF_RUNS = """
SELECT experiment, bytes, nodes, ranks_per_node, avg(collectives.seconds) AS seconds, max(lost) AS lost
FROM collectives JOIN runs USING (experiment, run_id)
WHERE collectives.name = 'allreduce' AND collectives.ranks = runs.ranks
GROUP BY experiment, run_id, bytes, nodes, ranks_per_node, repeat
ORDER BY experiment, nodes, ranks_per_node, bytes, repeat, run_id
"""


def allreduces(tables: StudyTables) -> Mapping[str, list[AllreduceSummary]]:
    """Return times by experiment, then by size and message, smallest first; n counts runs."""
    found: defaultdict[tuple[str, Point, int], list[float]] = defaultdict(list)
    lost: dict[tuple[str, Point], float] = {}
    for row in tables.fetch(_MEANS_OF_RUNS):
        nodes, width = row["nodes"], row["ranks_per_node"]
        point = Point(nodes * width, nodes, width)
        found[row["experiment"], point, row["bytes"]].append(row["seconds"])
        lost[row["experiment"], point] = row["lost"]
    of_experiment: defaultdict[str, list[AllreduceSummary]] = defaultdict(list)
    for (experiment, point, size), seconds in sorted(found.items()):
        mean = total_estimate(seconds)
        if lost[experiment, point] >= MUCH_LOST:
            mean = without_interval(mean)
        one = AllreduceSummary(**point.size, bytes=size, seconds=mean)
        of_experiment[experiment].append(one)
    return dict(of_experiment)


def sentences(experiment: ExperimentSummary) -> list[str]:
    """Return sentences on the times of the smallest and largest message at each size."""
    by_size: dict[tuple[int, int], list[AllreduceSummary]] = {}
    for one in experiment.allreduces:
        by_size.setdefault((one.ranks, one.nodes), []).append(one)
    return [
        "It benchmarks allreduces and trains nothing, so it has no throughput.",
        *(
            f"{name_among(experiment.allreduces, times[0])}: {listed(_smallest_and_largest(times))}."
            for times in by_size.values()
        ),
        *(
            f"{name_among(experiment.allreduces, one)}: no interval, since {LOST}."
            for one in experiment.sizes
            if (one.ranks, one.nodes) in by_size and is_much_lost(one.states)
        ),
    ]


def _smallest_and_largest(times: Sequence[AllreduceSummary]) -> list[str]:
    ends = [times[0], times[-1]] if len(times) > 1 else times
    return [
        f"an allreduce of {amount(one.bytes)} takes {number(1000 * one.seconds.mean)} ms"
        for one in ends
    ]


def tables(experiment: ExperimentSummary) -> Iterator[Table]:
    """Yield the table of times by size and message, if there are any."""
    found = experiment.allreduces
    if not found:
        return
    yield Table(
        [
            *size_columns(found),
            column(found, "Message", lambda one: figure(one.bytes, amount(one.bytes))),
            column(found, "Runs", lambda one: str(one.seconds.n)),
            column(found, "Milliseconds", lambda one: estimate(scaled(one.seconds, 1000))),
            column(
                found,
                "busbw, GB/s",
                lambda one: figure(one.busbw_gb_per_s, number(one.busbw_gb_per_s)),
            ),
        ],
        "Allreduce micro-benchmarks: time of the slowest rank, mean over runs; busbw is the bus bandwidth "
        "as nccl-tests defines it.",
        f"Allreduces of {experiment.experiment}",
        "allreduces",
    )


def methods(summary: Summary) -> Iterator[str]:
    """Describe the timing of allreduces, if there are any."""
    if any(one.allreduces for one in summary.experiments):
        yield (
            "An allreduce takes as long as its slowest rank. Its time is the mean over runs of "
            "the mean over repetitions. busbw is bytes divided by this time, times 2 (n - 1) / n "
            "for n ranks."
        )
