"""How many nodes to take: the answers to a question, from the tables."""

from pathlib import Path

from argosy.analysis.forecast import Measured, everything, forecast
from argosy.analysis.laws import Refused
from argosy.analysis.measurements import measurements
from argosy.analysis.phases import step_times
from argosy.analysis.step_findings import step_findings
from argosy.analysis.usage import usage
from argosy.report.costs import NOT_KNOWN, Rates
from argosy.report.prediction import PredictionSummary, Question, prediction_summary
from argosy.results import ResultsError
from argosy.results.tables import fetch, open_tables

_NAMES = "SELECT DISTINCT experiment FROM runs ORDER BY experiment"


def plan(
    tables_dir: Path,
    experiment: str,
    question: Question,
    rates: Rates = NOT_KNOWN,
    collectives: str | None = None,
) -> PredictionSummary:
    """The answers for one experiment, by the network of the experiment `collectives`.

    Raises ResultsError where there is no answer, with what to do, and for what cannot be read.
    """
    with open_tables(tables_dir) as tables:
        names = [row["experiment"] for row in fetch(tables, _NAMES)]
        if experiment not in names:
            there = f"there is {', '.join(names)}" if names else "there is none"
            raise ResultsError(f"{experiment}: no such experiment in {tables_dir}; {there}")
        runs = measurements(tables, step_findings(tables, tables_dir).warm_ups)
        found = everything(tables, runs, step_times(tables), usage(tables))
    answers = planned(found, experiment, question, rates, collectives)
    if isinstance(answers, Refused):
        raise ResultsError(f"{experiment}: {answers.reason}")
    return answers


def planned(
    found: Measured,
    experiment: str,
    question: Question | None = None,
    rates: Rates = NOT_KNOWN,
    collectives: str | None = None,
) -> PredictionSummary | Refused:
    """The answers for one experiment, or why there are none."""
    known = forecast(found, experiment, collectives)
    if isinstance(known, Refused):
        return known
    return prediction_summary(known, question or Question(), rates)
