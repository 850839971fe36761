"""Types of summary.json for the findings of topics; names contain units."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from argosy.report.numbers import UNIT
from argosy.report.runs.measurements import Point
from argosy.report.runs.setups import Difference
from argosy.report.statistics.estimates import Estimate


def _positive(estimate: Estimate) -> Estimate:
    if not estimate.mean > 0:
        raise ValueError("its mean must be above 0")
    return estimate


def _ratio(estimate: Estimate) -> Estimate:
    if estimate.low is not None and not estimate.low > 0:
        raise ValueError("the interval of a ratio must be above 0")
    return _positive(estimate)


Size = Annotated[int, Field(ge=1, lt=1 << 31)]
Speed = Annotated[float, Field(gt=0, lt=1e30)]
Unit = Annotated[str, Field(pattern="^[A-Za-z-]{1,30}$")]
PositiveEstimate = Annotated[Estimate, AfterValidator(_positive)]
RatioEstimate = Annotated[Estimate, AfterValidator(_ratio)]


@dataclass(frozen=True)
class Sized:
    """A size of an experiment."""

    nodes: Size
    ranks_per_node: Size
    ranks: Size

    @property
    def point(self) -> Point:
        """The size alone."""
        return Point(self.ranks, self.nodes, self.ranks_per_node)


@dataclass(frozen=True)
class SizeRuns(Sized):
    """Planned runs of a size: their number, by state too, and how many completed ones are `left_out`."""

    runs: int
    states: dict[str, int]
    left_out: int


@dataclass(frozen=True)
class SweptPoint:
    """A combination of a sweep: the swept experiment, and values by name."""

    of: str
    values: dict[str, str]


@dataclass(frozen=True)
class Advice:
    """Recommended sizes among the measured ones.

    `fastest` has the highest mean throughput. `for_time` is the smallest size that is not significantly
    slower, and is the base or significantly faster than the base. `for_node_hours` is the smallest size
    that does not take significantly more node-hours than the cheapest. Sizes without an interval are
    `not_compared`, unless no size has one; then means decide (`by_means`).
    """

    fastest: Point
    for_time: Point
    for_node_hours: Point
    largest_over_for_time: Estimate
    """Throughput of the largest compared size relative to `for_time`; 1 if they are the same."""
    node_hours: Estimate
    """Node-hours of `for_time` relative to `for_node_hours`, steps only."""
    charged: float | None = None
    """The same ratio for means of charged node-hours, for a job of a million samples."""
    nearly: Point | None = None
    """Smallest size that takes only slightly longer than `for_time`; None if there is no smaller one."""
    nearly_longer: float = 0.0
    """Relative increase in time at `nearly`, comparing means."""
    not_compared: list[Point] = field(default_factory=list)
    by_means: bool = False


@dataclass(frozen=True)
class Unread:
    """Telemetry that could not be read, why, and on how many nodes of all runs."""

    what: str
    why: str
    nodes: int


@dataclass(frozen=True)
class UsageSummary:
    """Means over the runs with readings, and maxima of memory; None without readings.

    `cpu_busy` and `gpu_busy` are shares; network is per node, both directions. Energy covers the whole job;
    energy per sample covers the steady state and the devices in `energy_of`.
    """

    cpu_busy: Estimate | None
    memory_bytes_max: int | None
    network_bytes_per_s: Estimate | None
    gpu_busy: Estimate | None
    gpu_memory_bytes_max: int | None
    cpu_energy_j: Estimate | None
    gpu_energy_j: Estimate | None
    energy_j_per_sample: Estimate | None
    energy_of: str | None


SAMPLES = 1_000_000


@dataclass(frozen=True)
class Rates:
    """Prices, carbon intensity and peak of a site; None if unknown.

    `pue` is the energy of the whole site divided by the energy of its computers; `peak_tflops_per_node` is
    for the precision of the training.
    """

    price_per_node_hour: float | None = None
    currency: str | None = None
    carbon_g_per_kwh: float | None = None
    pue: float | None = None
    source: str | None = None
    peak_tflops_per_node: float | None = None


NOT_KNOWN = Rates()


@dataclass(frozen=True)
class CostSummary:
    """Costs of `SAMPLES` samples at a point; None without readings or rates.

    Args:
        hours: Time of steps in the steady state only; `node_hours` likewise.
        price: Price of the charged node-hours, or of `node_hours` if those are unknown.
        energy_kwh: Energy of the devices in `energy_of`, times the site's PUE if it is known.
        charged_node_hours: Node-hours of one job, with validation and checkpoints between steps, and
            `around_s`. Both are None if the steps of a run are incomplete.
        around_s: Seconds of a job before and after its steady state.
    """

    hours: Estimate
    node_hours: Estimate
    price: Estimate | None
    energy_kwh: Estimate | None
    energy_of: str | None
    carbon_kg: Estimate | None
    charged_node_hours: Estimate | None = None
    around_s: Estimate | None = None


@dataclass(frozen=True)
class StallSummary(Sized):
    """Stalls of a step at one size: shares by part, which add up to 1, or why they are unknown."""

    step_s: Estimate | None
    shares: dict[str, Estimate]
    refused: str | None


@dataclass(frozen=True)
class PointTimeline(Sized):
    """Means over the runs of a size, by part: seconds per step, and shares of rank 0's steps.

    Parts overlap: one tensor is negotiated while another is reduced. `refused` is the reason without parts,
    as the end of a sentence.
    """

    step_s: Estimate | None
    seconds_per_step: dict[str, Estimate]
    shares: dict[str, Estimate]
    refused: str | None = None


@dataclass(frozen=True)
class ContainerCostSummary(Sized):
    """Relative increase in step time at one size, compared with the experiment `native`."""

    native: str
    cost: Estimate
    is_paired: bool
    """Whether the interval is of pairs of runs."""


@dataclass(frozen=True)
class AllreduceSummary(Sized):
    """Time of an allreduce of `bytes` on each rank, at one size."""

    bytes: int
    seconds: Estimate
    """Mean over runs of the mean over repetitions."""

    @property
    def busbw_gb_per_s(self) -> float:
        """Bus bandwidth in 10^9 bytes/s, as in nccl-tests: algbw times 2 (n - 1) / n."""
        return self.bytes / self.seconds.mean * 2 * (self.ranks - 1) / self.ranks / 1e9


@dataclass(frozen=True)
class LawSummary:
    """A law fitted to the runs of an experiment, or why it is `refused`. Sizes are ranks.

    Args:
        is_best: Whether it is the chosen law, the simplest that the runs do not contradict.
        is_alone: False if the runs cannot distinguish it from the universal law, or from a cost that grows
            with the logarithm of the ranks.
        at_one_samples_per_s: Throughput of one rank. Estimates count runs; `high` is None if unbounded.
        parameters: The law's parameters, for one rank.
        serial_share: Serial share of the smallest measured size's time, by Amdahl's or Gustafson's law.
    """

    law: str
    is_best: bool
    is_alone: bool = True
    refused: str | None = None
    at_one_samples_per_s: Estimate | None = None
    parameters: dict[str, Estimate] = field(default_factory=dict)
    peak_ranks: Estimate | None = None
    residual_sd: float | None = None
    r_squared: float | None = None
    lack_of_fit_p: float | None = None
    serial_share: Estimate | None = None


@dataclass(frozen=True)
class NetworkSummary:
    """Latency and bandwidth of a network, fitted to allreduce benchmarks."""

    latency_s: Estimate
    bytes_per_s: Estimate | None


@dataclass(frozen=True)
class PredictedPoint:
    """A predicted training on `nodes`; hours, node-hours, energy, price and carbon are for all samples.

    `measured_samples_per_s` is None for an unmeasured size; `error` is the predicted time per sample
    divided by the measured one, minus 1. A law of throughputs gives no `step_s`.
    """

    nodes: int
    ranks: int
    step_s: Estimate | None
    efficiency: Estimate
    samples_per_s: Estimate
    hours: Estimate
    node_hours: Estimate
    energy_kwh: Estimate | None
    price: Estimate | None
    carbon_kg: Estimate | None
    measured_samples_per_s: float | None
    error: float | None

    @property
    def ranks_per_node(self) -> int:
        """Ranks of each node."""
        return self.ranks // self.nodes


@dataclass(frozen=True)
class PredictionSummary:
    """Predictions of an experiment, and answers as numbers of nodes; None if no number is an answer.

    Args:
        method: `network`, from the step on one node and the allreduces of the experiment `collectives`; or
            `universal law`, from throughputs alone, without networks.
        network_factor: Slowdown of the network in training, relative to the benchmark.
        notes: Sentences on assumptions.
        interval_nodes: Largest number of nodes with intervals.
        farthest_nodes: Largest number of nodes in answers; `points` has larger ones on request.
        nodes_with_efficiency: Answer by the best estimate; `nodes_surely_with_efficiency` by the lower end
            of the interval.
        misses: Measured numbers of nodes outside the prediction; then answers use measured sizes only.
        nodes_within: Fastest number of nodes within `asked_node_hours`; None without this question, too.
        unit: Unit of the experiment.
    """

    method: Literal["network", "universal law"]
    collectives: str | None
    algorithm: str | None
    within_node: NetworkSummary | None
    between_nodes: NetworkSummary | None
    network_factor: float
    notes: list[str]
    samples: float
    interval_nodes: int
    farthest_nodes: int
    points: list[PredictedPoint]
    asked_efficiency: float
    nodes_with_efficiency: int | None
    nodes_surely_with_efficiency: int | None
    misses: list[int]
    asked_node_hours: float | None
    nodes_within: int | None
    unit: Unit = UNIT


@dataclass(frozen=True)
class HistoryPoint(Sized):
    """Runs of a size in one entry of a history."""

    runs_samples_per_s: list[Speed]
    throughput_samples_per_s: PositiveEstimate


@dataclass(frozen=True)
class HistoryEntry:
    """Runs of an experiment that are new in one report.

    `commit` is the project's, `image` is name and digest, `machines` are processor models.
    """

    started_unix_s: float | None
    """Start of the first run."""
    commit: str | None
    image: str | None
    machines: list[str]
    points: list[HistoryPoint]
    not_compared: str | None = None
    """Why these runs are not compared with the current ones."""


@dataclass(frozen=True)
class Change(Sized):
    """Current throughput of a size relative to earlier reports, for the same work and machines.

    With one or two earlier reports it is the ratio to the later one, with Welch's interval. With three or
    more it is the ratio to their mean, with an interval from the scatter between reports. Intervals of all
    sizes are simultaneous.
    """

    ratio: Estimate
    reports: int
    """Number of earlier reports compared: 1, or at least 3."""


@dataclass(frozen=True)
class History:
    """An experiment in earlier reports, oldest first, and in this one, last."""

    entries: list[HistoryEntry]
    changes: list[Change]
    differences: list[Difference]
    """Differences of the current setup (`other`) from the last compared report's (`one`)."""


@dataclass(frozen=True)
class NotFinite:
    """A recorded metric or printed loss that is NaN or infinite.

    Args:
        value: The value, or the printed line if `is_printed`.
        rank: The first of the `ranks` (their number) with such a value.
        at_s: Seconds since the start of the job.
        step: The last step that the rank had begun; None without recorded steps.
    """

    name: str
    value: str
    rank: int
    ranks: int
    at_s: float | None
    step: int | None
    is_printed: bool


@dataclass(frozen=True)
class LongSteps:
    """Number of long `steps` of a run's slowest `rank`; the longest is `step`.

    It took `seconds`, `times` the median. `samples_per_s` is the throughput without long steps.
    """

    rank: int
    steps: int
    step: int
    seconds: float
    times: float
    samples_per_s: float
