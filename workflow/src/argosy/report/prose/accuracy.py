"""What is said of the models that larger sizes train."""

from argosy.report.numbers import percent, percent_interval
from argosy.report.prose.size_names import name_among
from argosy.report.summary.models import ExperimentSummary, PointSummary


def findings(experiment: ExperimentSummary) -> list[str]:
    """Return the sentence that models become less accurate with more nodes; none where that may be chance.

    It is said where the intervals of the smallest size and the largest do not meet.
    """
    known = [point for point in experiment.points if point.test_accuracy]
    if len(known) < 2 or not _is_below(known[-1], known[0]):
        return []
    smallest, largest = (name_among(experiment.sizes, one) for one in (known[0], known[-1]))
    return [
        f"The test accuracy with {largest} is {_accuracy(known[-1])}, below that with {smallest}: "
        f"{_accuracy(known[0])}. A larger batch of all ranks may "
        "need another learning rate, or more steps."
    ]


def _is_below(one: PointSummary, other: PointSummary) -> bool:
    here, there = one.test_accuracy, other.test_accuracy
    if here is None or there is None or here.high is None or there.low is None:
        return False
    return here.high < there.low


def _accuracy(point: PointSummary) -> str:
    found = point.test_accuracy
    assert found is not None
    return f"{percent(found.mean, 1)} ({percent_interval(found, 1)})"
