"""summary.json: every number of the report, once. HTML, CSV and the terminal all say what stands here.

Units are in the names, ratios have none.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from argosy.report.numbers import UNIT
from argosy.report.runs.measurements import Point
from argosy.report.runs.setups import Setup
from argosy.report.runs.stragglers import Straggler
from argosy.report.statistics.estimates import CONFIDENCE, Estimate
from argosy.report.summary.parts import (
    Advice,
    AllreduceSummary,
    ContainerCostSummary,
    CostSummary,
    History,
    LawSummary,
    LongSteps,
    NotFinite,
    PointTimeline,
    PositiveEstimate,
    PredictionSummary,
    Rates,
    RatioEstimate,
    Size,
    SizeRuns,
    Speed,
    StallSummary,
    SweptPoint,
    Unit,
    Unread,
    UsageSummary,
)

SUMMARY_VERSION = 7


@dataclass(frozen=True)
class QueueWaits:
    """Of completed runs whose jobs had a queue; medians, since single waits may be a hundred times longer.

    A site's load decides them, so they are of these hours and have no interval for others.
    """

    jobs: int
    queues: tuple[str, ...]
    waited_s: float
    shortest_s: float
    longest_s: float
    to_result_s: float
    """From the submission to the end of the run."""


@dataclass(frozen=True)
class PointSummary:
    """One size of an experiment. What was not measured there is None (or has no entry)."""

    nodes: Size
    ranks_per_node: Size
    ranks: Size
    runs_samples_per_s: list[Speed]
    throughput_samples_per_s: PositiveEstimate | None
    speed_up: RatioEstimate | None
    efficiency: RatioEstimate | None
    step_s: float | None
    steps: float | None
    """Of a rank, in the mean of its runs, warm-up included."""
    samples_per_step: float | None
    """Of a rank, in the mean."""
    phases_s_per_step: dict[str, float]
    factors: dict[str, RatioEstimate]
    """Of the efficiency, by name; empty at the base and without recorded steps."""
    usage: UsageSummary | None
    costs: CostSummary | None
    test_accuracy: Estimate | None
    test_accuracy_min: float | None
    weights_identical: bool | None
    weights_compared_runs: int
    between_steps: Estimate | None = None
    """The share of the steady time that is in no step, as validation and checkpoints are."""
    speed_up_is_paired: bool = False
    """Whether the interval is of pairs of runs, since repeats were blocks in time; else it is Welch's."""
    detectable_ratio: float | None = None
    """By how many times the speed-up has to differ from another, such as the ideal one, to be seen in four
    of five studies of so many runs that scatter so."""
    median_samples_per_s: Estimate | None = None
    """With an interval by order statistics; None of fewer than 6 runs."""
    flops_utilisation: Estimate | None = None
    """The share of the nodes' peak that the model's own operations take; None where it is not known."""
    queue: QueueWaits | None = None
    """How long its jobs waited; None where there was no queue, or it is not known."""
    no_interval: str | None = None
    """Why its speed-up has no interval although there are several runs."""
    metrics: dict[str, Estimate] = field(default_factory=dict)
    """What the program recorded besides, by name: the mean over ranks, over the runs."""


@dataclass(frozen=True)
class ExperimentSummary:
    """The points of an experiment, smallest first; `base` is the one that others are held against.

    `states` counts all its runs by state, also those that gave no point.
    """

    experiment: str
    """Its name; with a number where its runs are of several setups, each of which is here by itself."""
    asked_experiment: str
    """Its name in config.yaml."""
    setup: Setup
    scaling: str
    states: dict[str, int]
    base: Point | None
    points: list[PointSummary]
    laws: list[LawSummary]
    no_law: str | None
    """Why none of them is the best, as a sentence; None also where there was no choice."""
    prediction: PredictionSummary | None
    no_prediction: str | None
    """Why there is no prediction."""
    stalls: list[StallSummary]
    """By size, smallest first; empty where the stalls of the experiment were not studied."""
    timelines: list[PointTimeline]
    """By size, smallest first; empty where Horovod wrote none."""
    allreduces: list[AllreduceSummary] = field(default_factory=list)
    """By size and message, smallest first; empty where no allreduces alone were timed."""
    container_costs: list[ContainerCostSummary] = field(default_factory=list)
    """By size, smallest first; empty where the same was not measured without a container."""
    sizes: list[SizeRuns] = field(default_factory=list)
    """The runs of each planned size, smallest first."""
    advice: Advice | None = None
    """How many nodes to ask for; None where fewer than two sizes have a throughput."""
    history: History | None = None
    """None where no earlier report has other runs of it."""
    sweep: Annotated[SweptPoint | None, Field(exclude_if=lambda point: point is None)] = None
    """Only of a combination of a sweep."""
    unit: Unit = UNIT
    """What its throughput counts a second, in the plural, wherever a name here speaks of samples."""


