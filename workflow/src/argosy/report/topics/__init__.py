"""The topics of an experiment, in the order of the report."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from argosy.report import sizes
from argosy.report.charts.bars import of_parts
from argosy.report.charts.drawing import Drawing, finished
from argosy.report.summary.models import ExperimentSummary, RunSummary, Summary
from argosy.report.topics import accuracy, container_cost, doubts, stalls, timelines
from argosy.report.topics import costs as cost_chart
from argosy.report.topics import doubts as long_steps
from argosy.report.topics import doubts as not_finite
from argosy.report.topics import doubts as of_runs
from argosy.report.topics import queue as queue_waits
from argosy.report.topics import slowness as repeated_slowness
from argosy.report.topics import slowness as slowdowns
from argosy.report.topics import stalls as stall_words
from argosy.report.topics import timelines as timeline_words
from argosy.report.topics.costs import much_between_steps
from argosy.report.topics.history import says as history
from argosy.report.topics.history import says as history_chart
from argosy.report.topics.phases import PHASES_CAPTION, phase_chart, phase_colours
from argosy.report.topics.prediction import says as prediction_chart
from argosy.report.topics.runs import left_out, runs_named
from argosy.report.topics.scaling import findings
from argosy.report.topics.scaling_chart import QUANTITIES, of_sizes, size_chart
from argosy.report.topics.slowness import slow_job_sentences
from argosy.report.topics.stalls import STALLS_CAPTION, stall_chart, stall_colours
from argosy.report.topics.timelines import TIMELINES_CAPTION, timeline_chart, timeline_colours
from argosy.report.topics.usage import unused_gpus


def cautions(experiment: ExperimentSummary) -> list[str]:
    """Return what to know before the numbers of an experiment are used."""
    return [
        *slow_job_sentences(experiment),
        *sizes.batches(experiment),
        *much_between_steps(experiment),
        *unused_gpus(experiment),
    ]


_ENDED_BADLY = ("failed", "interrupted", "cancelled", "unfinished")


def to_know(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return what to know before the numbers are used: failures first, then doubts on completed runs."""
    return [
        *_failures(summary, experiment),
        *left_out(summary, experiment),
        *_not_steady(summary, experiment),
        *slowdowns.sentences(summary, experiment),
        *history.slower(experiment),
        *cautions(experiment),
        *accuracy.findings(experiment),
        *repeated_slowness.rank_sentences(summary, experiment),
        *of_runs.sentences_of_runs(summary, experiment, not_finite.first_remark),
        *of_runs.sentences_of_runs(summary, experiment, doubts.remark),
        *of_runs.sentences_of_runs(summary, experiment, long_steps.remark_long_steps),
    ]


def sentences(experiment: ExperimentSummary) -> list[str]:
    """Return what was found: of its scaling, container and queue, and of what a step waits for."""
    apart = (stalls.finding(experiment), timelines.finding(experiment))
    return [
        *findings(experiment),
        *container_cost.findings(experiment),
        *queue_waits.findings(experiment),
        *filter(None, apart),
    ]


def _failures(summary: Summary, experiment: ExperimentSummary) -> Iterator[str]:
    """Yield a sentence for each size with runs that ended without a result: how many, and why."""
    causes_of = {(one.experiment, one.run_id): one.cause for one in summary.failures}
    for one in experiment.sizes:
        causes = [
            causes_of.get((run.experiment, run.run_id), run.state).rstrip(".")
            for run in _runs_of(summary, experiment)
            if (run.nodes, run.ranks_per_node) == (one.nodes, one.ranks_per_node)
            and run.state in _ENDED_BADLY
        ]
        if said := sizes.not_completed(experiment, one, causes):
            yield said


