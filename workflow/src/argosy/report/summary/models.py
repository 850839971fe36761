"""Types of summary.json, the source of all numbers in HTML, CSV and the terminal.

Names contain units; ratios have none.
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
    Sized,
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
    """Median queue waits of completed runs; a mean would depend on single waits a hundred times longer.

    They depend on the site's load in these hours, so they have no interval.
    """

    jobs: int
    queues: tuple[str, ...]
    waited_s: float
    shortest_s: float
    longest_s: float
    to_result_s: float
    """Median time from submission to the end of the run."""


@dataclass(frozen=True)
class PointSummary(Sized):
    """One size of an experiment; values that were not measured are None or absent."""

    runs_samples_per_s: list[Speed]
    throughput_samples_per_s: PositiveEstimate | None
    speed_up: RatioEstimate | None
    efficiency: RatioEstimate | None
    step_s: float | None
    steps: float | None
    """Mean number of steps of a rank, warm-up included."""
    samples_per_step: float | None
    """Mean samples per step of a rank."""
    phases_s_per_step: dict[str, float]
    factors: dict[str, RatioEstimate]
    """Factors of the efficiency by name; empty at the base and without recorded steps."""
    usage: UsageSummary | None
    costs: CostSummary | None
    test_accuracy: Estimate | None
    test_accuracy_min: float | None
    weights_identical: bool | None
    weights_compared_runs: int
    between_steps: Estimate | None = None
    """Share of the steady time between steps, for example validation and checkpoints."""
    speed_up_is_paired: bool = False
    """Whether the interval is of pairs of runs, since repeats were blocks in time; else it is Welch's."""
    detectable_ratio: float | None = None
    """Smallest ratio of the speed-up to a reference, such as the ideal, with 80 % power to detect it."""
    median_samples_per_s: Estimate | None = None
    """Median with an interval by order statistics; None for fewer than 6 runs."""
    flops_utilisation: Estimate | None = None
    """Share of the nodes' peak that the model's own operations use; None if unknown."""
    queue: QueueWaits | None = None
    """Queue waits; None if unknown, or without a queue."""
    no_interval: str | None = None
    """Why its speed-up has no interval although there are several runs."""
    metrics: dict[str, Estimate] = field(default_factory=dict)
    """Other recorded metrics by name: mean over ranks, then over runs."""


@dataclass(frozen=True)
class ExperimentSummary:
    """An experiment: its points, smallest first, relative to `base`; `states` counts all its runs."""

    experiment: str
    """Its name, with a number if its runs have several setups; each setup has its own entry."""
    asked_experiment: str
    """Its name in config.yaml."""
    setup: Setup
    scaling: str
    states: dict[str, int]
    base: Point | None
    points: list[PointSummary]
    laws: list[LawSummary]
    no_law: str | None
    """Why no law is chosen, as a sentence; None if one is chosen or there was no choice."""
    prediction: PredictionSummary | None
    no_prediction: str | None
    """Why there is no prediction."""
    stalls: list[StallSummary]
    """Stalls by size, smallest first; empty if they were not studied."""
    timelines: list[PointTimeline]
    """Timelines by size, smallest first; empty if Horovod wrote none."""
    allreduces: list[AllreduceSummary] = field(default_factory=list)
    """Allreduce benchmarks by size and message, smallest first."""
    container_costs: list[ContainerCostSummary] = field(default_factory=list)
    """Container costs by size, smallest first; empty without the same runs outside a container."""
    sizes: list[SizeRuns] = field(default_factory=list)
    """The runs of each planned size, smallest first."""
    advice: Advice | None = None
    """Recommended numbers of nodes; None if fewer than two sizes have a throughput."""
    history: History | None = None
    """Comparison with earlier reports; None if none has other runs of the experiment."""
    sweep: Annotated[SweptPoint | None, Field(exclude_if=lambda point: point is None)] = None
    """The combination of a sweep, if the experiment is one."""
    unit: Unit = UNIT
    """Unit of throughput, per second, in the plural; it replaces "samples" in names of fields."""


