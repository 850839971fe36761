"""The curve of the law that the runs of an experiment do not contradict, for its chart."""

import math
from collections.abc import Sequence

from argosy.report.summary.laws import LawSummary
from argosy.report.topics.laws import GUSTAFSON

_POINTS = 40


def throughput(law: LawSummary, ranks: float) -> float:
    """Samples/s of a fitted law at a number of ranks, by the formulas of `topics.laws.formulas`."""
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
    """Return the fitted law that was chosen; None where none was."""
    return next((law for law in laws if law.is_best and law.refused is None), None)


def sizes(smallest: int, largest: int) -> list[float]:
    """Ranks at which a curve is drawn, in growing steps, the largest measured size last.

    Of larger ones the runs say nothing that a curve without an interval could show.
    """
    growth = math.log(largest / smallest)
    steps = [smallest * math.exp(growth * place / _POINTS) for place in range(_POINTS)]
    return sorted({*(round(step, 3) for step in steps), float(largest)})
