"""The command that says how many nodes to take."""

from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.output import say, show
from argosy.errors import ArgosyError

predictions = typer.Typer()


@predictions.command()
def predict(
    folder: Annotated[Path, typer.Argument(metavar="RESULTS", help="results/<site>")],
    experiment: Annotated[str, typer.Argument(help="The training that is to be predicted.")],
    *,
    collectives: Annotated[
        str | None, typer.Option(help="The experiment that measured allreduces, if several did.")
    ] = None,
    efficiency: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="The least that is wanted, against one node.")
    ] = 0.8,
    node_hours: Annotated[
        float | None, typer.Option(min=0.0, help="A budget for the whole training.")
    ] = None,
    samples: Annotated[
        float, typer.Option(min=1.0, help="Of the whole training, all epochs together.")
    ] = 1e6,
    nodes: Annotated[
        str | None, typer.Option(help="Rows of the table: 1,2,4 (powers of two up to 4096).")
    ] = None,
    costs: Annotated[
        Path | None, typer.Option(help="Prices and carbon, such as slurm/<site>/costs.yaml.")
    ] = None,
) -> None:
    """Predict a training on more nodes than were measured, and say how many to take."""
    from argosy.report import Rates
    from argosy.report.prediction_table import table
    from argosy.report.prose.predictions import sentences
    from argosy.report.summary.predicting import predicted
    from argosy.report.summary.prediction import POWERS, Question
    from argosy.results import collect
    from argosy.site.costs import read_costs

    question = Question(_numbers(nodes) if nodes else POWERS, samples, efficiency, node_hours)
    rates = Rates(**read_costs(costs).model_dump()) if costs else Rates()
    collect(folder, folder / "tables", say=say)
    found = predicted(folder / "tables", experiment, question, rates, collectives)
    show(table(experiment, found, rates.currency), *sentences(found))


@predictions.command("plan", hidden=True, context_settings={"ignore_unknown_options": True})
def plan(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Name the command that has taken its place."""
    raise ArgosyError("argosy plan: it is `argosy predict` now, with the same options")


def _numbers(text: str) -> tuple[int, ...]:
    numbers = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in numbers):
        raise ArgosyError(
            f"--nodes {text}: give numbers of nodes with commas between, such as 1,2,4"
        )
    return tuple(map(int, numbers))
