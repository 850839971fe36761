"""`argosy run`: runs a command once, and writes the project files that it needs."""

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.commands import ImageOption
from argosy.cli.output import say
from argosy_common.errors import ArgosyError, choices


def run(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND...", help="The program, such as: -- python train.py"),
    ],
    *,
    nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of nodes (default: as in the command's own launcher, or 1)."
        ),
    ] = None,
    ranks_per_node: Annotated[
        int | None,
        typer.Option(metavar="N", help="Ranks per node (default: as in the command, or 1)."),
    ] = None,
    site: Annotated[
        str | None, typer.Option(help="A folder of slurm/ (default: config.yaml's, or local).")
    ] = None,
    image: ImageOption = None,
    native: Annotated[bool, typer.Option("--native", help="Run it without a container.")] = False,
    throughput: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="Regular expression with one group: the printed samples per second.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the experiment (default: the program's).")
    ] = None,
) -> None:
    """Run a command once, print its result, and keep its experiment in config/config.yaml.

    A folder without a project becomes one, as with `argosy init`. The exit status is 0 if the run has
    completed and has a throughput.
    """
    from argosy.cli.projects import experiment_of
    from argosy.cli.results import summary
    from argosy.shipped.program import Program, is_there

    if native and image:
        raise ArgosyError("argosy run: give --image or --native, and not both")
    project = Path.cwd()
    is_one_text = len(command) == 1 and not is_there(project / command[0])
    text = command[0] if is_one_text else shlex.join(command)
    program = Program.of_text(project, text) if is_one_text else Program(project, command, project)
    its_name, experiment = experiment_of(program, text, image, native=native)
    own = experiment["scale"]
    experiment["scale"] = {
        "nodes": [max(own["nodes"]) if nodes is None else nodes],
        "ranks_per_node": own["ranks_per_node"] if ranks_per_node is None else ranks_per_node,
        "repeats": 1,
    }
    if throughput:
        experiment["throughput"] = throughput
    added, where = _prepare(project, name or its_name, experiment, site)
    status = _snakemake(where, added)
    if status == 0:
        summary(where)
        missing = _without_throughput(where, added)
        for line in missing:
            say(line)
        status = int(bool(missing))
    raise typer.Exit(status)


def _without_throughput(site: str, experiment: str) -> list[str]:
    """Return a line for each completed run without a throughput, with the reason."""
    from argosy.report.kept_reports import read_report
    from argosy.report.runs.measurements import ALLREDUCES_ALONE

    _, found = read_report(Path("results", site))
    return [
        f"{run.experiment}/{run.run_id}: completed, but has no throughput: {run.left_out}"
        for run in found.runs
        if run.experiment == experiment
        and run.state == "completed"
        and run.samples_per_s is None
        and run.left_out != ALLREDUCES_ALONE
    ]


def _prepare(
    project: Path, name: str, experiment: dict[str, object], site: str | None
) -> tuple[str, str]:
    """Write the missing files; return the names of the experiment and its site."""
    from argosy.shipped.new_experiment import add_experiment
    from argosy.shipped.new_project import CONFIG, config_text, write_project
    from argosy.site.models import LOCAL
    from argosy.site.overview import site_names
    from argosy.yaml_file import parse_yaml, read_yaml
    from argosy_common.files import write_text

    config = project / CONFIG
    is_new = not config.is_file()
    if is_new:
        text, added = config_text({name: experiment}, "argosy run"), name
    else:
        read_yaml(config)
        before = config.read_bytes().decode()
        added, text = add_experiment(before, Path(CONFIG), name, experiment)
    where = site or str(parse_yaml(text, CONFIG).get("site", LOCAL))
    known = sorted({LOCAL, *site_names(Path("slurm"))})
    if where not in known:
        made = f"argosy site probe {where} (on its login node), or argosy site add {where} (docs/sites.md)"
        raise ArgosyError(
            f"slurm/{where}/site.yaml: there is no such site",
            f"{choices(known, where)}; or run: {made}",
        )
    _check(project, text, where, added)
    if is_new or not (project / "Snakefile").exists():
        for written in write_project(project, {CONFIG: text} if is_new else {}):
            say(f"wrote {written}")
    if not is_new and text != before:
        if config.read_bytes().decode() != before:
            raise ArgosyError(f"{CONFIG}: it was changed in the meantime", "run the command again")
        write_text(config, text)
        say(f"added experiments.{added} to {CONFIG}")
    return added, where


def _check(project: Path, text: str, site: str, experiment: str) -> None:
    """Refuse an experiment with a missing program or image, before it is written."""
    from argosy.jobs.planning import runs_of
    from argosy.jobs.program_check import check_programs
    from argosy.shipped.files import image_folder, image_folders, workloads_folder
    from argosy.shipped.new_project import CONFIG
    from argosy.site.models import read_site
    from argosy.study.config import Source, parse_config
    from argosy.study.runs import expand
    from argosy.yaml_file import parse_yaml
    from argosy_images import image_inputs

    content = {**parse_yaml(text, CONFIG), "only": experiment}
    study = parse_config(content, [Source(CONFIG, content)])
    folder = project / "slurm" / site
    runs = runs_of(study, read_site(folder)) if folder.is_dir() else expand(study)
    check_programs(workloads_folder(project), runs)
    for built in study.built_images.values():
        built.inputs(project)
    made = {*study.taken_images, *study.built_images}
    for image in {run.image for run in runs if run.image} - made:
        image_inputs(image_folder(project, image), image_folders(project))


def _snakemake(site: str, experiment: str) -> int:
    """Run snakemake for an experiment; return its exit status."""
    profile = Path("slurm", site)
    command = [
        *(sys.executable, "-m", "snakemake", "--quiet", "host", "progress", "reason"),
        *(["--profile", str(profile)] if (profile / "config.yaml").is_file() else []),
        *("--config", f"site={json.dumps(site)}", f"only=[{json.dumps(experiment)}]"),
    ]
    # Snakemake also gets Ctrl-C and cancels its jobs; wait for it.
    signal.signal(signal.SIGINT, lambda *_: None)
    process = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    status = process.wait()
    return 128 - status if status < 0 else status
