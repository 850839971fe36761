"""Lines that predictions are made of: times of operations of all ranks, and of layers.

What is here is SQL over the lines of ranks that are no steps; `records` reads them.
"""

from argosy.results.lines import is_amount, is_whole

COLLECTIVE = {"bytes": "DOUBLE", "repetition": "DOUBLE"}
"""Keys that the other lines do not have, with the types by which nothing in them is rounded."""
LAYERS = {"layers": "STRUCT(name VARCHAR, bytes DOUBLE, ready_s DOUBLE)[]"}

_MOST_BYTES = 2**53
_MOST_REPETITIONS = 2**31 - 1

IS_COLLECTIVE = (
    "coalesce(kind = 'collective' AND name IS NOT NULL "
    f"AND {is_whole('repetition', _MOST_REPETITIONS)} "
    f"AND bytes > 0 AND {is_whole('bytes', _MOST_BYTES)} "
    f"AND seconds > 0 AND {is_amount('seconds')}, false)"
)
_IS_LAYER = (
    f"coalesce(layer.name IS NOT NULL AND {is_whole('layer.bytes', _MOST_BYTES)} "
    f"AND {is_amount('coalesce(layer.ready_s, 0)')}, false)"
)
IS_LAYERS = (
    "coalesce(kind = 'layers' AND len(layers) > 0 "
    f"AND len(list_filter(layers, lambda layer: {_IS_LAYER})) = len(layers), false)"
)

# An operation lasts until the slowest rank has its result.
COLLECTIVES = """
INSERT INTO collectives BY NAME
SELECT experiment, run_id, name, bytes, repetition, max(seconds) AS seconds,
    count(DISTINCT rank) AS ranks
FROM other_line WHERE kind = 'collective' GROUP BY ALL
"""

LAYER_ROWS = """
INSERT INTO layers BY NAME
SELECT experiment, run_id, rank, place - 1 AS place, layers[place].name AS name,
    layers[place].bytes AS bytes, layers[place].ready_s AS ready_s
FROM (
    SELECT *, unnest(generate_series(1, len(layers))) AS place FROM (
        SELECT experiment, run_id, rank, layers FROM other_line WHERE kind = 'layers'
        QUALIFY row_number() OVER (PARTITION BY experiment, run_id, rank ORDER BY at_s) = 1
    )
)
"""
