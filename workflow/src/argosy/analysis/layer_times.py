"""Layers of training programs, from the table `layers`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from argosy.analysis.measurements import Point
from argosy.analysis.prediction import Layer, split_layers
from argosy.analysis.study_tables import StudyTables

# A layer that is ready when the one before it is takes no time of its own. Medians, because a rank that
# was interrupted once would otherwise count more than the others together.
_QUERY = """
SELECT experiment, runs.ranks, nodes, ranks_per_node, min(place) AS place, layers.name,
    max(bytes) AS bytes,
    CASE WHEN count(*) = count(ready_s) THEN median(ready_s) END AS ready_s
FROM layers JOIN runs USING (experiment, run_id)
WHERE bytes > 0
GROUP BY ALL ORDER BY experiment, runs.ranks, nodes, ready_s, place, layers.name
"""


@dataclass(frozen=True)
class LayerTimes:
    """Layers in the order of back-propagation; `are_timed`: when each was ready is measured.

    Otherwise their times are in proportion to their bytes, and add up to a second.
    """

    layers: Sequence[Layer]
    are_timed: bool


def layer_times(tables: StudyTables) -> Mapping[tuple[str, Point], LayerTimes]:
    """Return what was recorded of layers, by (experiment, point)."""
    rows: dict[tuple[str, Point], list[tuple[str, float, float | None]]] = {}
    for row in tables.fetch(_QUERY):
        point = Point(row["ranks"], row["nodes"], row["ranks_per_node"])
        layer = (row["name"], row["bytes"], row["ready_s"])
        rows.setdefault((row["experiment"], point), []).append(layer)
    return {key: _layer_times(layers) for key, layers in rows.items()}


def _layer_times(rows: Sequence[tuple[str, float, float | None]]) -> LayerTimes:
    ready = [at_s for _, _, at_s in rows if at_s is not None]
    if len(ready) < len(rows) or not any(ready):
        return LayerTimes(split_layers({name: size for name, size, _ in rows}, 1.0), False)
    own = (after - before for before, after in zip([0.0, *ready], ready, strict=False))
    layers = [Layer(name, size, own_s) for (name, size, _), own_s in zip(rows, own, strict=True)]
    return LayerTimes(layers, True)
