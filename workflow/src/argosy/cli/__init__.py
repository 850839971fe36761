"""The command line: thin commands that call the packages, and errors in one line.

Each command imports its packages itself, so that it does not wait for libraries of other commands.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from argosy import __version__
from argosy.cli import first_run, images, results, runs, sites
from argosy.cli.commands import (
    CLUSTERS,
    IMAGES,
    PLUMBING,
    SET_UP,
    SHARE,
    STUDY,
    Commands,
    ImageOption,
)
from argosy.cli.guard import run_and_leave
from argosy.cli.output import say
from argosy_common.errors import ArgosyError

app = Commands(
    help="One experiment, many clusters: images without root, batch scripts, runs, reports.",
    completes=True,
)


def init(
    command: Annotated[
        str | None,
        typer.Option(help="The command of the training, such as 'python train.py --lr 1e-3'."),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="SCRIPT", help="Your batch script, which is read and never run."
        ),
    ] = None,
    image: ImageOption = None,
    site: Annotated[
        str | None,
        typer.Option(
            help="Name of the cluster's folder in slurm/. With --command, Argosy probes this login node's "
            "cluster for it. With --from the default is mycluster."
        ),
    ] = None,
    account: Annotated[
        str | None, typer.Option(help="Account for the probe of --site, if you have several.")
    ] = None,
) -> None:
    """Turn the current folder into a project: add the files that Snakemake needs, and overwrite none.

    --from converts your batch script to an experiment and a cluster, and lists the result of each line.
    """
    from argosy.cli.projects import init_by_command, init_by_script

    if account and (script or site is None):
        raise ArgosyError("--account: only a probe uses it", "add --command and --site NAME")
    if script and command is None:
        init_by_script(script, site or "mycluster", image)
    elif command is not None and not script:
        init_by_command(command, image, site, account)
    else:
        raise ArgosyError(
            "argosy init: give --command or --from, and not both",
            "argosy init --command 'python train.py', or: argosy init --from job.sbatch",
        )


def setup() -> None:
    """Make the container tools available in this project."""
    from argosy_images import Store, Tools

    store = Store.of_project(Path.cwd())
    # A bundle may contain the tools (docs/carrying.md).
    bundled = Path("container-tools.tar.gz").absolute()
    Tools(store).ensure_udocker(say, bundled if bundled.is_file() else None)
    Tools(store).fetch_proot(say)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"argosy {__version__}")
        raise typer.Exit


@app.callback()
def of_all(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version."),
    ] = False,
) -> None:
    """Accept the options without a command."""


for section, functions in {
    STUDY: (
        *(first_run.run, runs.status, runs.logs, runs.records, runs.why),
        *(
            results.report,
            results.summary,
            results.figures,
            results.badge,
            results.compare,
            results.predict,
        ),
    ),
    CLUSTERS: (sites.doctor,),
    SHARE: (results.bundle, results.unbundle),
    SET_UP: (init, setup),
    PLUMBING: (runs.plan_runs, runs.preflight, results.tables, runs.failures),
}.items():
    for function in functions:
        app.add(function, section, "render" if function is runs.plan_runs else None)
app.add_typer(images.images, name="image", rich_help_panel=IMAGES)
app.add_typer(sites.sites, name="site", rich_help_panel=CLUSTERS)
app.command(hidden=True)(runs.start)


def main() -> None:
    # Starting a thread for each core would take longer than these few computations.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    run_and_leave(lambda: app(standalone_mode=False, prog_name="argosy"))
