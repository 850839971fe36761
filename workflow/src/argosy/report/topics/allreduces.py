"""Times of allreduces alone, from the table `collectives`."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from argosy.report.runs.study_tables import StudyTables

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
