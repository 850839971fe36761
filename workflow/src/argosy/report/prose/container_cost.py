"""What a container costs, in plain words."""

from argosy.report.numbers import percent, percent_interval
from argosy.report.prose.size_names import name_among
from argosy.report.summary.models import ContainerCostSummary, ExperimentSummary

_DIGITS = 1


def findings(experiment: ExperimentSummary) -> list[str]:
    """Return a sentence for each size that was measured with a container and without."""
    return [_sentence(experiment, cost) for cost in experiment.container_costs]


def _sentence(experiment: ExperimentSummary, found: ContainerCostSummary) -> str:
    at, cost = name_among(experiment.container_costs, found), found.cost
    said = f"With {at} the container costs {percent(cost.mean, _DIGITS)} of a step's time"
    if cost.low is None or cost.high is None:
        return f"{said}; so few runs do not tell how far chance goes."
    runs = "pairs" if found.is_paired else "runs"
    said += f" ({percent_interval(cost, _DIGITS)}, n = {cost.n} {runs})"
    if cost.low <= 0 <= cost.high:
        return f"{said}, which cannot be told from nothing."
    return f"{said}."
