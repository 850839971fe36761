"""One throughput for each completed run, or the reason why there is none."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from argosy.analysis.printed_rates import implausible, printed_rate
from argosy.analysis.study_tables import StudyTables
from argosy.analysis.warmup import WarmUp

ALLREDUCES_ALONE = "it times allreduces alone"
"""Why a run that is to have no throughput is left out."""

_QUERY = """
WITH recorded AS (
    SELECT experiment, run_id, count(*) AS ranks, sum(samples) / nullif(max(seconds), 0) AS rate
    FROM steady_rank GROUP BY ALL
), program AS (
    SELECT experiment, run_id, list(samples_per_s ORDER BY monotonic_s) AS rates,
        list(monotonic_s ORDER BY monotonic_s) AS times
    FROM printed GROUP BY ALL
), alone AS (
    SELECT DISTINCT experiment, run_id, true AS is_alone FROM collectives
)
SELECT runs.experiment, runs.run_id, scaling, nodes, ranks_per_node, runs.ranks, repeat, started_unix_s,
    is_alone, groups,
    len(missing_ranks) AS silent_ranks, coalesce(recorded.ranks, 0) AS timed_ranks,
    recorded.rate AS recorded, rates, times
FROM runs
LEFT JOIN recorded USING (experiment, run_id)
LEFT JOIN program USING (experiment, run_id)
LEFT JOIN alone USING (experiment, run_id)
WHERE state = 'completed'
ORDER BY runs.experiment, runs.ranks, nodes, repeat, runs.run_id
"""


@dataclass(frozen=True, order=True)
class Point:
    """A size at which an experiment ran; points are ordered by ranks, then nodes."""

    ranks: int
    nodes: int
    ranks_per_node: int


@dataclass(frozen=True)
class Measurement:
    """A completed run's throughput.

    `samples_per_s` is None when the run had to be left out, and `left_out` says why. `source` is
    `steps` (the recorder's) or `printed` (the program's own numbers). `warm_up` counts these.
    """

    experiment: str
    run_id: str
    scaling: str
    point: Point
    samples_per_s: float | None = None
    source: str | None = None
    left_out: str | None = None
    warm_up: WarmUp | None = None
    repeat: int | None = None
    started_unix_s: float | None = None


def measurements(tables: StudyTables) -> list[Measurement]:
    """Throughput of each completed run, in samples/s, by experiment, point and repeat.

    It is all ranks' samples over the slowest rank's summed step seconds, in the run's steady state. A
    run without any steps has what its program printed (`printed_rate`). A run of which a rank's steps are
    missing is left out, since its samples are not all there, and so is one that never became steady, or
    whose ranks never met.
    """
    return [
        _measurement(row, tables.warm_ups.get((row["experiment"], row["run_id"])))
        for row in tables.fetch(_QUERY)
    ]


def _measurement(row: Mapping[str, Any], warm_up: WarmUp | None) -> Measurement:
    run = Measurement(
        experiment=row["experiment"],
        run_id=row["run_id"],
        scaling=row["scaling"],
        point=Point(row["ranks"], row["nodes"], row["ranks_per_node"]),
        warm_up=warm_up,
        repeat=row["repeat"],
        started_unix_s=row["started_unix_s"],
    )
    silent, ranks = row["silent_ranks"], row["ranks"]
    if (row["groups"] or 1) > 1:
        return replace(run, left_out=_never_met(ranks, row["groups"]))
    if silent == ranks and row["rates"]:
        printed = printed_rate(row["rates"], row["times"])
        return replace(
            run,
            samples_per_s=printed.samples_per_s,
            source=None if printed.left_out else "printed",
            left_out=printed.left_out,
            warm_up=printed.warm_up,
        )
    left_out = _left_out(row, warm_up)
    if left_out:
        return replace(run, left_out=left_out)
    if odd := implausible(row["recorded"]):
        return replace(run, left_out=f"its steps give {odd}")
    return replace(run, samples_per_s=row["recorded"], source="steps")


def _never_met(ranks: int, groups: int) -> str:
    apart = "none was connected to another" if groups == ranks else f"they are {groups} groups"
    return (
        f"its {ranks} ranks never met ({apart}), so that each group did the whole work alone; tell the "
        "program how many nodes and ranks there are, or say independent: true"
    )


def _left_out(row: Mapping[str, Any], warm_up: WarmUp | None) -> str | None:
    silent, ranks = row["silent_ranks"], row["ranks"]
    if silent == ranks:
        none = "no steps recorded and no throughput printed"
        return ALLREDUCES_ALONE if row["is_alone"] else none
    if silent:
        return f"no steps of {silent} of its {ranks} ranks"
    if warm_up and warm_up.left_out:
        return warm_up.reason
    if row["timed_ranks"] < ranks or not row["recorded"]:
        return "no samples in its steady state"
    return None
