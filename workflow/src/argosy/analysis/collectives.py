"""Times of allreduces alone, from the table `collectives`."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from argosy.analysis.prediction import AllreduceTime
from argosy.analysis.study_tables import StudyTables

# Of a time that a rank did not record it is not known whether that rank was the slowest.
_QUERY = """
SELECT experiment, bytes, nodes, ranks_per_node, collectives.seconds, run_id AS job
FROM collectives JOIN runs USING (experiment, run_id)
WHERE collectives.name = 'allreduce' AND collectives.ranks = runs.ranks
ORDER BY experiment, runs.ranks, nodes, repeat, bytes, repetition
"""


def allreduce_times(tables: StudyTables) -> Mapping[str, list[AllreduceTime]]:
    """Single measurements, of the slowest rank, by experiment."""
    found: defaultdict[str, list[AllreduceTime]] = defaultdict(list)
    for row in tables.fetch(_QUERY):
        found[row.pop("experiment")].append(AllreduceTime(**row))
    return dict(found)


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
