"""Scaling laws of an experiment, for summary.json, in a sentence and as a curve."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from argosy.report.numbers import interval, mean_text, percent, percent_interval
from argosy.report.runs.measurements import Measurement
from argosy.report.statistics.estimates import Estimate
from argosy.report.summary.models import Summary
from argosy.report.summary.parts import LawSummary
from argosy.report.topics.laws.choice import NO_LOSS, Choice, choose
from argosy.report.topics.laws.fits import Fit, Interval, Refused
from argosy.report.topics.laws.formulas import AMDAHL, GUSTAFSON, LINEAR, USL

WIDE = 0.25
"""Width of an interval above which a share counts as not determined."""

NAMES = {
    LINEAR.name: "linear",
    AMDAHL.name: "Amdahl",
    GUSTAFSON.name: "Gustafson",
    USL.name: "universal (USL)",
}


@dataclass(frozen=True)
class MeasuredSizes:
    """The range of measured sizes, in words (`1 to 4 nodes`) and ranks, which sentences on laws cover."""

    said: str
    fewest_ranks: int
    most_ranks: int

    def has(self, ranks: float) -> bool:
        """Check that a number of ranks is within the range."""
        return self.fewest_ranks <= ranks <= self.most_ranks


@dataclass(frozen=True)
class Laws:
    """Laws for an experiment's kind of scaling, the simplest first; `undecided` if none is chosen."""

    laws: list[LawSummary]
    undecided: str | None


def law_summaries(
    scaling: str, runs: Iterable[Measurement], no_interval: str | None = None
) -> Laws:
    """Fit the laws to runs; `undecided` is None unless several laws could be fitted.

    With `no_interval`, the reason for a size without one, no law is chosen and parameters have none.
    """
    measured = [(run.point.ranks, run.samples_per_s) for run in runs]
    choice = choose(scaling, [size for size, _ in measured], [rate for _, rate in measured])
    if no_interval:
        undecided = f"No scaling law is chosen: {no_interval}."
        choice = Choice(choice.fits, undecided=undecided)
    fitted = [found for found in choice.fits.values() if isinstance(found, Fit)]
    laws = [
        LawSummary(name, is_best=False, refused=found.reason)
        if isinstance(found, Refused)
        else _summary(found, choice, has_interval=not no_interval)
        for name, found in choice.fits.items()
    ]
    return Laws(laws, choice.undecided if len(fitted) > 1 else None)


def sentence(laws: Laws, sizes: MeasuredSizes) -> str | None:
    """Describe the best law for the measured `sizes`, or why none is chosen; None without a choice."""
    fitted = [law for law in laws.laws if law.refused is None]
    best = next((law for law in fitted if law.is_best), None)
    if best is None or len(fitted) < 2:
        return laws.undecided
    said = _SENTENCES[best.law](best, sizes)
    if best.is_alone:
        return said
    others = "a cost that grows with the logarithm of the ranks"
    if best.law != USL.name:
        others = f"at least one other curve: the universal law, which has a peak, or {others}"
    return f"{said} The runs cannot distinguish it from {others}."


def _summary(found: Fit, choice: Choice, *, has_interval: bool) -> LawSummary:
    def estimated(one: Interval) -> Estimate:
        return _estimate(found, one) if has_interval else Estimate(found.runs.n, one.value)

    return LawSummary(
        law=found.law.name,
        is_best=found.law.name == choice.best,
        is_alone=found.law.name != choice.best or choice.is_alone,
        at_one_samples_per_s=estimated(found.at_one),
        parameters={name: estimated(one) for name, one in found.parameters.items()},
        peak_ranks=estimated(found.peak) if found.peak else None,
        residual_sd=found.residual_sd,
        r_squared=found.r_squared,
        lack_of_fit_p=found.lack_of_fit_p if has_interval else None,
        serial_share=_serial_share(found, estimated),
    )


def parameter_texts(law: LawSummary) -> list[str]:
    """Describe the parameters of a fitted law, a serial fraction as in sentences."""
    if law.serial_share:
        of = "the smallest size's time" if law.law == AMDAHL.name else "the time"
        return [f"serial share of {of}: {_share_text(law.serial_share)}"]
    return [
        f"{name} {mean_text(value)} ({interval(value)})" for name, value in law.parameters.items()
    ]


