"""What programs record of their results by `steps.metric`, whatever it is: scores, times, sizes."""

from collections import defaultdict
from collections.abc import Mapping

from argosy.analysis.measurements import Point
from argosy.analysis.not_finite import DIVERGED
from argosy.analysis.statistics import Estimate, mean_estimate
from argosy.analysis.study_tables import StudyTables

ELSEWHERE = ("test_accuracy", "weights_identical")
"""Those that the report shows in a way of their own."""

# The last value that a rank recorded under a name is its final one.
_QUERY = f"""
WITH final AS (
    SELECT experiment, run_id, rank, name, arg_max(value_number, coalesce(at_s, 0)) AS value
    FROM metrics WHERE abs(value_number) < {DIVERGED} GROUP BY ALL
), of_run AS (
    SELECT experiment, run_id, name,
        CASE WHEN regexp_matches(name, '^(peak|max)_') THEN max(value) ELSE avg(value) END AS value
    FROM final GROUP BY experiment, run_id, name
)
SELECT experiment, nodes, ranks_per_node, ranks, name, list(value ORDER BY repeat) AS values
FROM of_run JOIN runs USING (experiment, run_id)
WHERE state = 'completed'
GROUP BY ALL ORDER BY experiment, ranks, nodes, name
"""


def recorded_metrics(tables: StudyTables) -> Mapping[tuple[str, Point], Mapping[str, Estimate]]:
    """Return the metrics by experiment and point, then by name.

    Of a run it is the mean over the ranks that recorded it, or the most where its name begins with `peak_`
    or `max_`; the estimate is over the runs.
    """
    found: defaultdict[tuple[str, Point], dict[str, Estimate]] = defaultdict(dict)
    for row in tables.fetch(_QUERY):
        if row["name"] not in ELSEWHERE:
            point = Point(row["ranks"], row["nodes"], row["ranks_per_node"])
            found[row["experiment"], point][row["name"]] = mean_estimate(row["values"])
    return found
