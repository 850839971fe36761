"""What topics find of an experiment or a run, as summary.json has it; units are in the names."""

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
class SizeRuns:
    """All planned runs of a size: how many in which state, and how many completed ones are `left_out`."""

    nodes: Size
    ranks_per_node: Size
    ranks: Size
    runs: int
    states: dict[str, int]
    left_out: int


@dataclass(frozen=True)
class SweptPoint:
    """The combination of a sweep that an experiment is: the swept experiment, and the values by name."""

    of: str
    values: dict[str, str]


@dataclass(frozen=True)
class Advice:
    """Sizes to ask for, of those measured.

    `fastest` has the highest mean throughput. `for_time` is the smallest size that is not shown to be
    slower, and is the base or shown to be faster than that; `for_node_hours` the smallest that is not
    shown to take more node-hours than the cheapest. Sizes without an interval are left out as
    `not_compared`, unless all are: then means decide, `by_means`.
    """

    fastest: Point
    for_time: Point
    for_node_hours: Point
    largest_over_for_time: Estimate
    """The throughput of the largest size that is compared; 1 where both are one."""
    node_hours: Estimate
    """Those of `for_time` over those of `for_node_hours`, in steps."""
    charged: float | None = None
    """The same ratio of the means of charged node-hours, of a job of a million samples."""
    nearly: Point | None = None
    """The smallest size that takes hardly longer than `for_time`; None where no smaller one does."""
    nearly_longer: float = 0.0
    """By which share it takes longer, comparing means."""
    not_compared: list[Point] = field(default_factory=list)
    by_means: bool = False


@dataclass(frozen=True)
class Unread:
    """Unreadable files, why, and on how many nodes of all runs."""

    what: str
    why: str
    nodes: int


@dataclass(frozen=True)
class UsageSummary:
    """Means over the runs that could read a quantity, and the most of any run for memory.

    `cpu_busy` and `gpu_busy` are shares; network is that of a node, both ways. Energy is that of the whole
    job but per sample, which is that of the steady state, of what `energy_of` says. None: no run could
    read it.
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
    """What the report is told of prices and carbon; None is not known.

    `pue` is the energy of the whole site over that of its computers; `peak_tflops_per_node` is of the
    precision that one trains in.
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
    """Of `SAMPLES` samples at a point.

    `hours` and `node_hours` are those of steps in the steady state alone. `charged_node_hours` are those of
    one job that trains so many: what lies between steps, as validation and checkpoints do, is in them, and
    `around_s`, the seconds of a job before and after its steady state. Both are None where a run's steps do
    not tell. `price` is that of the charged node-hours, else of `node_hours`. `energy_kwh` is that of what
    `energy_of` says, times the site's PUE if that is known. None: it was not read, or there is no rate.
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
class StallSummary:
    """What a step at one size waits for: shares by part, which add up to 1, or why they are not known."""

    nodes: Size
    ranks_per_node: Size
    ranks: Size
    step_s: Estimate | None
    shares: dict[str, Estimate]
    refused: str | None


@dataclass(frozen=True)
class PointTimeline:
    """Means over the runs of a size, by part: seconds of a step, and shares of rank 0's steps.

    Parts overlap each other, as one tensor is negotiated while another is reduced. `refused` says why
    there are none, as the end of a sentence.
    """

    nodes: int
    ranks_per_node: int
    ranks: int
    step_s: Estimate | None
    seconds_per_step: dict[str, Estimate]
    shares: dict[str, Estimate]
    refused: str | None = None


@dataclass(frozen=True)
class ContainerCostSummary:
    """By how much a step at one size takes longer than in the experiment `native`, as a share."""

    native: str
    nodes: Size
    ranks_per_node: Size
    ranks: Size
    cost: Estimate
    is_paired: bool
    """As of a speed-up."""


@dataclass(frozen=True)
class AllreduceSummary:
    """An allreduce of `bytes` of data on each rank, at one size of an experiment."""

    nodes: int
    ranks_per_node: int
    ranks: int
    bytes: int
    seconds: Estimate
    """Over runs, each with the mean of its repetitions."""

    @property
    def busbw_gb_per_s(self) -> float:
        """Bus bandwidth in 10^9 bytes/s as nccl-tests defines it: algbw times 2 (n - 1) / n."""
        return self.bytes / self.seconds.mean * 2 * (self.ranks - 1) / self.ranks / 1e9


@dataclass(frozen=True)
class LawSummary:
    """A law fitted to the runs of an experiment, or why it is `refused`.

    `is_best` is said of the simplest law that the runs do not contradict; where it is not also `is_alone`,
    they do not tell it from the universal law, or from a cost that grows with the logarithm of the ranks.
    Estimates have the number of runs; `high` is None where nothing bounds it. `at_one` is the
    throughput of one rank. Sizes are ranks. `parameters` are the law's own, of one rank; `serial_share` is
    the share of the smallest measured size's time that is serial, by Amdahl's law and Gustafson's.
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
    """A network's latency of a message and its rate, as fitted to allreduces alone."""

    latency_s: Estimate
    bytes_per_s: Estimate | None


