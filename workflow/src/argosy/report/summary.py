"""Every number of the report, once: HTML, CSV and the terminal all say what stands here.

The dataclasses are summary.json; units are in the names, ratios have none.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from pydantic import TypeAdapter

from argosy.analysis.accuracy import Outcome, outcomes
from argosy.analysis.factors import RankTimes
from argosy.analysis.measurements import Measurement, Point, measurements
from argosy.analysis.phases import StepTime, step_times
from argosy.analysis.point_factors import point_factors
from argosy.analysis.rank_times import rank_times
from argosy.analysis.scaling import PointScaling, scaling
from argosy.analysis.statistics import CONFIDENCE, Estimate, outliers
from argosy.analysis.steady import steady_states
from argosy.analysis.usage import Unread, Usage, unread, usage
from argosy.report.laws import LawSummary, law_summaries
from argosy.report.usage import UsageSummary, usage_summary
from argosy.results.tables import fetch, open_tables

SUMMARY_VERSION = 2


@dataclass(frozen=True)
class PointSummary:
    """One size of an experiment. What was not measured there is None (or has no entry)."""

    nodes: int
    ranks_per_node: int
    ranks: int
    runs_samples_per_s: list[float]
    throughput_samples_per_s: Estimate | None
    speed_up: Estimate | None
    efficiency: Estimate | None
    step_s: float | None
    phases_s_per_step: dict[str, float]
    factors: dict[str, Estimate]
    """Of the efficiency, by name; empty at the base and without recorded steps."""
    usage: UsageSummary | None
    test_accuracy: Estimate | None
    test_accuracy_min: float | None
    weights_identical: bool | None
    weights_compared_runs: int


@dataclass(frozen=True)
class ExperimentSummary:
    """The points of an experiment, smallest first; `base` is the one that others are held against.

    `states` counts all its runs by state, also those that gave no point.
    """

    experiment: str
    scaling: str
    states: dict[str, int]
    base: Point | None
    points: list[PointSummary]
    laws: list[LawSummary]


@dataclass(frozen=True)
class RunSummary:
    """One run. Log files are relative to the results folder of the site."""

    experiment: str
    run_id: str
    nodes: int
    ranks_per_node: int
    repeat: int
    state: str
    samples_per_s: float | None
    throughput_source: str | None
    left_out: str | None
    is_far_off: bool
    """Far off the other repeats of its point (`statistics.outliers`); it counts all the same."""
    warm_up_steps: int | None
    is_steady: bool | None
    """Whether a steady state was reached; None without recorded steps."""
    warm_up: str | None
    """What was found of the warm-up, in words."""
    started_unix_s: float | None
    seconds: float | None
    hosts: list[str]
    image_digest: str | None
    failure: str | None
    unreadable_records: int
    repeated_steps: int
    duplicate_steps: int
    missing_steps: int
    missing_ranks: list[int]
    clock_spread_s: float | None
    log_files: list[str]


@dataclass(frozen=True)
class FailureSummary:
    """An incarnation of a run that came to nothing; `lost_s` is None when nobody noted its end."""

    experiment: str
    run_id: str
    incarnation: str
    state: str
    node: int | None
    rank: int | None
    cause: str
    lost_s: float | None
    log_file: str | None


@dataclass(frozen=True)
class ProblemSummary:
    """A folder that could not be read; it is in none of the numbers."""

    experiment: str
    run_id: str
    problem: str


@dataclass(frozen=True)
class MachineSummary:
    """Hosts that look the same from inside."""

    hosts: list[str]
    cpu_model: str | None
    cpus: int | None
    memory_bytes: int | None
    kernel: str | None
    engine: str | None
    """Of their containers; None without."""


@dataclass(frozen=True)
class ProvenanceSummary:
    """The same provenance.json of one or more runs."""

    runs: list[str]
    content: dict[str, Any]


@dataclass(frozen=True)
class Method:
    confidence: float = CONFIDENCE


@dataclass(frozen=True)
class Summary:
    """summary.json."""

    schema_version: int
    sites: list[str]
    method: Method
    experiments: list[ExperimentSummary]
    runs: list[RunSummary]
    failures: list[FailureSummary]
    unread: list[Unread]
    problems: list[ProblemSummary]
    machines: list[MachineSummary]
    provenance: list[ProvenanceSummary]


_ADAPTER = TypeAdapter(Summary)


def read_summary(content: Mapping[str, Any]) -> Summary:
    """The summary of a parsed summary.json; raises pydantic's ValidationError."""
    return _ADAPTER.validate_python(content)


