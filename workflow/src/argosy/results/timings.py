"""Lines that predictions are made of: times of operations of all ranks, and of layers.

What is here is SQL over the lines of ranks that are no steps; `records` reads them.
"""

COLLECTIVE = {"bytes": "BIGINT", "repetition": "INTEGER"}
"""Keys that the other lines do not have, with their types."""
LAYERS = {"layers": "STRUCT(name VARCHAR, bytes BIGINT, ready_s DOUBLE)[]"}

# NaN is above every number.
IS_COLLECTIVE = (
    "coalesce(kind = 'collective' AND name IS NOT NULL AND repetition >= 0 AND bytes > 0 "
    "AND seconds > 0 AND seconds <= 1e300, false)"
)
_IS_LAYER = (
    "coalesce(layer.name IS NOT NULL AND layer.bytes >= 0 "
    "AND coalesce(layer.ready_s, 0) BETWEEN 0 AND 1e300, false)"
)
IS_LAYERS = (
    "coalesce(kind = 'layers' AND len(layers) > 0 "
    f"AND len(list_filter(layers, lambda layer: {_IS_LAYER})) = len(layers), false)"
)

# An operation lasts until the slowest rank has its result.
COLLECTIVES = """
INSERT INTO collectives
SELECT experiment, run_id, name, bytes, repetition, max(seconds), count(DISTINCT rank)
FROM other_line WHERE kind = 'collective' GROUP BY ALL
"""

LAYER_ROWS = """
INSERT INTO layers
SELECT experiment, run_id, rank, place - 1, layers[place].name, layers[place].bytes,
    layers[place].ready_s
FROM (
    SELECT *, unnest(generate_series(1, len(layers))) AS place FROM (
        SELECT experiment, run_id, rank, layers FROM other_line WHERE kind = 'layers'
        QUALIFY row_number() OVER (PARTITION BY experiment, run_id, rank ORDER BY at_s) = 1
    )
)
"""
