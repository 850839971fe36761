"""Badge of an experiment as SVG, for README pages."""

from xml.sax.saxutils import escape

from argosy.report import sizes
from argosy.report.colours import FAIR, GOOD, POOR, UNKNOWN
from argosy.report.numbers import number, percent
from argosy.report.summary.models import ExperimentSummary, Summary
from argosy.report.topics.answer import point_of
from argosy.report.topics.history.says import is_slower
from argosy_common.errors import ArgosyError, choices

_GOOD_EFFICIENCY, _FAIR_EFFICIENCY = 0.8, 0.6
_LETTER, _MARGIN = 6.6, 6
"""Widths in px, for a text of 11 px."""
_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{text}">
<title>{text}</title>
<rect width="{left}" height="20" fill="#444"/><rect x="{left}" width="{right}" height="20" fill="{colour}"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{left_middle}" y="14" textLength="{left_text}">{label}</text>
<text x="{right_middle}" y="14" textLength="{right_text}">{said}</text>
</g></svg>
"""


def badge_of(summary: Summary, name: str | None = None) -> str:
    """Return the badge of an experiment as SVG; `name` may be None if there is only one.

    Raises:
        ArgosyError: No experiment matches, or a name is required.
    """
    names = [each.experiment for each in summary.experiments]
    if name is None and len(names) != 1:
        raise ArgosyError("--experiment: the report has several experiments", choices(names))
    found = next((each for each in summary.experiments if name in (None, each.experiment)), None)
    if found is None:
        raise ArgosyError(
            f"--experiment {name}: there is no such experiment", choices(names, name or "")
        )
    said, colour = _words_and_colour(found)
    return _drawn(" · ".join([found.experiment, *summary.sites]), said, colour)


def _words_and_colour(experiment: ExperimentSummary) -> tuple[str, str]:
    """Return a significant slowdown if there is one, else the efficiency of the size for time."""
    changes = experiment.history.changes if experiment.history else []
    if slower := [one for one in changes if is_slower(one)]:
        worst = min(slower, key=lambda one: one.ratio.mean)
        return f"{sizes.size(experiment, worst)}: {percent(1 - worst.ratio.mean)} slower", POOR
    measured = [one for one in experiment.points if one.throughput_samples_per_s]
    if not measured:
        return "not measured", UNKNOWN
    point = point_of(experiment, experiment.advice.for_time) if experiment.advice else measured[0]
    size = sizes.size(experiment, point)
    if point is measured[0] or not point.efficiency:
        assert point.throughput_samples_per_s
        rate = number(point.throughput_samples_per_s.mean)
        return f"{size}: {rate} {experiment.unit}/s", UNKNOWN
    mean = point.efficiency.mean
    colour = GOOD if mean >= _GOOD_EFFICIENCY else FAIR if mean >= _FAIR_EFFICIENCY else POOR
    is_known = point.efficiency.low is not None
    return f"{size}: {percent(mean)} efficiency", colour if is_known else UNKNOWN


def _drawn(label: str, said: str, colour: str) -> str:
    left_text, right_text = (round(_LETTER * len(text)) for text in (label, said))
    left, right = left_text + 2 * _MARGIN, right_text + 2 * _MARGIN
    quoted = {'"': "&quot;"}
    return _SVG.format(
        width=left + right,
        text=escape(f"{label}: {said}", quoted),
        left=left,
        right=right,
        left_middle=left / 2,
        right_middle=left + right / 2,
        left_text=left_text,
        right_text=right_text,
        label=escape(label),
        said=escape(said),
        colour=colour,
    )
