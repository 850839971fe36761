"""What the scaling laws say of an experiment: the numbers of summary.json, and a sentence."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from argosy.analysis.laws import AMDAHL, GUSTAFSON, LINEAR, USL, Fit, Interval, Refused, choose
from argosy.analysis.measurements import Measurement
from argosy.analysis.statistics import Estimate
from argosy.report.numbers import interval, percent, percent_interval

MISSES = 0.05
"""Below this `lack_of_fit_p` a curve misses the means by more than the runs scatter."""

NAMES = {
    LINEAR.name: "linear",
    AMDAHL.name: "Amdahl",
    GUSTAFSON.name: "Gustafson",
    USL.name: "universal (USL)",
}


@dataclass(frozen=True)
class LawSummary:
    """A law fitted to the runs of an experiment, or why it is `refused`.

    Estimates have the number of runs; `high` is None where nothing bounds it. `at_one` is the
    throughput of one rank. Sizes are ranks.
    """

    law: str
    is_best: bool
    refused: str | None = None
    at_one_samples_per_s: Estimate | None = None
    parameters: dict[str, Estimate] = field(default_factory=dict)
    peak_ranks: Estimate | None = None
    residual_sd: float | None = None
    r_squared: float | None = None
    lack_of_fit_p: float | None = None
    aicc: float | None = None


@dataclass(frozen=True)
class MeasuredSizes:
    """The sizes that were measured, in words (`1 to 4 nodes`): of others a law's sentence says nothing."""

    said: str
    fewest_ranks: int
    most_ranks: int

    def has(self, ranks: float) -> bool:
        """Whether a number of ranks lies among them."""
        return self.fewest_ranks <= ranks <= self.most_ranks


def law_summaries(scaling: str, runs: Iterable[Measurement]) -> list[LawSummary]:
    """All laws for this kind of scaling, the simplest first; one of them is the best, if any is."""
    measured = [(run.point.ranks, run.samples_per_s) for run in runs]
    choice = choose(scaling, [size for size, _ in measured], [rate for _, rate in measured])
    return [
        LawSummary(name, is_best=False, refused=found.reason)
        if isinstance(found, Refused)
        else _summary(found, name == choice.best)
        for name, found in choice.fits.items()
    ]


def sentence(laws: Sequence[LawSummary], sizes: MeasuredSizes) -> str | None:
    """What the best law says of the `sizes` measured; None when there was nothing to choose from."""
    fitted = [law for law in laws if law.refused is None]
    best = next((law for law in fitted if law.is_best), None)
    if best is None or len(fitted) < 2:
        return None
    if best.lack_of_fit_p is not None and best.lack_of_fit_p < MISSES:
        return (
            f"No scaling law describes its runs: the best of them, {NAMES[best.law]}, misses the means by "
            "more than the runs scatter."
        )
    return _SENTENCES[best.law](best, sizes)


def _summary(found: Fit, is_best: bool) -> LawSummary:
    return LawSummary(
        law=found.law,
        is_best=is_best,
        at_one_samples_per_s=_estimate(found, found.at_one),
        parameters={name: _estimate(found, one) for name, one in found.parameters.items()},
        peak_ranks=_estimate(found, found.peak) if found.peak else None,
        residual_sd=found.goodness.residual_sd,
        r_squared=found.goodness.r_squared,
        lack_of_fit_p=found.goodness.lack_of_fit_p,
        aicc=found.goodness.aicc,
    )


def _estimate(found: Fit, one: Interval) -> Estimate:
    return Estimate(found.runs, one.value, one.low, one.high if math.isfinite(one.high) else None)


def _linear(_: LawSummary, sizes: MeasuredSizes) -> str:
    return (
        f"No loss by more ranks shows beyond the scatter of the runs among {sizes.said}: the linear law "
        "describes them best."
    )


def _amdahl(law: LawSummary, sizes: MeasuredSizes) -> str:
    serial = law.parameters["serial fraction"]
    return (
        f"Amdahl's law describes its runs best: among {sizes.said} it takes {percent(serial.mean, 1)} of "
        f"the work for serial ({percent_interval(serial, 1)})."
    )


def _gustafson(law: LawSummary, sizes: MeasuredSizes) -> str:
    serial = law.parameters["serial fraction"]
    return (
        f"Gustafson's law describes its runs best: among {sizes.said} it takes "
        f"{percent(serial.mean, 1)} of the time for serial ({percent_interval(serial, 1)})."
    )


def _universal(law: LawSummary, sizes: MeasuredSizes) -> str:
    peak = law.peak_ranks
    if peak and sizes.has(peak.mean):
        where = f"it is highest with {peak.mean:,.0f} ranks ({interval(peak)})"
    else:
        where = f"it has no peak among {sizes.said}"
    return f"The universal scalability law describes its throughput best: {where}."


_SENTENCES = {
    LINEAR.name: _linear,
    AMDAHL.name: _amdahl,
    GUSTAFSON.name: _gustafson,
    USL.name: _universal,
}
