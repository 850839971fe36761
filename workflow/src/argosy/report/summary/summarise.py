"""Compute all numbers of the report from the tables."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from argosy.report.numbers import UNIT, count
from argosy.report.runs.measurements import ALLREDUCES_ALONE, Measurement, Point, measurements
from argosy.report.runs.scaling import PointScaling, scaling, without_interval
from argosy.report.runs.setups import NamedSetup, inputs_digest
from argosy.report.runs.study_tables import StudyTables, open_study
from argosy.report.runs.warmup import WarmUp
from argosy.report.statistics.estimates import Estimate, outliers, proportion_estimate
from argosy.report.statistics.few_runs import median_estimate, slow_jobs
from argosy.report.summary.models import (
    SUMMARY_VERSION,
    ExperimentSummary,
    FailureSummary,
    MachineSummary,
    Method,
    PointSummary,
    ProblemSummary,
    ProvenanceSummary,
    RunSummary,
    Summary,
)
from argosy.report.summary.parts import (
    NOT_KNOWN,
    Rates,
    SizeRuns,
    SweptPoint,
)
from argosy.report.topics import of_experiments, of_points
from argosy.report.topics.accuracy import Outcome, outcomes
from argosy.report.topics.answer import advise
from argosy.report.topics.container_cost import container_costs
from argosy.report.topics.costs import OutsideSteps, between_steps, cost_summary, flops_utilisation
from argosy.report.topics.doubts import long_steps, not_finite
from argosy.report.topics.laws.fits import Refused
from argosy.report.topics.laws.says import law_summaries
from argosy.report.topics.losses import RankTimes, point_factors, rank_times
from argosy.report.topics.phases import step_times
from argosy.report.topics.prediction.inputs import Measured, everything
from argosy.report.topics.prediction.predicted import prediction_of
from argosy.report.topics.sweep import swept_points
from argosy.report.topics.usage import Usage, unread, usage, usage_summary
from argosy.results.tables import Run
from argosy_common.errors import plain_texts
from argosy_common.reading import json_of


def summarise(tables_dir: Path, rates: Rates = NOT_KNOWN) -> Summary:
    """Compute the summary of a study from its tables.

    Raises:
        ResultsError: A table is missing or has another version.
    """
    with open_study(tables_dir) as tables:
        measured = measurements(tables)
        between = between_steps(tables)
        return Summary(
            schema_version=SUMMARY_VERSION,
            sites=[row["site"] for row in tables.fetch(_SITES)],
            method=Method(),
            rates=rates,
            experiments=_experiments(tables, measured, between, rates),
            runs=_runs(tables, measured, between),
            failures=[FailureSummary(**row) for row in tables.fetch(_FAILURES)],
            unread=unread(tables),
            problems=[ProblemSummary(**row) for row in tables.fetch(_PROBLEMS)],
            machines=[MachineSummary(**row) for row in tables.fetch(_MACHINES)],
            provenance=[
                ProvenanceSummary(row["runs"], plain_texts(json_of(row["provenance"])))
                for row in tables.fetch(_PROVENANCE)
            ],
            inputs=inputs_digest(
                tables.setups.values(),
                ((row["asked_experiment"], row["run_id"]) for row in tables.fetch(_RUNS)),
            ),
        )


_SITES = "SELECT DISTINCT site FROM runs ORDER BY site"
_STATES = """
SELECT experiment, ranks, nodes, ranks_per_node, state, count(*) AS runs
FROM runs GROUP BY ALL ORDER BY experiment, ranks, nodes, state
"""
_RUNS = "SELECT * FROM runs ORDER BY experiment, ranks, nodes, repeat, run_id"
_FAILURES = "SELECT * FROM failures ORDER BY experiment, run_id, attempt"
_PROBLEMS = "SELECT * FROM problems ORDER BY experiment, run_id"
_MACHINES = """
SELECT list(DISTINCT host ORDER BY host) AS hosts, cpu_model, cpus, memory_bytes, kernel, engine
FROM nodes GROUP BY ALL ORDER BY hosts
"""
_PROVENANCE = """
SELECT list(asked_experiment || '/' || run_id ORDER BY asked_experiment, run_id) AS runs, provenance
FROM runs WHERE provenance IS NOT NULL GROUP BY ALL ORDER BY runs
"""


@dataclass(frozen=True)
class _Analysis:
    """Findings of all experiments; `measured` are their completed runs."""

    measured: Mapping[str, Sequence[Measurement]]
    outcomes: Mapping[tuple[str, Point], Outcome]
    of_points: Mapping[str, Mapping[tuple[str, Point], Any]]
    ranks: Mapping[tuple[str, str], RankTimes]
    of_experiments: Mapping[str, Mapping[str, Any]]
    between_steps: Mapping[Run, OutsideSteps]
    rates: Rates
    of_predictions: Measured
    sweeps: Mapping[str, SweptPoint]

    def ranks_at(self, experiment: str, point: Point) -> list[RankTimes]:
        """Return the ranks' times in each run of a point with a throughput from steps."""
        return [self.ranks[key] for key in self._keys(experiment, point) if key in self.ranks]

    def usage_at(self, experiment: str, point: Point) -> list[Usage]:
        """Return the usage of each run of a point with a throughput."""
        usage = self.of_predictions.usage
        return [usage[key] for key in self._keys(experiment, point) if key in usage]

    def between_steps_at(self, experiment: str, point: Point) -> Estimate | None:
        """Return the share of steady time between steps, over the runs of a point with a known share."""
        shares = [one.between for one in self.outside_steps_at(experiment, point) if one]
        return proportion_estimate(shares) if shares else None

    def outside_steps_at(self, experiment: str, point: Point) -> list[OutsideSteps | None]:
        """Return the time outside steps of each run of a point with a throughput."""
        return [self.between_steps.get(key) for key in self._keys(experiment, point)]

    def _keys(self, experiment: str, point: Point) -> list[tuple[str, str]]:
        return [
            (experiment, run.run_id)
            for run in self.measured[experiment]
            if run.point == point and run.samples_per_s is not None
        ]


