"""Commands for sites: finding out what a cluster is, and whether its folder is right."""

from pathlib import Path
from typing import Annotated

import typer

sites = typer.Typer(no_args_is_help=True, help="Find out what a cluster is, and write it down.")


@sites.callback()
def of_sites() -> None:
    """Keep the commands' names, however few they are."""


@sites.command("list")
def list_sites() -> None:
    """List the sites of this project: their nodes, what is left to fill in, and where one asks."""
    from rich import box
    from rich.table import Table

    from argosy.cli.output import show
    from argosy.site.overview import overview

    table = Table(box=box.SIMPLE_HEAD)
    for title in ("site", "operator", "nodes", "to fill in", "written from", "tried", "contact"):
        table.add_column(title, overflow="fold")
    for each in overview(Path("slurm")):
        row = (each.name, each.operator, each.nodes, each.lacks, each.checked, each.tried or "no")
        table.add_row(*row, each.contact)
    show(table, piped_width=200)


@sites.command()
def here() -> None:
    """Print which folder of slurm/ is of the cluster that this machine belongs to."""
    from argosy.probe.here import find_here

    print(find_here(Path.cwd()))


def doctor(
    site: Annotated[str, typer.Argument(help="A folder of slurm/.")],
    job: Annotated[bool, typer.Option(help="Look at nodes from the inside by small jobs.")] = True,
    wait: Annotated[
        str, typer.Option(help="How long the jobs may take, queue and all, such as 90s or 2h.")
    ] = "90s",
    train: Annotated[
        bool,
        typer.Option(
            "--train", help="Also train on two nodes until the job is warned: two minutes more."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check a site: its folder, what its cluster takes, and its nodes from the inside.

    Each check has a verdict, what it was seen by, and what to do. The exit status is 1 where something is
    wrong.
    """
    from argosy.cli.output import say
    from argosy.doctor.examination import Examination
    from argosy.doctor.printing import print_findings
    from argosy.units import span

    wait_s = span("--wait", wait) if job else None
    findings = Examination(Path.cwd(), site, wait_s, say, trains=train).findings()
    raise typer.Exit(1 if print_findings(findings, as_json=json) else 0)


@sites.command()
def probe(
    name: Annotated[str, typer.Argument(help="Of the new folder below slurm/.")],
    account: Annotated[
        str | None, typer.Option(help="The project that pays, where you have several.")
    ] = None,
    job: Annotated[
        bool, typer.Option(help="Look at nodes from the inside by a job for each kind of them.")
    ] = True,
    wait: Annotated[
        str, typer.Option(help="How long the jobs may take, queue and all, such as 90s or 2h.")
    ] = "90s",
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Write nothing; say where slurm/NAME differs from the cluster today."
        ),
    ] = False,
) -> None:
    """Ask the cluster of this login node what it is, and write slurm/NAME/.

    Asked for are nodes, partitions, accounts and limits. A job of two minutes for each kind of nodes finds
    what can only be seen from the inside. With --again the exit status is 1 where something differs.
    """
    from argosy.probe.probing import Probe
    from argosy.units import span

    found = Probe(Path.cwd(), name, account, span("--wait", wait) if job else None)
    if again:
        differences = found.drift()
        for each in differences:
            print(each)
        raise typer.Exit(1 if differences else 0)
    for line in found.write():
        print(line)
