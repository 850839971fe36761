"""The command that says how many nodes to use."""

from typing import Annotated

import typer

from argosy.cli.commands import CostsOption
from argosy.cli.output import say, show
from argosy.errors import ArgosyError


def predict(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[SITE] EXPERIMENT",
            help="Experiment to predict, after its site if there are several.",
        ),
    ],
    *,
    collectives: Annotated[
        str | None,
        typer.Option(help="Experiment of the allreduce benchmark, if there are several."),
    ] = None,
    efficiency: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Minimum efficiency relative to one node.")
    ] = 0.8,
    node_hours: Annotated[
        float | None, typer.Option(min=0.0, help="Budget for the whole training.")
    ] = None,
    samples: Annotated[
        float,
        typer.Option(min=1.0, max=1e18, help="Samples of the whole training, over all epochs."),
    ] = 1e6,
    nodes: Annotated[
        str | None,
        typer.Option(metavar="N,N", help="Rows of the table (default: powers of two)."),
    ] = None,
    costs: CostsOption = None,
) -> None:
    """Predict a training on more nodes than were measured, and say how many to use."""
    from argosy.cli.site_names import results_of
    from argosy.report import Rates
    from argosy.report.outputs.terminal import prediction_table as table
    from argosy.report.topics.prediction.answers import Question
    from argosy.report.topics.prediction.predicted import predicted
    from argosy.report.topics.prediction.says import sentences
    from argosy.results import collect
    from argosy.site.costs import read_costs

    if len(words) > 2:
        raise ArgosyError("argosy predict: give SITE and EXPERIMENT", "see: argosy predict --help")
    experiment = words[-1]
    question = Question(_numbers(nodes) if nodes else (), samples, efficiency, node_hours)
    rates = Rates(**read_costs(costs).model_dump()) if costs else Rates()
    folder = results_of(words[0] if len(words) == 2 else None)
    collect(folder, folder / "tables", say=say)
    found = predicted(folder / "tables", experiment, question, rates, collectives)
    show(table(experiment, found, rates.currency), *sentences(found))


def plan(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Name the command that has taken its place."""
    raise ArgosyError("argosy plan: it is `argosy predict` now, with the same options")


def _numbers(text: str) -> tuple[int, ...]:
    numbers = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 8 and int(part) > 0 for part in numbers):
        raise ArgosyError(
            f"--nodes {text}: give numbers of nodes below ten million with commas between, such as 1,2,4"
        )
    return tuple(map(int, numbers))