def _experiments(
    tables: StudyTables,
    measured: Sequence[Measurement],
    between: Mapping[Run, OutsideSteps],
    rates: Rates,
) -> list[ExperimentSummary]:
    states: defaultdict[str, defaultdict[Point, Counter[str]]]
    states = defaultdict(lambda: defaultdict(Counter))
    for row in tables.fetch(_STATES):
        point = Point.of(row)
        states[row["experiment"]][point][row["state"]] = row["runs"]
    by_name: defaultdict[str, list[Measurement]] = defaultdict(list)
    for run in measured:
        by_name[run.experiment].append(run)
    found = _Analysis(
        by_name,
        outcomes(tables),
        of_points(tables),
        rank_times(tables),
        {
            **of_experiments(tables),
            "container_costs": container_costs(tables.setups, by_name),
        },
        between,
        rates,
        everything(tables, measured, step_times(tables), usage(tables)),
        swept_points(tables),
    )
    return [_experiment(found, named, states[name]) for name, named in tables.setups.items()]


def _experiment(
    found: _Analysis, named: NamedSetup, states: Mapping[Point, Counter[str]]
) -> ExperimentSummary:
    name, kind = named.name, named.setup.scaling
    runs = found.measured.get(name, [])
    scaled = {one.point: one for one in scaling(runs)}
    base = next(iter(scaled), None)
    points = [
        _point(found, name, point, base, scaled.get(point))
        for point in sorted({run.point for run in runs})
    ]
    unsure = next(
        (
            f"{count(point.nodes, 'node')}, {count(point.ranks, 'rank')}: {one.no_interval}"
            for point, one in scaled.items()
            if one.no_interval
        ),
        None,
    )
    laws = law_summaries(kind, runs, unsure)
    prediction = prediction_of(found.of_predictions, name, rates=found.rates)
    refused = prediction.reason if isinstance(prediction, Refused) else None
    return ExperimentSummary(
        name,
        named.experiment,
        named.setup,
        kind,
        dict(sum(states.values(), Counter[str]())),
        base,
        points,
        laws.laws,
        laws.undecided,
        prediction=None if isinstance(prediction, Refused) else prediction,
        no_prediction=refused,
        **{field: of.get(name, []) for field, of in found.of_experiments.items()},
        sizes=[_size(runs, point, of_point) for point, of_point in states.items()],
        advice=advise(points),
        sweep=found.sweeps.get(named.experiment),
        unit=next((run.unit for run in runs if run.samples_per_s), UNIT),
    )


def _size(runs: Sequence[Measurement], point: Point, states: Counter[str]) -> SizeRuns:
    left_out = sum(
        run.point == point and run.left_out not in (None, ALLREDUCES_ALONE) for run in runs
    )
    return SizeRuns(**point.size, runs=states.total(), states=dict(states), left_out=left_out)