@dataclass(frozen=True)
class RunSummary:
    """One run; paths of log files are relative to the site's results folder."""

    experiment: str
    run_id: str
    counted_as: str | None
    """Name of its `ExperimentSummary`, if that has a number."""
    nodes: Size
    ranks_per_node: Size
    repeat: int
    state: str
    samples_per_s: float | None
    throughput_source: str | None
    left_out: str | None
    is_far_off: bool
    """Whether it is an outlier among the repeats of its point (`estimates.outliers`); it is included."""
    warm_up_steps: int | None
    """Number of steps, or printed numbers, excluded as warm-up."""
    is_steady: bool | None
    """Whether a steady state was reached and kept; None without steps and printed numbers."""
    warm_up: str | None
    """A phrase on the warm-up."""
    warm_up_excess: float | None
    """Time of counted steps relative to the steady state that they approach; usually 1."""
    stragglers: list[Straggler]
    started_unix_s: float | None
    seconds: float | None
    hosts: list[str | None]
    """Host of each node; None if it is unknown, for example if the node did not start."""
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
    """Share of its steady time between steps; None if unknown."""
    is_slow: bool = False
    """Whether it is in the slower of two groups of its size (`statistics.few_runs`); it is included."""
    queue: str | None = None
    """Queue, as named in site.yaml."""
    waited_s: float | None = None
    """Time in the queue; None if unknown, or without a queue."""
    not_finite: list[NotFinite] = field(default_factory=list)
    """Recorded metrics and printed losses that are NaN or infinite, the earliest first."""
    remarks: list[str] = field(default_factory=list)
    """Phrases on doubts about a completed run, from its verdict."""
    long_steps: LongSteps | None = None
    """A few steps that took many medians and much of the steady time; they are included."""
    slower_from: int | None = None
    """Step after which steps take `slower` times as long as before; None without a slowdown."""
    slower: float = 1.0
    restarts: int = 0
    """Number of restarts within its job after the loss of a rank or node."""
    restarts_lost_s: float | None = None
    """Total time from last checkpoints to restarts; None without restarts."""
    part_nodes: list[int] = field(default_factory=list)
    """Nodes of each counted part of a restarted run."""
    attempt: str | None = None
    """The measured attempt, `JOB.RESTART`; runs may share a job (`resources.same_allocation`)."""
    unit: Unit = UNIT
    """Unit of its experiment."""

    @property
    def point(self) -> Point:
        """Its size."""
        return Point(self.nodes * self.ranks_per_node, self.nodes, self.ranks_per_node)

    @property
    def counts_to(self) -> str:
        """Name of its `ExperimentSummary`."""
        return self.counted_as or self.experiment


@dataclass(frozen=True)
class FailureSummary:
    """An attempt without a result; `lost_s` is None if its end was not recorded."""

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
    """Sanitised last lines of the log file (`page.excerpt`)."""
    no_excerpt: str | None = None
    """Why the log file has no excerpt."""


@dataclass(frozen=True)
class ProblemSummary:
    """A folder that could not be read; all numbers exclude it."""

    experiment: str
    run_id: str
    problem: str


@dataclass(frozen=True)
class MachineSummary:
    """Hosts with the same hardware and software, as seen by the runs."""

    hosts: list[str]
    cpu_model: str | None
    cpus: int | None
    memory_bytes: int | None
    kernel: str | None
    engine: str | None
    """Container engine; None without containers."""


@dataclass(frozen=True)
class ProvenanceSummary:
    """A provenance.json that one or more runs share."""

    runs: list[str]
    content: dict[str, Any]

    @property
    def image_name(self) -> str | None:
        """Name of the runs' image; None without a container, or if it is not recorded."""
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
    """Digest of the study's inputs, equal at all sites that run the same study."""

    @property
    def points(self) -> list[PointSummary]:
        """Return the sizes of all experiments."""
        return [point for experiment in self.experiments for point in experiment.points]


_ADAPTER = TypeAdapter(Summary)


def read_summary(content: Mapping[str, Any]) -> Summary:
    """Validate a parsed summary.json.

    Raises:
        ValueError: It is damaged; usually pydantic's ValidationError.
    """
    summary = _ADAPTER.validate_python(content)
    for experiment in summary.experiments:
        measured = {one.point for one in experiment.points}
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
    """Return the summary as indented JSON with a final newline."""
    return _ADAPTER.dump_json(summary, indent=2).decode() + "\n"


def summary_schema() -> str:
    """Return the JSON Schema of summary.json."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_ADAPTER.json_schema(mode="serialization"),
        "title": f"summary.json of an Argosy report, schema_version {SUMMARY_VERSION}",
    }
    return json.dumps(schema, indent=2) + "\n"
