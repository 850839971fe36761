"""Commands for runs: internal ones of the workflow, and views of running studies."""

from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.commands import JsonOption, SiteArgument
from argosy_common.errors import ArgosyError

RUN_HELP = "EXPERIMENT/RUN, its folder, or any unique part of it."


def plan_runs(
    site: Annotated[str, typer.Argument(help="A folder of slurm/.")],
    study: Annotated[Path, typer.Option(help="Study file of the workflow.")],
    runs: Annotated[Path, typer.Option(help="Output: the folders of all runs.")],
    output: Annotated[Path, typer.Option(help="Output, written last: the planned study.")],
) -> None:
    """Write run.json, provenance.json and job.sbatch of all runs."""
    from argosy.jobs import planning
    from argosy.jobs.study_file import read_study
    from argosy_common.files import write_text

    project = planning.Project(Path.cwd())
    text, plans = read_study(study, site, project)
    output.unlink(missing_ok=True)
    folders = [
        script.parent.relative_to(Path.cwd()) for script in planning.write_runs(project, plans)
    ]
    write_text(runs, "".join(f"{folder}\n" for folder in folders))
    write_text(output, text)


def start(script: Path) -> None:
    """Refuse to start a run that only Snakemake's executor `argosy` may start."""
    from argosy.jobs.driver import OTHER_EXECUTOR

    raise ArgosyError(f"{script}: {OTHER_EXECUTOR}")


def preflight(
    site: SiteArgument = None,
    *,
    runs: Annotated[
        Path, typer.Option(metavar="FILE", help="File of planned run folders, one a line.")
    ],
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="Output, written if all scripts are accepted.")
    ],
) -> None:
    """Ask the scheduler whether it accepts the runs' scripts, once for each job shape.

    Standard output lists reasons why jobs will wait.
    """
    from argosy.cli.site_names import site_called
    from argosy.jobs.image_uses import crowd
    from argosy.schedulers import find_batch_system
    from argosy.site.models import read_site
    from argosy_common.files import read_paths, write_text

    def tell(line: str) -> None:
        print(line, flush=True)

    name = site_called(site)
    facts = read_site(Path("slurm") / name)
    system = find_batch_system(facts.scheduler, f"slurm/{name}/site.yaml")
    folders = read_paths(runs)
    accepted = system.check_scripts((folder / "job.sbatch" for folder in folders), tell)
    if large := crowd(folders):
        tell(large)
    for each in accepted:
        name = "/".join(each.script.parts[-3:-1])
        if each.wait:
            tell(f"{name}: {system.NAME} accepts this job, but it will wait: {each.wait}")
        if each.given:
            tell(f"{name}: {each.given}")
    write_text(output, "".join(f"{each}\n" for each in accepted))


def status(
    site: SiteArgument = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh until all runs have ended.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show a study's runs: state, progress, throughput, and the reason for a wait or failure."""
    from argosy.cli.site_names import results_of
    from argosy.monitor import table
    from argosy.monitor.study import Study, described
    from argosy.terminal import make_console

    if json and watch:
        raise ArgosyError("argosy status: give --json or --watch, not both")
    study = Study(results_of(site))
    if json:
        from argosy.cli.output import show_json

        return show_json(described(study.look(table.PATIENCE_ONCE_S)))
    (table.watch if watch else table.show)(study, make_console())
    return None


def failures(site: SiteArgument = None) -> None:
    """Print failed runs with their causes, and the report's path; nothing if none failed."""
    from argosy.cli.site_names import results_of
    from argosy.monitor.failures import print_failures
    from argosy.monitor.sites import planned_runs

    folder = results_of(site)
    if not planned_runs(folder):
        raise ArgosyError(f"{folder}: no run is planned here", "run: snakemake")
    print_failures(folder)


def logs(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP)],
    rank: Annotated[
        int | None, typer.Option(metavar="N", help="Show what this rank printed.")
    ] = None,
    node: Annotated[
        int | None, typer.Option(metavar="N", help="Show the log of this node's container.")
    ] = None,
    job: Annotated[
        bool, typer.Option("--job", help="Show the job's own log, without the ranks' output.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue until the run has ended.")
    ] = False,
) -> None:
    """Print the log of a run's newest job, with the output of its ranks."""
    from argosy.cli.site_names import require_project
    from argosy.monitor.logs import show_log

    require_project()
    show_log(run, rank=rank, node=node, job=job, follow=follow)


def records(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP)],
    rank: Annotated[
        int | None, typer.Option(metavar="N", help="Show what this rank recorded.")
    ] = None,
) -> None:
    """Print the records of a run's newest job as JSON Lines, rank by rank."""
    from argosy.cli.site_names import require_project
    from argosy.monitor.records import show_records

    require_project()
    show_records(run, rank)


def why(run: Annotated[str, typer.Argument(help=RUN_HELP)]) -> None:
    """Print the inputs of a run's result, and why the run would be measured again."""
    from argosy.cli.site_names import require_project
    from argosy.jobs.planning import Project
    from argosy.monitor.sites import find_run
    from argosy.monitor.why import describe_dependencies

    require_project()
    workloads = Project(Path.cwd()).workloads_dir
    print("\n".join(describe_dependencies(find_run(run), workloads)))
