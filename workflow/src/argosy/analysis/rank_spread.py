"""By how much the ranks of a training differ from each other in a step, from the tables."""

from collections.abc import Mapping

from argosy.analysis.measurements import Point
from argosy.analysis.study_tables import StudyTables

# Of trainings that may be predicted, from sizes by which they are: one node and two. What all ranks have in
# common in a step is in its mean. Where a rank waits for others without the phase `communication`, all take
# as long, which tells nothing.
_QUERY = """
WITH looked_at AS (
    SELECT experiment, run_id, any_value(first) AS first, any_value(nodes) AS nodes,
        any_value(ranks_per_node) AS ranks_per_node, any_value(ranks) AS ranks
    FROM runs JOIN steady_rank USING (experiment, run_id)
    WHERE state = 'completed' AND len(missing_ranks) = 0 AND ranks > 1 AND nodes <= 2
        AND experiment IN (SELECT experiment FROM layers)
    GROUP BY ALL
), of_step AS (
    SELECT experiment, nodes, ranks_per_node, ranks, run_id, step,
        count(communication_s) = count(*) AS is_told, count(*) - 1 AS freedom,
        freedom * var_samp(ln(greatest(seconds - communication_s, 0.001 * seconds))) AS squares
    FROM steps JOIN looked_at USING (experiment, run_id)
    WHERE step >= first AND seconds > 0 GROUP BY ALL
)
SELECT experiment, nodes, ranks_per_node, ranks, sqrt(sum(squares) / sum(freedom)) AS spread
FROM of_step GROUP BY ALL HAVING bool_and(is_told) AND sum(freedom) > 0
ORDER BY experiment, ranks, nodes
"""


def rank_spreads(tables: StudyTables) -> dict[tuple[str, Point], float]:
    """Return the standard deviation of the logarithm of ranks' own work around its mean in a step.

    By (experiment, point), of several ranks on one node or two, in the steady state, where layers were
    recorded and every rank's steps say what was communication.
    """
    return {
        (row["experiment"], Point(row["ranks"], row["nodes"], row["ranks_per_node"])): row["spread"]
        for row in tables.fetch(_QUERY)
    }


def widest(
    spreads: Mapping[tuple[str, Point], float], experiment: str, base: Point
) -> float | None:
    """Return the spread of the most ranks, with as many a node as the base; None where nothing tells."""
    known = {
        point: spread
        for (of, point), spread in spreads.items()
        if of == experiment and point.ranks_per_node == base.ranks_per_node
    }
    return known[max(known)] if known else None
