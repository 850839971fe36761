"""Stalls of a step, from runs of the same training without one cause of waiting.

The cost of a part is the difference in step time without it: for data, Mohan, Phanishayee, Raniwala and
Chidambaram, "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 14(5), 2021; for interconnect and
network, Sharma et al., "Stash", ICDCS 2023.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from argosy.report.colours import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
from argosy.report.drawing import Drawing, parts_drawing
from argosy.report.numbers import number, percent, percent_interval
from argosy.report.runs.measurements import Point
from argosy.report.runs.scaling import MUCH_LOST, without_interval
from argosy.report.runs.setups import Setup, differences
from argosy.report.runs.study_tables import StudyTables
from argosy.report.sizes import listed, name_among
from argosy.report.statistics.estimates import Estimate, share_estimate, total_estimate
from argosy.report.summary.models import ExperimentSummary, Summary
from argosy.report.summary.parts import PointTimeline, StallSummary
from argosy.report.table import Cell, Table, column, estimate, figure, in_order, size_columns
from argosy.report.topics.losses import LEAST_LOSS

PARTS = ("compute", "interconnect", "network", "data", "preparation", "fetch")
"""Parts of a step, in order. `data` is the sum of preparation and fetch if they were not separated."""
_ALIKE = 0.02
"""Tolerated relative difference of mean batches: an epoch's last batch may be small."""

_QUERY = """
WITH of_run AS (
    SELECT experiment, run_id, avg(seconds / steps) AS step_s, avg(samples / steps) AS samples
    FROM steady_rank GROUP BY ALL
), studied AS (
    SELECT DISTINCT variant_of AS base FROM runs WHERE variant_of IS NOT NULL
)
SELECT experiment, base, variant_data, nodes, ranks_per_node, ranks, step_s, samples, lost
FROM runs JOIN of_run USING (experiment, run_id)
JOIN studied ON base = coalesce(variant_of, asked_experiment)
WHERE state = 'completed' AND len(missing_ranks) = 0
ORDER BY base, experiment, ranks, nodes, repeat
"""


@dataclass
class _Runs:
    """Mean seconds and samples of a rank's step in each run of a size."""

    step_s: list[float]
    samples: list[float]
    lost: float
    """The share of runs without a result."""


_Sizes = dict[Point, _Runs]


@dataclass(frozen=True)
class _Set:
    """Runs of one setup; `data` is None for the experiment itself, else the variant."""

    setup: Setup
    data: str | None
    sizes: _Sizes


def stalls(tables: StudyTables) -> Mapping[str, list[StallSummary]]:
    """Return the stalls by experiment and measured size.

    It compares only runs that differ in their data, and therefore their commands. A share below 0 is noise.
    """
    by_base: defaultdict[str, dict[str, _Set]] = defaultdict(dict)
    for row in tables.fetch(_QUERY):
        name = row["experiment"]
        new = _Set(tables.setups[name].setup, row["variant_data"], {})
        sizes = by_base[row["base"]].setdefault(name, new).sizes
        point = Point.of(row)
        runs = sizes.setdefault(point, _Runs([], [], row["lost"]))
        runs.step_s.append(row["step_s"])
        runs.samples.append(row["samples"])
    return {
        name: [_of_point(point, real, sets) for point in sorted(real.sizes)]
        for sets in by_base.values()
        for name, real in sets.items()
        if real.data is None
    }


def _of_point(point: Point, real: _Set, sets: Mapping[str, _Set]) -> StallSummary:
    kinds = _variants(real, sets)
    synthetic = kinds.get("synthetic", {})
    one_node = Point(point.ranks_per_node, 1, point.ranks_per_node)
    wanted = {Point(1, 1, 1): "one rank", one_node: "one node", point: "this size"}
    missing = [said for size, said in wanted.items() if size not in synthetic]
    if missing:
        return _refused(
            point,
            f"no run with synthetic data on {' and '.join(missing)} is completed"
            f"{_set_aside(real, sets)}",
        )
    alone, node, nodes = (synthetic[size] for size in (Point(1, 1, 1), one_node, point))
    warm = kinds.get("warm", {}).get(point)
    as_it_is = real.sizes[point]
    used = [as_it_is, alone, node, nodes, *([warm] if warm else [])]
    if not _alike(used):
        return _refused(
            point,
            "its ranks have more or fewer samples per step than in the runs to compare; the "
            "batch of a rank must be the same at every size",
        )
    steps = {
        "compute": (alone.step_s, [0.0] * len(alone.step_s)),
        "interconnect": (node.step_s, alone.step_s),
        "network": (nodes.step_s, node.step_s),
        **dict(_data(as_it_is.step_s, nodes.step_s, warm.step_s if warm else None)),
    }
    shares = {
        name: share_estimate(more, less, as_it_is.step_s)
        for name, (more, less) in steps.items()
        if more is not less
    }
    step_s = total_estimate(as_it_is.step_s)
    if any(runs.lost >= MUCH_LOST for runs in used):
        shares = {name: without_interval(share) for name, share in shares.items()}
        step_s = without_interval(step_s)
    return StallSummary(**point.size, step_s=step_s, shares=shares, refused=None)


def _refused(point: Point, why: str) -> StallSummary:
    return StallSummary(**point.size, step_s=None, shares={}, refused=why)


