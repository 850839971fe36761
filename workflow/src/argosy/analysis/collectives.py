"""Times of allreduces alone, from the table `collectives`."""

from collections import defaultdict
from collections.abc import Mapping

import duckdb

from argosy.analysis.prediction import AllreduceTime
from argosy.results.tables import fetch

# Of a time that a rank did not record it is not known whether that rank was the slowest.
_QUERY = """
SELECT experiment, bytes, nodes, ranks_per_node, collectives.seconds
FROM collectives JOIN runs USING (experiment, run_id)
WHERE collectives.name = 'allreduce' AND collectives.ranks = runs.ranks
ORDER BY experiment, runs.ranks, nodes, repeat, bytes, repetition
"""


def allreduce_times(tables: duckdb.DuckDBPyConnection) -> Mapping[str, list[AllreduceTime]]:
    """Single measurements, of the slowest rank, by experiment."""
    found: defaultdict[str, list[AllreduceTime]] = defaultdict(list)
    for row in fetch(tables, _QUERY):
        found[row.pop("experiment")].append(AllreduceTime(**row))
    return dict(found)
