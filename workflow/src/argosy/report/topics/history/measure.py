"""An experiment over time: runs of earlier reports compared with the current ones."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from scipy.special import stdtrit

from argosy.report.runs.measurements import Point
from argosy.report.runs.scaling import is_much_lost, without_interval
from argosy.report.runs.setups import Difference, Setup, differences
from argosy.report.statistics.estimates import (
    CONFIDENCE,
    Estimate,
    geometric_mean_estimate,
    ratio_estimate,
    together,
)
from argosy.report.summary.models import (
    ExperimentSummary,
    MachineSummary,
    ProvenanceSummary,
    RunSummary,
    Summary,
)
from argosy.report.summary.parts import Change, History, HistoryEntry, HistoryPoint

FEWEST_REPORTS = 3
"""Fewest earlier reports from which their scatter is estimated."""
_SAME_BATCH = 0.02
"""Tolerated relative difference of mean batches: an epoch's last batch may be small."""

_Rate = Annotated[float, Field(ge=1e-30, le=1e30)]
_Time = Annotated[float, Field(ge=0, le=1e12)]
_Count = Annotated[int, Field(ge=1, le=1 << 20)]
_Key = tuple[str, str, str | None, float | None]


@dataclass(frozen=True)
class _PastSized:
    """A size in an earlier report."""

    nodes: _Count
    ranks_per_node: _Count

    @property
    def point(self) -> Point:
        """The size alone."""
        return Point(self.nodes * self.ranks_per_node, self.nodes, self.ranks_per_node)


@dataclass(frozen=True)
class PastRun(_PastSized):
    """A run of an earlier report."""

    experiment: str
    run_id: str
    samples_per_s: _Rate | None
    started_unix_s: _Time | None
    hosts: list[str | None]
    attempt: str | None = None
    counted_as: str | None = None


@dataclass(frozen=True)
class PastPoint(_PastSized):
    """Measurements of a size in an earlier report."""

    samples_per_step: _Rate | None


@dataclass(frozen=True)
class PastSize(_PastSized):
    """The runs of a size in an earlier report, by state."""

    states: dict[str, int]


@dataclass(frozen=True)
class PastExperiment:
    """An experiment in an earlier report."""

    experiment: str
    asked_experiment: str
    setup: Setup
    points: list[PastPoint]
    sizes: list[PastSize] = field(default_factory=list)


@dataclass(frozen=True)
class PastSummary:
    """The fields of summary.json that a history needs, common to all versions of Argosy."""

    experiments: list[PastExperiment]
    runs: list[PastRun]
    machines: list[MachineSummary]
    provenance: list[ProvenanceSummary] = field(default_factory=list)


Report = PastSummary | Summary
"""An earlier report, or the current one."""
_Experiment = PastExperiment | ExperimentSummary
_Run = PastRun | RunSummary
_Earlier = tuple[_Experiment, Sequence[_Run], Report]
"""An experiment, its runs that are new in a report, and this report."""
_ADAPTER = TypeAdapter(PastSummary)


def past_summary(content: Mapping[str, Any]) -> PastSummary:
    """Validate the fields of a parsed summary.json that a history needs; raises ValidationError."""
    return _ADAPTER.validate_python(content)


def measured_keys(runs: Iterable[_Run]) -> set[_Key]:
    """Return keys of the runs with a throughput; the same attempt is the same measurement."""
    return {
        (run.experiment, run.run_id, run.attempt, run.started_unix_s)
        for run in runs
        if run.samples_per_s is not None
    }


def commits(summary: Report) -> dict[tuple[str, str], str]:
    """Return the project's commit by run, if provenance has it."""
    found = {}
    for each in summary.provenance:
        argosy = each.content.get("argosy")
        commit = argosy.get("git_commit") if isinstance(argosy, dict) else None
        for name in each.runs if isinstance(commit, str) else ():
            experiment, _, run_id = name.rpartition("/")
            found[experiment, run_id] = str(commit)
    return found


def with_history(summary: Summary, past: Iterable[PastSummary]) -> Summary:
    """Add the history of each experiment to a summary; `past` are earlier reports, oldest first."""
    seen = measured_keys(summary.runs)
    earlier: list[_Earlier] = []
    for each in past:
        new = [run for run in each.runs if measured_keys([run]) - seen]
        seen |= measured_keys(new)
        earlier += [(one, _of(one, new), each) for one in each.experiments]
    return replace(
        summary,
        experiments=[
            replace(experiment, history=_history(experiment, summary, earlier))
            for experiment in summary.experiments
        ],
    )


def _of(experiment: _Experiment, runs: Iterable[_Run]) -> list[_Run]:
    return [run for run in runs if (run.counted_as or run.experiment) == experiment.experiment]


def _history(
    ours: ExperimentSummary, present: Summary, earlier: Sequence[_Earlier]
) -> History | None:
    now = _entry(ours, _of(ours, present.runs), present)
    before = [
        (one, _entry(one, runs, of))
        for one, runs, of in earlier
        if runs and one.asked_experiment == ours.asked_experiment
    ]
    if not now.points or not before:
        return None
    before.sort(key=lambda each: each[1].started_unix_s or 0.0)
    entries = [replace(entry, not_compared=_apart(ours, now, one, entry)) for one, entry in before]
    alike = [
        (one, entry)
        for (one, _), entry in zip(before, entries, strict=True)
        if entry.not_compared is None
    ]
    apart = _differences(*alike[-1], ours, now) if alike else []
    return History([*entries, now], [*_changes(now, alike, ours)], apart)