@dataclass(frozen=True)
class RunSummary:
    """One run. Log files are relative to the results folder of the site."""

    experiment: str
    run_id: str
    counted_as: str | None
    """The name of the experiment that it counts to, where that has a number."""
    nodes: Size
    ranks_per_node: Size
    repeat: int
    state: str
    samples_per_s: float | None
    throughput_source: str | None
    left_out: str | None
    is_far_off: bool
    """Far off the other repeats of its point (`statistics.outliers`); it is included."""
    warm_up_steps: int | None
    """Of its steps, or of its printed numbers, that are left out as warm-up."""
    is_steady: bool | None
    """Whether a steady state was reached and kept; None without steps and printed numbers."""
    warm_up: str | None
    """What was found of the warm-up, in words."""
    warm_up_excess: float | None
    """How many times as long its counted steps took as the steady state that they approach; mostly 1."""
    stragglers: list[Straggler]
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
    between_steps: float | None = None
    """The share of its steady time that is in no step; None where it is not known."""
    is_slow: bool = False
    """One of the slower of two groups of its size (`statistics.few_runs`); it is included."""
    queue: str | None = None
    """Of the site's file."""
    waited_s: float | None = None
    """In the queue; None where there was none, or it is not known."""
    not_finite: list[NotFinite] = field(default_factory=list)
    """Metrics that it recorded, and losses that it printed, as NaN or infinite; the first in time first."""
    remarks: list[str] = field(default_factory=list)
    """What its verdict calls doubtful, though it completed; a phrase each."""
    long_steps: LongSteps | None = None
    """Few steps that took many times the median, and much of its steady time; they count all the same."""
    slower_from: int | None = None
    """The step from which on its steps take `slower` times as long as before; None where none does."""
    slower: float = 1.0
    restarts: int = 0
    """How often it began again within its job after the loss of a rank or node."""
    restarts_lost_s: float | None = None
    """From the last checkpoints to these new starts; None without any."""
    part_nodes: list[int] = field(default_factory=list)
    """The nodes of each part that counts, where it began again."""
    attempt: str | None = None
    """The attempt that was measured, `JOB.RESTART`: runs may share a job (`resources.same_allocation`)."""
    unit: Unit = UNIT
    """As that of its experiment."""

    @property
    def counts_to(self) -> str:
        """The name of its `ExperimentSummary`."""
        return self.counted_as or self.experiment


@dataclass(frozen=True)
class FailureSummary:
    """An attempt of a run that came to nothing; `lost_s` is None when nobody noted its end."""

    experiment: str
    run_id: str
    attempt: str
    state: str
    node: int | None
    rank: int | None
    cause: str
    lost_s: float | None
    log_file: str | None
    log_excerpt: str | None = None
    """The last lines of the log file, made safe to show (`report.excerpts`)."""
    no_excerpt: str | None = None
    """Why there is a log file and no excerpt of it."""


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

    @property
    def image_name(self) -> str | None:
        """Of the runs' container, None without one, or where the file does not tell."""
        image = self.content.get("image")
        name = image.get("name") if isinstance(image, dict) else None
        return name if isinstance(name, str) else None


@dataclass(frozen=True)
class Method:
    confidence: float = CONFIDENCE


@dataclass(frozen=True)
class Summary:
    """summary.json."""

    schema_version: int
    sites: list[str]
    method: Method
    rates: Rates
    experiments: list[ExperimentSummary]
    runs: list[RunSummary]
    failures: list[FailureSummary]
    unread: list[Unread]
    problems: list[ProblemSummary]
    machines: list[MachineSummary]
    provenance: list[ProvenanceSummary]
    inputs: str | None = None
    """The digest of all that was asked for, the same at each site that runs the same study."""

    @property
    def points(self) -> list[PointSummary]:
        """Return the sizes of all experiments."""
        return [point for experiment in self.experiments for point in experiment.points]


_ADAPTER = TypeAdapter(Summary)


def read_summary(content: Mapping[str, Any]) -> Summary:
    """Return the summary of a parsed summary.json.

    Raises:
        ValueError: for one that is damaged; mostly pydantic's ValidationError.
    """
    summary = _ADAPTER.validate_python(content)
    for experiment in summary.experiments:
        measured = {Point(one.ranks, one.nodes, one.ranks_per_node) for one in experiment.points}
        if any(
            one.throughput_samples_per_s and not one.runs_samples_per_s for one in experiment.points
        ):
            raise ValueError(f"{experiment.experiment}: a throughput is of no run")
        advice = experiment.advice
        advised = (advice.fastest, advice.for_time, advice.for_node_hours) if advice else ()
        if not measured.issuperset(advised):
            raise ValueError(
                f"{experiment.experiment}: the advised sizes are not among those measured"
            )
    return summary


def summary_json(summary: Summary) -> str:
    """`summary` as indented JSON with a final newline."""
    return _ADAPTER.dump_json(summary, indent=2).decode() + "\n"


def summary_schema() -> str:
    """Return the JSON Schema of summary.json."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_ADAPTER.json_schema(mode="serialization"),
        "title": f"summary.json of an Argosy report, schema_version {SUMMARY_VERSION}",
    }
    return json.dumps(schema, indent=2) + "\n"