def summary_json(summary: Summary) -> str:
    """`summary` as indented JSON with a final newline."""
    return _ADAPTER.dump_json(summary, indent=2).decode() + "\n"


def summarise(tables_dir: Path) -> Summary:
    """Everything that the report says, from the tables alone. Raises ResultsError."""
    with open_tables(tables_dir) as tables:
        measured = measurements(tables, steady_states(tables))
        return Summary(
            schema_version=SUMMARY_VERSION,
            sites=[row["site"] for row in fetch(tables, _SITES)],
            method=Method(),
            experiments=_experiments(tables, measured),
            runs=_runs(tables, measured),
            failures=[FailureSummary(**row) for row in fetch(tables, _FAILURES)],
            unread=unread(tables),
            problems=[ProblemSummary(**row) for row in fetch(tables, _PROBLEMS)],
            machines=[MachineSummary(**row) for row in fetch(tables, _MACHINES)],
            provenance=[
                ProvenanceSummary(row["runs"], json.loads(row["provenance"]))
                for row in fetch(tables, _PROVENANCE)
            ],
        )


_SITES = "SELECT DISTINCT site FROM runs ORDER BY site"
_STATES = """
SELECT experiment, scaling, state, count(*) AS runs FROM runs
GROUP BY ALL ORDER BY experiment, state
"""
_RUNS = "SELECT * FROM runs ORDER BY experiment, ranks, nodes, repeat, run_id"
_FAILURES = "SELECT * FROM failures ORDER BY experiment, run_id, incarnation"
_PROBLEMS = "SELECT * FROM problems ORDER BY experiment, run_id"
_MACHINES = """
SELECT list(DISTINCT host ORDER BY host) AS hosts, cpu_model, cpus, memory_bytes, kernel, engine
FROM nodes GROUP BY ALL ORDER BY hosts
"""
_PROVENANCE = """
SELECT list(experiment || '/' || run_id ORDER BY experiment, run_id) AS runs, provenance
FROM runs WHERE provenance IS NOT NULL GROUP BY ALL ORDER BY runs
"""


@dataclass(frozen=True)
class _Analysis:
    """What was found in the tables, of all experiments."""

    measured: Sequence[Measurement]
    times: Mapping[tuple[str, Point], StepTime]
    outcomes: Mapping[tuple[str, Point], Outcome]
    ranks: Mapping[tuple[str, str], RankTimes]
    usage: Mapping[tuple[str, str], Usage]

    def runs(self, experiment: str) -> list[Measurement]:
        """The completed runs of an experiment."""
        return [run for run in self.measured if run.experiment == experiment]

    def ranks_at(self, experiment: str, point: Point) -> list[RankTimes]:
        """What the ranks did in each run of a point that has a throughput by its steps."""
        return [self.ranks[key] for key in self._keys(experiment, point) if key in self.ranks]

    def usage_at(self, experiment: str, point: Point) -> list[Usage]:
        """What each run of a point used that has a throughput."""
        return [self.usage[key] for key in self._keys(experiment, point) if key in self.usage]

    def _keys(self, experiment: str, point: Point) -> list[tuple[str, str]]:
        runs = [run for run in self.runs(experiment) if run.point == point]
        return [(run.experiment, run.run_id) for run in runs if run.samples_per_s is not None]