def _estimate(found: Fit, one: Interval) -> Estimate:
    if found.is_exact:
        return Estimate(found.runs.n, one.value)
    return Estimate(found.runs.n, one.value, one.low, one.high if math.isfinite(one.high) else None)


def _linear(_: LawSummary, sizes: MeasuredSizes) -> str:
    return (
        f"More ranks show no loss from {sizes.said}: the efficiency at the largest is significantly "
        f"above {percent(NO_LOSS)}, and the runs do not contradict the linear law."
    )


def _amdahl(law: LawSummary, sizes: MeasuredSizes) -> str:
    return (
        f"Its runs do not contradict Amdahl's law. By this law, for {sizes.said}, the serial "
        f"share of the smallest size's time is {_share_text(law.serial_share)}."
    )


def _serial_share(found: Fit, estimated: Callable[[Interval], Estimate]) -> Estimate | None:
    """Return the serial share of the smallest measured size's time, which may have several ranks."""
    if "serial fraction" not in found.parameters:
        return None
    serial = estimated(found.parameters["serial fraction"])
    if found.law == GUSTAFSON:
        # By Gustafson's law, the share of a run's time is the same at each size.
        return serial
    ranks = float(found.runs.sizes.min())

    def share(of_one: float) -> float:
        return of_one * ranks / (1 + of_one * (ranks - 1))

    ends = (None if end is None else share(end) for end in (serial.low, serial.high))
    return Estimate(serial.n, share(serial.mean), *ends)


def _share_text(share: Estimate | None) -> str:
    """Format a share with its interval, or as not determined if the interval is wide."""
    # A damaged summary may lack the share.
    if share is None:
        return "not known"
    said = percent_interval(share, 1)
    if share.low is not None and share.high is not None and share.high - share.low > WIDE:
        return f"not determined ({said})"
    return f"{percent(share.mean, 1)} ({said})"


def _gustafson(law: LawSummary, sizes: MeasuredSizes) -> str:
    return (
        f"Its runs do not contradict Gustafson's law. By this law, for {sizes.said}, the serial "
        f"share of the time is {_share_text(law.serial_share)}."
    )


def _universal(law: LawSummary, sizes: MeasuredSizes) -> str:
    peak = law.peak_ranks
    if peak and sizes.has(peak.mean):
        where = f"is highest with {peak.mean:,.0f} ranks ({interval(peak)})"
    else:
        where = f"has no peak from {sizes.said}"
    name = "the universal scalability law"
    return f"Its runs do not contradict {name}. By this law the throughput {where}."


_SENTENCES = {
    LINEAR.name: _linear,
    AMDAHL.name: _amdahl,
    GUSTAFSON.name: _gustafson,
    USL.name: _universal,
}

_POINTS = 40


def throughput(law: LawSummary, ranks: float) -> float:
    """Return a fitted law's samples/s at a number of ranks, by the formulas of `laws.formulas`."""
    assert law.at_one_samples_per_s is not None
    at_one = law.at_one_samples_per_s.mean
    parameter = {name: estimate.mean for name, estimate in law.parameters.items()}
    serial = parameter.get("serial fraction", 0.0)
    if law.law == GUSTAFSON.name:
        return at_one * (serial + (1 - serial) * ranks)
    contention = parameter.get("contention", serial)
    coherency = parameter.get("coherency", 0.0)
    return at_one * ranks / (1 + (ranks - 1) * (contention + coherency * ranks))


def best(laws: Sequence[LawSummary]) -> LawSummary | None:
    """Return the chosen law, or None."""
    return next((law for law in laws if law.is_best and law.refused is None), None)


def curve_sizes(smallest: int, largest: int) -> list[float]:
    """Return the ranks at which a curve is drawn, in growing steps, up to the largest measured size."""
    growth = math.log(largest / smallest)
    steps = [smallest * math.exp(growth * place / _POINTS) for place in range(_POINTS)]
    return sorted({*(round(step, 3) for step in steps), float(largest)})


def methods(summary: Summary) -> Iterator[str]:
    """Describe the fit and choice of scaling laws, if one was fitted."""
    if any(law.refused is None for one in summary.experiments for law in one.laws):
        yield (
            "Laws are fitted to single runs by least squares on the logarithm. With enough "
            "repeats, the report names the simplest law whose distance from the means is within "
            "the scatter of repeats. The runs do not contradict this law, and may not contradict "
            "others either. If the means deviate from the curve by more than repeats scatter, "
            "the intervals use these deviations."
        )
