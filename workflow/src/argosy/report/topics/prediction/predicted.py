"""How many nodes to take: the answers to a question, from the tables."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from argosy.report.runs.measurements import measurements
from argosy.report.runs.setups import NamedSetup
from argosy.report.runs.study_tables import open_study
from argosy.report.summary.parts import NOT_KNOWN, PredictionSummary, Rates
from argosy.report.topics.laws import Refused
from argosy.report.topics.phases import step_times
from argosy.report.topics.prediction.answers import Question, prediction_summary
from argosy.report.topics.prediction.extrapolation import extrapolation, extrapolation_summary
from argosy.report.topics.prediction.inputs import Measured, everything, forecast
from argosy.report.topics.usage import usage
from argosy.results import ResultsError


def predicted(
    tables_dir: Path,
    experiment: str,
    question: Question,
    rates: Rates = NOT_KNOWN,
    collectives: str | None = None,
) -> PredictionSummary:
    """Return the answers for one experiment, by the network of the experiment `collectives`.

    Raises ResultsError where there is no answer, with what to do, and for what cannot be read.
    """
    with open_study(tables_dir) as tables:
        for asked in filter(None, (experiment, collectives)):
            _check_setup(asked, tables.setups)
        if experiment not in tables.setups:
            there = f"there are: {', '.join(tables.setups)}" if tables.setups else "there is none"
            raise ResultsError(f"{experiment}: no such experiment in {tables_dir}", there)
        found = everything(tables, measurements(tables), step_times(tables), usage(tables))
    answers = prediction_of(found, experiment, question, rates, collectives)
    if isinstance(answers, Refused):
        raise ResultsError(f"{experiment}: {answers.reason}")
    return answers


def _check_setup(experiment: str, setups: Mapping[str, NamedSetup]) -> None:
    several = [name for name, named in setups.items() if named.experiment == experiment]
    if several and experiment not in setups:
        raise ResultsError(
            f"{experiment}: its runs are not all of one setup (the report says what differs)",
            f"name one of them, in quotation marks: {', '.join(several)}",
        )


def prediction_of(
    found: Measured,
    experiment: str,
    question: Question | None = None,
    rates: Rates = NOT_KNOWN,
    collectives: str | None = None,
) -> PredictionSummary | Refused:
    """Return the answers for one experiment, or why there are none.

    They are by the network where it was measured, else by throughputs alone.
    """
    asked = question or Question()
    known = forecast(found, experiment, collectives)
    answers = known if isinstance(known, Refused) else prediction_summary(known, asked, rates)
    if not isinstance(answers, Refused) or collectives or experiment in found.allreduces:
        return answers
    by_law = extrapolation([run for run in found.runs if run.experiment == experiment])
    if isinstance(by_law, Refused):
        return Refused(f"{answers.reason} {by_law.reason}")
    summary = extrapolation_summary(by_law, asked, rates)
    return replace(
        summary, notes=[*summary.notes, f"No prediction by the network: {answers.reason}"]
    )