def _experiments(
    tables: duckdb.DuckDBPyConnection, measured: Sequence[Measurement]
) -> list[ExperimentSummary]:
    states: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in fetch(tables, _STATES):
        states[row["experiment"], row["scaling"]][row["state"]] = row["runs"]
    found = _Analysis(
        measured, step_times(tables), outcomes(tables), rank_times(tables), usage(tables)
    )
    return [_experiment(found, name, kind, dict(count)) for (name, kind), count in states.items()]


def _experiment(
    found: _Analysis, name: str, kind: str, states: dict[str, int]
) -> ExperimentSummary:
    runs = found.runs(name)
    scaled = {one.point: one for one in scaling(runs)}
    base = next(iter(scaled), None)
    points = [
        _point(found, name, point, base, scaled.get(point))
        for point in sorted({run.point for run in runs})
    ]
    return ExperimentSummary(name, kind, states, base, points, law_summaries(kind, runs))


def _point(
    found: _Analysis, experiment: str, point: Point, base: Point | None, scaled: PointScaling | None
) -> PointSummary:
    time = found.times.get((experiment, point))
    outcome = found.outcomes.get((experiment, point))
    return PointSummary(
        nodes=point.nodes,
        ranks_per_node=point.ranks_per_node,
        ranks=point.ranks,
        runs_samples_per_s=list(scaled.samples_per_s) if scaled else [],
        throughput_samples_per_s=scaled.throughput if scaled else None,
        speed_up=scaled.speed_up if scaled else None,
        efficiency=scaled.efficiency if scaled else None,
        step_s=time.step_s if time else None,
        phases_s_per_step=dict(time.phases_s) if time else {},
        factors=_factors(found, experiment, point, base),
        usage=usage_summary(found.usage_at(experiment, point)),
        test_accuracy=outcome.test_accuracy if outcome else None,
        test_accuracy_min=outcome.test_accuracy_min if outcome else None,
        weights_identical=outcome.weights_identical if outcome else None,
        weights_compared_runs=outcome.compared_runs if outcome else 0,
    )


def _factors(
    found: _Analysis, experiment: str, point: Point, base: Point | None
) -> dict[str, Estimate]:
    if base is None or point == base:
        return {}
    runs, of_base = found.ranks_at(experiment, point), found.ranks_at(experiment, base)
    return dict(point_factors(runs, of_base)) if runs and of_base else {}


def _runs(tables: duckdb.DuckDBPyConnection, measured: Iterable[Measurement]) -> list[RunSummary]:
    by_run = {(run.experiment, run.run_id): run for run in measured}
    far_off = _far_off(measured)
    kept = {*RunSummary.__dataclass_fields__}
    summaries = []
    for row in fetch(tables, _RUNS):
        run = by_run.get((row["experiment"], row["run_id"]))
        summaries.append(
            RunSummary(
                **{name: value for name, value in row.items() if name in kept},
                samples_per_s=run.samples_per_s if run else None,
                throughput_source=run.source if run else None,
                left_out=run.left_out if run else None,
                is_far_off=(row["experiment"], row["run_id"]) in far_off,
                warm_up_steps=run.warm_up.steps if run and run.warm_up else None,
                is_steady=run.warm_up.stationary if run and run.warm_up else None,
                warm_up=run.warm_up.reason if run and run.warm_up else None,
            )
        )
    return summaries


def _far_off(measured: Iterable[Measurement]) -> set[tuple[str, str]]:
    """The runs whose throughput is far off that of the other repeats of their point."""
    repeats: defaultdict[tuple[str, Point], list[tuple[str, float]]] = defaultdict(list)
    for run in measured:
        if run.samples_per_s:
            repeats[run.experiment, run.point].append((run.run_id, run.samples_per_s))
    return {
        (experiment, run_id)
        for (experiment, _), runs in repeats.items()
        for (run_id, _), is_off in zip(runs, outliers([rate for _, rate in runs]), strict=True)
        if is_off
    }