def _point(
    found: _Analysis, experiment: str, point: Point, base: Point | None, scaled: PointScaling | None
) -> PointSummary:
    key = experiment, point
    time, used = found.of_predictions.steps.get(key), usage_summary(found.usage_at(*key))
    topics: dict[str, Any] = {field: of[key] for field, of in found.of_points.items() if key in of}
    one = PointSummary(
        runs_samples_per_s=[],
        throughput_samples_per_s=None,
        speed_up=None,
        efficiency=None,
        step_s=time.step_s if time else None,
        steps=time.steps if time else None,
        samples_per_step=time.samples if time else None,
        phases_s_per_step=dict(time.phases_s) if time else {},
        factors={},
        usage=used,
        costs=None,
        **vars(found.outcomes.get(key, Outcome())),
        between_steps=found.between_steps_at(*key),
        **topics | point.size,
    )
    if base is None or scaled is None:
        return one
    rates, much_lost = scaled.samples_per_s, scaled.much_lost
    outside, flops = found.outside_steps_at(*key), one.metrics.get("flops_per_sample")
    return replace(
        one,
        runs_samples_per_s=list(rates),
        throughput_samples_per_s=scaled.throughput,
        speed_up=scaled.speed_up,
        efficiency=scaled.efficiency,
        factors=_factors(found, experiment, base, scaled),
        costs=cost_summary(point.nodes, rates, used, found.rates, outside, much_lost=much_lost),
        speed_up_is_paired=scaled.is_paired,
        detectable_ratio=scaled.detectable,
        median_samples_per_s=None if much_lost else median_estimate(rates),
        flops_utilisation=flops_utilisation(point.nodes, scaled.throughput, flops, found.rates),
        no_interval=scaled.no_interval,
    )


def _factors(
    found: _Analysis, experiment: str, base: Point, scaled: PointScaling
) -> dict[str, Estimate]:
    if scaled.point == base:
        return {}
    runs, of_base = found.ranks_at(experiment, scaled.point), found.ranks_at(experiment, base)
    if not (runs and of_base):
        return {}
    # Both are ordered by repeat, and complete.
    paired = scaled.is_paired and len(runs) == len(of_base) == len(scaled.samples_per_s)
    factors = point_factors(runs, of_base, paired=paired)
    if scaled.no_interval:
        return {name: without_interval(factor) for name, factor in factors.items()}
    return dict(factors)


def _runs(
    tables: StudyTables,
    measured: Iterable[Measurement],
    between: Mapping[Run, OutsideSteps],
) -> list[RunSummary]:
    by_run = {(run.experiment, run.run_id): run for run in measured}
    far_off, slow_runs = _far_off(measured), _slow_runs(measured)
    odd, long = not_finite(tables), long_steps(tables)
    kept = {*RunSummary.__dataclass_fields__}
    summaries = []
    for row in tables.fetch(_RUNS):
        key = row["experiment"], row["run_id"]
        run = by_run.get(key) or Measurement(*key, row["scaling"], Point.of(row))
        outside = between.get(key)
        summaries.append(
            RunSummary(
                **{name: value for name, value in row.items() if name in kept}
                | {"experiment": row["asked_experiment"]},
                counted_as=row["experiment"]
                if row["experiment"] != row["asked_experiment"]
                else None,
                samples_per_s=run.samples_per_s,
                throughput_source=run.source,
                left_out=run.left_out,
                is_far_off=key in far_off,
                is_slow=key in slow_runs,
                **_of_warm_up(run.warm_up),
                between_steps=outside.between if outside else None,
                not_finite=odd.get(key, []),
                long_steps=long.get(key),
                stragglers=list(tables.stragglers.get(key, ())),
                unit=run.unit,
            )
        )
    return summaries


def _of_warm_up(found: WarmUp | None) -> dict[str, Any]:
    """Return the fields of a RunSummary that describe the warm-up."""
    return {
        "warm_up_steps": found.steps if found else None,
        "is_steady": found.is_steady if found else None,
        "warm_up": found.reason if found else None,
        "warm_up_excess": found.excess if found else None,
        "slower_from": found.slower_from if found else None,
        "slower": found.slower if found else 1.0,
    }


def _far_off(measured: Iterable[Measurement]) -> set[Run]:
    """Return the runs whose throughput is an outlier among the repeats of their point."""
    return {
        run
        for runs in _repeats(measured)
        for run, is_off in zip(runs, outliers([*runs.values()]), strict=True)
        if is_off
    }


def _slow_runs(measured: Iterable[Measurement]) -> set[Run]:
    """Return the runs of the slower of two groups of their point."""
    slow: set[Run] = set()
    for runs in _repeats(measured):
        found, names = slow_jobs([*runs.values()]), [*runs]
        slow.update(names[place] for place in (found.slow if found else ()))
    return slow


def _repeats(measured: Iterable[Measurement]) -> Iterable[Mapping[Run, float]]:
    """Return the throughputs of each point by run."""
    repeats: defaultdict[tuple[str, Point], dict[Run, float]] = defaultdict(dict)
    for run in measured:
        if run.samples_per_s:
            repeats[run.experiment, run.point][run.experiment, run.run_id] = run.samples_per_s
    return repeats.values()