def _not_steady(summary: Summary, experiment: ExperimentSummary) -> Iterator[str]:
    """Yield a sentence for each reason for which runs count that were not seen to be steady."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for run in _runs_of(summary, experiment):
        if run.is_steady is False and run.samples_per_s is not None and run.slower_from is None:
            by_reason[run.warm_up or "not steady"].append(run.run_id)
    for reason, runs in by_reason.items():
        yield f"Counted, though not shown to be steady: {runs_named(runs)}: {reason}."


def _runs_of(summary: Summary, experiment: ExperimentSummary) -> list[RunSummary]:
    return [run for run in summary.runs if run.counts_to == experiment.experiment]


def first_pictures(experiment: ExperimentSummary) -> list[Drawing]:
    """Return the throughput, and where a step's time goes; without phases the efficiency."""
    found = {one.name: one for one in drawings(experiment)}
    names = ("throughput", "phases" if "phases" in found else "efficiency")
    return [found[name] for name in names if name in found]


def further_pictures(experiment: ExperimentSummary, currency: str | None) -> list[Drawing]:
    """Return all other drawings of an experiment; prices are in `currency`."""
    first = {one.name for one in first_pictures(experiment)}
    return [one for one in drawings(experiment, currency) if one.name not in first]


def drawings(experiment: ExperimentSummary, currency: str | None = None) -> Iterator[Drawing]:
    """Yield what is drawn of an experiment; prices are in `currency`."""
    measured = [point for point in experiment.points if point.throughput_samples_per_s]
    # Of one size, speed-up and efficiency are 1 by definition.
    quantities = QUANTITIES if len(measured) > 1 else QUANTITIES[: len(measured)]
    for quantity in quantities:
        drawn = size_chart(experiment, measured, quantity)
        text = of_sizes(experiment, measured, quantity, drawn)
        yield Drawing(
            quantity.name,
            "scaling",
            drawn.caption,
            text,
            finished(drawn.spec),
            drawn.series,
        )
    timed = [point for point in experiment.points if point.phases_s_per_step]
    if timed:
        chart = phase_chart(experiment, timed)
        text = of_parts(experiment, "in each phase", _told(chart, "at", "phase"))
        spec = finished(chart)
        colours = phase_colours(experiment)
        yield Drawing("phases", "phases", PHASES_CAPTION, text, spec, colours)
    if stall_words.part_names(experiment):
        chart = stall_chart(experiment)
        text = of_parts(experiment, "by what it waits for", _told(chart))
        spec = finished(chart)
        colours = stall_colours(experiment)
        yield Drawing("stalls", "stalls", STALLS_CAPTION, text, spec, colours)
    if timeline_words.part_names(experiment):
        chart = timeline_chart(experiment)
        text = of_parts(experiment, "in parts of Horovod's work", _told(chart))
        spec = finished(chart)
        colours = timeline_colours(experiment)
        yield Drawing("timeline", "timeline", TIMELINES_CAPTION, text, spec, colours)
    if prediction := experiment.prediction:
        spec = finished(prediction_chart.prediction_chart(prediction))
        text, caption = prediction_chart.text(prediction), prediction_chart.CAPTION
        colours = dict(prediction_chart.COLOURS)
        yield Drawing("prediction", "prediction", caption, text, spec, colours)
    if currency and len(cost_chart.priced(experiment)) > 1:
        spec = finished(cost_chart.cost_chart(experiment, currency))
        text = cost_chart.text(experiment, currency)
        yield Drawing("costs", "scaling", cost_chart.CAPTION, text, spec)
    history = experiment.history
    if history and len(history_chart.compared(history)) > 1:
        spec = finished(history_chart.history_chart(experiment, history))
        text, colours = (
            history_chart.text(experiment, history),
            history_chart.colours(experiment, history),
        )
        yield Drawing("history", "history", history_chart.CAPTION, text, spec, colours)


def _told(
    chart: dict[str, Any], size: str = "size", part: str = "part"
) -> Iterator[tuple[Any, ...]]:
    """Yield the bars of a chart: size, part and milliseconds of each."""
    for row in chart["data"]["values"]:
        yield row[size], row[part], row["milliseconds"]
