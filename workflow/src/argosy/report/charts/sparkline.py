"""A curve as small as a word, for a table of experiments."""

import math

from argosy.report.summary.models import ExperimentSummary

WIDTH, HEIGHT = 72, 20


def sparkline(experiment: ExperimentSummary) -> str:
    """Return efficiencies from 0 over the logarithm of ranks, as points of an SVG polyline."""
    known = [
        (math.log(one.ranks), one.efficiency.mean) for one in experiment.points if one.efficiency
    ]
    if len(known) < 2:
        return ""
    left, right = known[0][0], known[-1][0]
    highest = max(1.0, *(height for _, height in known))
    return " ".join(
        f"{2 + (WIDTH - 4) * (at - left) / ((right - left) or 1):.1f},"
        f"{HEIGHT - 2 - (HEIGHT - 4) * height / highest:.1f}"
        for at, height in known
    )
