"""How Horovod was told to gather gradients, from the table `runs`."""

from collections.abc import Mapping

from argosy.analysis.measurements import Point
from argosy.analysis.prediction import Horovod
from argosy.analysis.study_tables import StudyTables

# Repeats are told the same; should they not be, as after a change that is half done, the last counts.
_QUERY = """
SELECT experiment, nodes, ranks_per_node, ranks, horovod_cycle_s, horovod_fusion_bytes
FROM runs WHERE state = 'completed' ORDER BY started_unix_s
"""


def horovod_settings(tables: StudyTables) -> Mapping[tuple[str, Point], Horovod]:
    """Cycle time and fusion threshold by (experiment, point), with Horovod's defaults."""
    default = Horovod()
    found = {}
    for row in tables.fetch(_QUERY):
        point = Point(row["ranks"], row["nodes"], row["ranks_per_node"])
        cycle_s, fusion_bytes = row["horovod_cycle_s"], row["horovod_fusion_bytes"]
        found[row["experiment"], point] = Horovod(
            default.cycle_s if cycle_s is None else cycle_s,
            default.fusion_threshold_bytes if fusion_bytes is None else fusion_bytes,
        )
    return found