def _entry(experiment: _Experiment, runs: Sequence[_Run], of: Report) -> HistoryEntry:
    by_size: defaultdict[Point, list[float]] = defaultdict(list)
    measured = [run for run in runs if run.samples_per_s is not None]
    for run in measured:
        by_size[run.point].append(run.samples_per_s or 0.0)
    hosts = {host for run in measured for host in run.hosts}
    starts = [run.started_unix_s for run in measured if run.started_unix_s is not None]
    known = commits(of)
    told = {known.get((run.experiment, run.run_id)) for run in measured}
    return HistoryEntry(
        started_unix_s=min(starts, default=None),
        commit=told.pop() if len(told) == 1 else None,
        image=experiment.setup.image,
        machines=sorted(
            {one.cpu_model for one in of.machines if one.cpu_model and hosts & {*one.hosts}}
        ),
        points=[
            HistoryPoint(
                **point.size,
                runs_samples_per_s=rates,
                throughput_samples_per_s=without_interval(mean)
                if _has_lost_runs(experiment, point)
                else mean,
            )
            for point, rates in sorted(by_size.items())
            for mean in [geometric_mean_estimate(rates)]
        ],
    )


def _apart(
    ours: _Experiment, now: HistoryEntry, theirs: _Experiment, then: HistoryEntry
) -> str | None:
    """Return why two measurements cannot be compared; None if they can."""
    work = [one.what for one in differences(theirs.setup, ours.setup) if one.is_of_work]
    if work:
        return f"another {' and '.join(work)}"
    if theirs.setup.hardware != ours.setup.hardware:
        return "other hardware"
    return None if then.machines == now.machines else "other processors"


def _differences(
    theirs: _Experiment, then: HistoryEntry, ours: _Experiment, now: HistoryEntry
) -> list[Difference]:
    found = differences(theirs.setup, ours.setup)
    if then.commit and now.commit and then.commit != now.commit:
        found.insert(0, Difference("commit", then.commit, now.commit, is_of_work=False))
    return found


def _changes(
    now: HistoryEntry,
    alike: Sequence[tuple[_Experiment, HistoryEntry]],
    ours: _Experiment,
) -> Iterator[Change]:
    compared = [(point, [*_earlier(point, alike, ours)]) for point in now.points]
    several = sum(bool(before) for _, before in compared)
    for point, before in compared:
        earlier = [one for one, _ in before]
        if earlier:
            is_known = len(earlier) >= FEWEST_REPORTS
            lost = _has_lost_runs(ours, point.point) or any(was_lost for _, was_lost in before)
            ratio = (
                _over_reports(point, earlier)
                if is_known
                else ratio_estimate(point.runs_samples_per_s, earlier[-1].runs_samples_per_s)
            )
            yield Change(
                **point.point.size,
                ratio=without_interval(ratio) if lost else together(ratio, several),
                reports=len(earlier) if is_known else 1,
            )


def _earlier(
    point: HistoryPoint,
    alike: Iterable[tuple[_Experiment, HistoryEntry]],
    ours: _Experiment,
) -> Iterator[tuple[HistoryPoint, bool]]:
    """Yield the same size from earlier reports with the same batch per rank, and whether it lost runs."""
    wanted = _samples_per_step(ours, point.point)
    for experiment, entry in alike:
        if same_batch(wanted, _samples_per_step(experiment, point.point)):
            for one in entry.points:
                if one.point == point.point:
                    yield one, _has_lost_runs(experiment, point.point)


def _has_lost_runs(experiment: _Experiment, point: Point) -> bool:
    return any(one.point == point and is_much_lost(one.states) for one in experiment.sizes)


def same_batch(one: float | None, other: float | None) -> bool:
    """Check that two mean batches are equal; True if one is unknown."""
    return one is None or other is None or abs(one - other) <= _SAME_BATCH * max(one, other)


def _samples_per_step(experiment: _Experiment, point: Point) -> float | None:
    found = (each for each in experiment.points if each.point == point)
    return next((each.samples_per_step for each in found), None)


def _over_reports(point: HistoryPoint, earlier: Sequence[HistoryPoint]) -> Estimate:
    """Return the throughput relative to the geometric mean of earlier reports.

    It has a prediction interval for one more report, by Student's t on the logarithm: without a change, 5
    of 100 reports exclude 1.
    """
    logs = [math.log(one.throughput_samples_per_s.mean) for one in earlier]
    off = math.log(point.throughput_samples_per_s.mean) - fmean(logs)
    scatter = stdev(logs) * math.sqrt(1 + 1 / len(logs))
    if not scatter:
        return Estimate(len(logs), math.exp(off))
    half = float(stdtrit(len(logs) - 1, (1 + CONFIDENCE) / 2)) * scatter
    return Estimate(len(logs), math.exp(off), math.exp(off - half), math.exp(off + half))
