"""The report's page: all that the summary says."""

import os
from pathlib import Path
from urllib.parse import quote

from argosy.report.charts.figures import first_pictures, further_pictures
from argosy.report.charts.overview_chart import overview_drawing
from argosy.report.charts.sparkline import sparkline
from argosy.report.numbers import of_metric
from argosy.report.page.html import rendered
from argosy.report.prose import findings as words
from argosy.report.prose import headings, history, repeated_slowness, size_names, sizes
from argosy.report.prose import predictions as prediction_words
from argosy.report.prose import setups as setup_words
from argosy.report.prose import stalls as stall_words
from argosy.report.prose import timelines as timeline_words
from argosy.report.prose.answer import advice, advised, answer
from argosy.report.prose.experiments import sentences, to_know
from argosy.report.prose.methods import methods
from argosy.report.summary.laws import NAMES, parameter_texts
from argosy.report.summary.models import Summary
from argosy.report.topics.laws import CONTRADICTED

_LOST_ALL = 0.6
"""The loss of a factor that has the deepest shade."""
_DEEPEST = 40
"""Per cent of colour, on which text can still be read."""


def page(summary: Summary, results_dir: Path, out_dir: Path) -> str:
    """Return the report as HTML that asks nothing of the network.

    Links to log files lead from `out_dir`, where the page will lie, to `results_dir`.
    """
    to_results = Path(os.path.relpath(results_dir, out_dir)).as_posix()
    return rendered(
        "report.html.j2",
        summary=summary,
        link=lambda path: _link(to_results, path),
        states=words.states,
        facts=headings.facts,
        footer=headings.footer,
        answer=answer,
        advice=advice,
        advised=advised,
        to_know=to_know,
        sentences=sentences,
        counted=sizes.counted,
        size=size_names.size,
        sparkline=sparkline,
        overview_drawing=overview_drawing,
        first_pictures=first_pictures,
        further_pictures=further_pictures,
        worst_factor=words.worst_factor,
        heat=_heat,
        phase_names=words.phase_names,
        factor_names=words.factor_names,
        measured_sizes=words.measured_sizes,
        remarks=words.remarks,
        slow_host_sentences=repeated_slowness.host_sentences,
        mixtures=setup_words.mixtures,
        methods=methods,
        law_names=NAMES,
        parameter_texts=parameter_texts,
        contradicted=CONTRADICTED,
        stall_names=stall_words.part_names,
        metric_names=words.metric_names,
        of_metric=of_metric,
        stall_refusals=stall_words.refusals,
        history_sentences=history.sentences,
        shown=setup_words.shown,
        timeline_names=timeline_words.part_names,
        timeline_refusals=timeline_words.refusals,
        prediction_sentences=prediction_words.sentences,
    )


def _heat(factor: float) -> int:
    """Return how deep the cell of a factor is shaded, in per cent of its colour."""
    return round(_DEEPEST * min(max(1 - factor, 0.0) / _LOST_ALL, 1.0))


def _link(to_results: str, path: str) -> str:
    """To a file of the results; nowhere for what leads out of them, as a table from elsewhere may say."""
    parts = Path(path)
    return "#" if parts.is_absolute() or ".." in parts.parts else quote(f"{to_results}/{path}")
