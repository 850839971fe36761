"""Commands for runs: what the workflow calls, and how to look at them while they run."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from argosy.errors import ArgosyError

runs = typer.Typer()


@runs.command("render")
def plan_runs(
    site: Annotated[str, typer.Argument(help="A folder of slurm/.")],
    study: Annotated[Path, typer.Option(help="The study, as the workflow hands it on.")],
    runs: Annotated[Path, typer.Option(help="Written: the folders of all runs.")],
    output: Annotated[Path, typer.Option(help="Written last: the study, now that it is planned.")],
) -> None:
    """Write run.json, provenance.json and job.sbatch of all runs (the workflow calls this)."""
    from argosy.files import write_text
    from argosy.jobs import planning
    from argosy.jobs.study_file import read_study

    project = planning.Project(Path.cwd())
    text, where, planned = read_study(study, site)
    locks = project.locks({run.image for run in planned if run.image})
    plans = planning.plan_runs(project, where, planned, locks)
    output.unlink(missing_ok=True)
    folders = [
        script.parent.relative_to(Path.cwd()) for script in planning.write_runs(project, plans)
    ]
    write_text(runs, "".join(f"{folder}\n" for folder in folders))
    write_text(output, text)


@runs.command(hidden=True)
def start(script: Path) -> None:
    """Refuse what only Snakemake's executor `argosy` may start; any other one would run it right here."""
    from argosy.jobs.driver import OTHER_EXECUTOR

    raise ArgosyError(f"{script}: {OTHER_EXECUTOR}")


@runs.command()
def preflight(
    site: Annotated[str, typer.Argument(help="A folder of slurm/.")],
    runs: Annotated[Path, typer.Option(help="The folders of planned runs, one on each line.")],
    output: Annotated[Path, typer.Option(help="Written when they would all be taken.")],
) -> None:
    """Ask the scheduler whether it would take the runs' scripts, each shape once (the workflow calls this).

    What jobs will have to wait for is on standard output, which the workflow shows.
    """
    from argosy.files import read_paths, write_text
    from argosy.jobs.image_crowds import crowd
    from argosy.schedulers import find_batch_system
    from argosy.site.models import read_site

    def tell(line: str) -> None:
        print(line, flush=True)

    facts = read_site(Path("slurm") / site)
    system = find_batch_system(facts.scheduler, f"slurm/{site}/site.yaml")
    folders = read_paths(runs)
    accepted = system.check_scripts((folder / "job.sbatch" for folder in folders), tell)
    if large := crowd(folders, facts.images.engine):
        tell(large)
    for each in accepted:
        if each.wait:
            tell(
                f"{'/'.join(each.script.parts[-3:-1])}: {system.NAME} takes it, and it will wait: "
                f"{each.wait}"
            )
    write_text(output, "".join(f"{each}\n" for each in accepted))


@runs.command()
def status(
    site: Annotated[
        str | None, typer.Argument(help="A folder of results/; needed where there are several.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh until all runs have ended.")
    ] = False,
) -> None:
    """Show the runs of a study: which wait and why, which run and how fast, which failed."""
    from argosy.monitor import sites, study
    from argosy.monitor import watch as view

    runs = study.Study(sites.site_folder(site))
    (view.watch if watch else view.show)(runs, view.make_console())


@runs.command()
def failures(
    site: Annotated[
        str | None, typer.Argument(help="A folder of results/; needed where there are several.")
    ] = None,
) -> None:
    """Say which runs failed and why, and where the report is; nothing where none failed."""
    from argosy.files import read_paths
    from argosy.monitor.failures import describe, failed_runs
    from argosy.monitor.sites import site_folder

    folder = site_folder(site)
    planned = folder / "runs.txt"
    if not planned.is_file():
        raise ArgosyError(f"{folder}: no run is planned here", "run: snakemake")
    if failed := failed_runs(folder, read_paths(planned)):
        print("\n".join(describe(failed, folder / "report.html")), file=sys.stderr)


@runs.command()
def logs(
    run: Annotated[str, typer.Argument(help="EXPERIMENT/RUN, or a part of it that only it has.")],
    rank: Annotated[int | None, typer.Option(help="What this rank printed.")] = None,
    node: Annotated[int | None, typer.Option(help="The log of this node's container.")] = None,
    job: Annotated[
        bool, typer.Option("--job", help="The job's own log, without what ranks print.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until the run has ended.")
    ] = False,
) -> None:
    """Print a log of a run's newest job; without an option, the job's with what its ranks print."""
    from argosy.monitor.logs import show_log

    show_log(run, rank=rank, node=node, job=job, follow=follow)


@runs.command()
def records(
    run: Annotated[str, typer.Argument(help="EXPERIMENT/RUN, or a part of it that only it has.")],
    rank: Annotated[int | None, typer.Option(help="What this rank recorded.")] = None,
) -> None:
    """Print what a run's newest job has recorded so far as JSON Lines, a rank after the other."""
    from argosy.monitor.records import show_records

    show_records(run, rank)