def _variants(real: _Set, sets: Mapping[str, _Set]) -> Mapping[str, _Sizes]:
    """Return the sizes of variants that differ from the `real` runs only in their data, by data.

    A rank alone is a separate experiment, with the same data as others.
    """
    found: defaultdict[str, _Sizes] = defaultdict(dict)
    for each in sets.values():
        if each.data is not None and not _other_than_data(real, each):
            found[each.data] |= each.sizes
    return found


def _other_than_data(real: _Set, variant: _Set) -> list[str]:
    """List the unwanted differences of a variant; its command may append words to the original."""
    words = real.setup.command
    goes_on = variant.setup.command[: len(words)] == words
    return [
        each.what
        for each in differences(real.setup, variant.setup)
        if not (each.what == "command" and goes_on)
    ]


def _set_aside(real: _Set, sets: Mapping[str, _Set]) -> str:
    other = {what for each in sets.values() if each.data for what in _other_than_data(real, each)}
    return f" with the same {' and '.join(sorted(other))}" if other else ""


def _alike(sets: Sequence[_Runs]) -> bool:
    samples = [one for runs in sets for one in runs.samples]
    return max(samples) - min(samples) <= _ALIKE * max(samples)


def _data(
    real: list[float], synthetic: list[float], warm: list[float] | None
) -> Iterator[tuple[str, tuple[list[float], list[float]]]]:
    if warm is None:
        yield "data", (real, synthetic)
    else:
        yield "preparation", (warm, synthetic)
        yield "fetch", (real, warm)


_WAITS = {
    "interconnect": "for the other ranks of its node",
    "network": "for other nodes",
    "data": "for data",
    "preparation": "for data to be prepared",
    "fetch": "for data to be read",
}


def part_names(experiment: ExperimentSummary) -> list[str]:
    """Return the parts of a step that any size of the experiment has, in the order of `PARTS`."""
    return in_order(PARTS, (stalls.shares for stalls in experiment.stalls))


def findings(experiment: ExperimentSummary) -> list[str]:
    """Return a sentence on the stalls of the largest size, if they were studied."""
    known = [stalls for stalls in experiment.stalls if stalls.shares]
    if not known:
        return []
    largest = known[-1]
    waits = [
        f"{percent(share.mean)} ({percent_interval(share)}) {_WAITS[name]}"
        for name, share in sorted(largest.shares.items(), key=lambda one: -one[1].mean)
        if name in _WAITS and _is_sure(share)
    ]
    at = name_among(experiment.stalls, largest)
    if not waits:
        if all(share.low is None for share in largest.shares.values()):
            return [
                f"With {at} runs are too few, all agree or some were lost: no stall is significant."
            ]
        return [f"With {at} no stall is significant."]
    return [f"With {at} a step waits {listed(waits)}."]


def tables(experiment: ExperimentSummary) -> Iterator[Table | str]:
    """Yield the table of shares by part, and a sentence for each size without them."""
    known = [stalls for stalls in experiment.stalls if stalls.shares]
    if known:
        yield Table(
            [
                *size_columns(known),
                column(known, "Step", step_cell),
                *(
                    column(known, name, partial(_share, name), paper=name.capitalize())
                    for name in part_names(experiment)
                ),
            ],
            "Shares of a step, from the difference to runs that wait for less. Shares below 0 "
            "are due to chance.",
            f"Stalls of {experiment.experiment}",
            "stalls",
            folded="Stalls of a step",
            paper="shares of a step by cause of waiting",
        )
    for stalls in experiment.stalls:
        if stalls.refused:
            yield f"No stalls with {name_among(experiment.stalls, stalls)}: {stalls.refused}."


def _share(name: str, stalls: StallSummary) -> Cell:
    return estimate(stalls.shares.get(name), "tenths")


def step_cell(one: StallSummary | PointTimeline) -> Cell:
    """Return the cell of a step's time, which must be known."""
    assert one.step_s
    return figure(one.step_s.mean, number(1000 * one.step_s.mean), " ms")


def _is_sure(share: Estimate) -> bool:
    return share.mean >= LEAST_LOSS and share.low is not None and share.low > 0


_COLOURS = dict(zip(PARTS, (SKY, PURPLE, VERMILION, ORANGE, GREEN, BLUE), strict=True))
_CAPTION = "Stalls of a step: how much shorter it is without each part."


def drawings(experiment: ExperimentSummary) -> Iterator[Drawing]:
    """Yield the bar chart of stalls, if any are known."""
    names = part_names(experiment)
    if not names:
        return
    rows = [
        {
            "size": name_among(experiment.stalls, stalls),
            "part": name,
            "milliseconds": 1000 * stalls.step_s.mean * share.mean,
            "share": f"{percent(share.mean, 1)} ({percent_interval(share, 1)})",
        }
        for stalls in experiment.stalls
        if stalls.step_s
        for name, share in stalls.shares.items()
    ]
    of = f"{experiment.experiment} by cause of waiting"
    yield parts_drawing("stalls", _CAPTION, of, rows, {name: _COLOURS[name] for name in names})


def methods(summary: Summary) -> Iterator[str]:
    """Describe the measurement of stalls, if there are any."""
    if any(found.refused is None for one in summary.experiments for found in one.stalls):
        yield (
            "A stall is the difference in step time between two sets of runs that differ in one "
            "cause of waiting. One rank alone with synthetic data only computes. All ranks of a "
            "node also wait for each other. Ranks on more nodes also wait for the network. Runs "
            "with real data also wait for data. If ranks wait for each other and for data at the "
            "same time, the last wait hides the other."
        )
