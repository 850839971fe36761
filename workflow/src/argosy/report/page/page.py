"""The report's page: all that the summary says."""

import os
from pathlib import Path
from urllib.parse import quote

from argosy.analysis.laws import CONTRADICTED
from argosy.report.charts.figures import drawings
from argosy.report.numbers import of_metric
from argosy.report.page.html import rendered
from argosy.report.page.overview import overview
from argosy.report.prose import findings as words
from argosy.report.prose import predictions as prediction_words
from argosy.report.prose import repeated_slowness, sizes
from argosy.report.prose import setups as setup_words
from argosy.report.prose import stalls as stall_words
from argosy.report.prose import timelines as timeline_words
from argosy.report.prose.experiments import sentences, warnings
from argosy.report.prose.methods import methods
from argosy.report.summary.laws import NAMES, parameter_texts
from argosy.report.summary.models import Summary

_LISTED = 5
"""As many experiments have their sentences in the summary; of more it has one table."""


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
        sentences=sentences,
        warnings=warnings,
        counted=sizes.counted,
        is_long=len(summary.experiments) > _LISTED,
        overview=overview,
        drawings=drawings,
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
        timeline_names=timeline_words.part_names,
        timeline_refusals=timeline_words.refusals,
        prediction_sentences=prediction_words.sentences,
    )


def _link(to_results: str, path: str) -> str:
    """To a file of the results; nowhere for what leads out of them, as a table from elsewhere may say."""
    parts = Path(path)
    return "#" if parts.is_absolute() or ".." in parts.parts else quote(f"{to_results}/{path}")