@dataclass(frozen=True)
class PredictedPoint:
    """A training on `nodes`; hours, node-hours, energy, price and carbon are those of all samples.

    `measured_samples_per_s` is None where nothing was measured; `error` is the predicted time of a sample
    over the measured one, less 1. A law of throughputs knows no `step_s`.
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
        """Return the ranks of each node, the same on all."""
        return self.ranks // self.nodes


@dataclass(frozen=True)
class PredictionSummary:
    """Where a number of nodes is None there is none; `nodes_within` also when nobody asked.

    `method` is `network`, from the step on one node and allreduces of the experiment `collectives`, or
    `universal law`, from throughputs alone; of the latter nothing is known of networks.
    Intervals reach to `interval_nodes`, answers to `farthest_nodes`; rows beyond are there if asked for.
    `network_factor` is by how much the network is slower in training than alone, `notes` what had to be
    assumed. `nodes_with_efficiency` is by the best estimate, `nodes_surely_with_efficiency` where the
    lower end of the interval is. Where the prediction `misses` what was measured at these numbers of
    nodes, only measured sizes are told.
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
    """As that of the experiment."""


@dataclass(frozen=True)
class HistoryPoint:
    """The runs of a size in one entry of a history."""

    nodes: Size
    ranks_per_node: Size
    ranks: Size
    runs_samples_per_s: list[Speed]
    throughput_samples_per_s: PositiveEstimate


@dataclass(frozen=True)
class HistoryEntry:
    """The runs of an experiment that are of one report and of no earlier one.

    `commit` is the project's, `image` a name and digest, `machines` are models of processors.
    """

    started_unix_s: float | None
    """When the first of the runs began."""
    commit: str | None
    image: str | None
    machines: list[str]
    points: list[HistoryPoint]
    not_compared: str | None = None
    """Why the present runs are not held against these."""


@dataclass(frozen=True)
class Change:
    """The present throughput of a size over an earlier one, on the same work and machines.

    Against one or two earlier reports it is the ratio to the later, with Welch's interval. Against three
    or more it is the ratio to their mean; its interval has the scatter between these reports. The
    intervals of all sizes hold together.
    """

    nodes: Size
    ranks_per_node: Size
    ranks: Size
    ratio: Estimate
    reports: int
    """How many earlier reports it is held against: 1, or 3 and more."""


@dataclass(frozen=True)
class History:
    """An experiment in this report and in those before it, the oldest first, the present last."""

    entries: list[HistoryEntry]
    changes: list[Change]
    differences: list[Difference]
    """Between the present setup (`other`) and that of the last report it is held against (`one`)."""


@dataclass(frozen=True)
class NotFinite:
    """A metric of a run, or a loss in its output, that is NaN or infinite.

    `rank` is the first that has it, of so many `ranks`; `at_s` is in seconds since the job's start, and
    `step` the last that the rank had begun by then; None: it recorded none. Of what `is_printed`,
    `value` is the line.
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
    """The long `steps` of a run's slowest `rank`, how many they are, and the longest of them.

    The longest is `step`; it took `seconds`, `times` the median. `samples_per_s` is the run's throughput
    without long steps.
    """

    rank: int
    steps: int
    step: int
    seconds: float
    times: float
    samples_per_s: float
