"""Studies as clusters make them: slow starts, bursts, neighbours alike, with known truth."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from study_files import RunFiles, plan

Vector = NDArray[np.float64]
Chance = np.random.Generator

STEP_S = 0.1
SAMPLES = 32
EPOCH = 30
"""Steps."""
_SETTLING = 200
_ALL_THE_SAME = 4000


def _power(steps: int) -> Vector:
    return 1 + 2 / (1 + np.arange(steps) / (0.05 * steps)) ** 1.5


def _exponential(share: float) -> Callable[[int], Vector]:
    return lambda steps: 1 + 2 * np.exp(-np.arange(steps) / (share * steps))


def _step(share: float) -> Callable[[int], Vector]:
    return lambda steps: np.where(np.arange(steps) < share * steps, 1.5, 1.0)


def _ramp(share: float) -> Callable[[int], Vector]:
    return lambda steps: 1 + np.maximum(0, 1 - np.arange(steps) / (share * steps))


WARM_UPS: Mapping[str, Callable[[int], Vector]] = {
    "none": np.ones,
    "first step": lambda steps: np.where(np.arange(steps) < 1, 100.0, 1.0),
    "step at 2 %": _step(0.02),
    "step at 10 %": _step(0.1),
    "step at 60 %": _step(0.6),
    "exponential 1.5 %": _exponential(0.015),
    "exponential 5 %": _exponential(0.05),
    "exponential 15 %": _exponential(0.15),
    "exponential 30 %": _exponential(0.3),
    "ramp to 10 %": _ramp(0.1),
    "ramp to 60 %": _ramp(0.6),
    "power law": _power,
    "never steady": _exponential(0.5),
}
"""By how many times longer each of so many steps takes; all but the last come to 1 within the run."""

KIND_WARM_UPS = ("none", "first step", "step at 2 %", "step at 10 %", "exponential 1.5 %")


@dataclass(frozen=True)
class Ugliness:
    """What disturbs the runs of a study; all shares and scatters are of a step's time.

    `autocorrelation` is that of neighbouring steps, `job_scatter` the standard deviation of jobs' means,
    `size_scatter` that of all jobs of a size together, and of `slow_jobs` (a share) each takes twice as
    long. A `burst` are steps of half as much again for 15 % of the run, somewhere in its last four fifths.
    `straggler` is how many times as long the last rank's own work takes; `takes_turns` makes another rank
    the slow one in every step. `epoch_scatter` is that of each rank's work from one epoch of EPOCH steps to
    the next, as uneven shards of data make it. Clocks of nodes lie `clock_offset_s` apart, and the last
    `missing_ranks` wrote nothing.
    """

    warm_up: str = "none"
    scatter: float = 0.05
    autocorrelation: float = 0.0
    heavy_tails: bool = False
    slow_saves: bool = False
    burst: bool = False
    drift: float = 0.0
    job_scatter: float = 0.02
    size_scatter: float = 0.0
    slow_jobs: float = 0.0
    straggler: float = 1.0
    takes_turns: bool = False
    epoch_scatter: float = 0.0
    clock_offset_s: float = 0.0
    missing_ranks: int = 0


def step_times(kind: Ugliness, runs: int, steps: int, chance: Chance) -> Vector:
    """Seconds of shape (runs, steps), of runs of one size."""
    jobs = np.exp(kind.job_scatter * chance.standard_normal((runs, 1)))
    jobs *= np.exp(kind.size_scatter * chance.standard_normal())
    jobs *= np.where(chance.random((runs, 1)) < kind.slow_jobs, 2.0, 1.0)
    return STEP_S * jobs * WARM_UPS[kind.warm_up](steps) * _steady(kind, runs, steps, chance)


def rank_times(kind: Ugliness, runs: int, steps: int, ranks: int, chance: Chance) -> Vector:
    """Seconds of own work, of shape (runs, steps, ranks); ranks scatter by themselves."""
    together = step_times(kind, runs, steps, chance)[:, :, None]
    apart = _noise(kind, runs * ranks, steps, chance).reshape(runs, ranks, steps).swapaxes(1, 2)
    if kind.epoch_scatter:
        shards = np.repeat(chance.standard_normal((runs, steps // EPOCH + 1, ranks)), EPOCH, axis=1)
        apart += kind.epoch_scatter * shards[:, :steps]
    own = together * np.exp(apart)
    if kind.takes_turns:
        own[:, np.arange(steps), np.arange(steps) % ranks] *= kind.straggler
    else:
        own[:, :, -1] *= kind.straggler
    return np.asarray(own)


def true_log_rate(kind: Ugliness, steps: int, chance: Chance) -> float:
    """The logarithm of samples/s of a rank: the mean over jobs, in their steady state."""
    steady = _steady(kind, _ALL_THE_SAME, steps, chance).mean(axis=1)
    slow = kind.slow_jobs * np.log(2)
    return float(np.log(SAMPLES / STEP_S) - np.log(steady).mean() - slow)


def write_run(
    results: Path, kind: Ugliness, own_work_s: Vector, nodes: int = 1, repeat: int = 1
) -> RunFiles:
    """A completed run's folder, of own work of shape (steps, ranks): the rest of a step is waiting."""
    ranks = own_work_s.shape[1]
    run = plan(results, nodes=nodes, ranks_per_node=ranks // nodes, repeat=repeat)
    run.execute()
    for rank in range(ranks - kind.missing_ranks):
        run.timed_steps(
            rank,
            own_work_s[:, rank],
            own_work_s.max(axis=1),
            SAMPLES,
            clock_offset_s=kind.clock_offset_s * (rank * nodes // ranks),
        )
    return run


def _steady(kind: Ugliness, runs: int, steps: int, chance: Chance) -> Vector:
    """Times of steps without warm-up, 1 but for what disturbs them."""
    times = np.exp(_noise(kind, runs, steps, chance)) * (1 + kind.drift * np.arange(steps) / steps)
    if kind.burst:
        length = max(3, steps * 15 // 100)
        begins = chance.integers(steps // 5, steps - length, (runs, 1))
        place = np.arange(steps)
        times = times * np.where((place >= begins) & (place < begins + length), 1.5, 1.0)
    return np.asarray(times)


def _noise(kind: Ugliness, runs: int, steps: int, chance: Chance) -> Vector:
    shape = (runs, steps + _SETTLING)
    values = (
        chance.standard_t(3, shape) / 3**0.5 if kind.heavy_tails else chance.standard_normal(shape)
    )
    alike = kind.autocorrelation
    values = lfilter([(1 - alike**2) ** 0.5], [1, -alike], values, axis=1)[:, _SETTLING:]
    if kind.slow_saves:
        saves = (np.arange(steps) + chance.integers(50, size=(runs, 1))) % 50 == 0
        values = values + saves * np.log(3) / kind.scatter
    return np.asarray(kind.scatter * values)


def product() -> Iterator[Ugliness]:
    """Every slow start with every kind of noise, and what else disturbs runs with the noise of most."""
    noises = (
        {"scatter": 0.02},
        {"scatter": 0.05},
        {"scatter": 0.1},
        {"autocorrelation": 0.5},
        {"autocorrelation": 0.9},
        {"heavy_tails": True},
        {"slow_saves": True},
    )
    for noise in noises:
        for warm_up in WARM_UPS:
            yield Ugliness(warm_up=warm_up, **noise)  # type: ignore[arg-type]
        yield Ugliness(burst=True, **noise)  # type: ignore[arg-type]
        yield Ugliness(drift=0.1, **noise)  # type: ignore[arg-type]
    for job_scatter in (0.0, 0.05, 0.1):
        for warm_up in ("none", "exponential 15 %"):
            yield Ugliness(warm_up=warm_up, job_scatter=job_scatter)
    yield Ugliness(slow_jobs=0.2)
