"""Converts a user's batch script into an experiment and a site: `argosy init --from job.sbatch`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.schedulers.slurm.user_script.container import Container
from argosy.schedulers.slurm.user_script.environment import Environment, sets_up
from argosy.schedulers.slurm.user_script.experiment import Experiment
from argosy.schedulers.slurm.user_script.job import Job
from argosy.schedulers.slurm.user_script.launch import read_launch
from argosy.schedulers.slurm.user_script.lines import Note, Statement
from argosy.schedulers.slurm.user_script.site import SiteFiles
from argosy.shipped.new_project import first_experiment
from argosy.shipped.program import Program
from argosy.site.values import KEY
from argosy_common.errors import ArgosyError


@dataclass(frozen=True)
class Converted:
    """A project's files, converted from a batch script, and the result for each of its lines."""

    name: str
    experiment: Mapping[str, Any]
    site_files: Mapping[str, str]
    taken: list[Note]
    left: list[Note]


def convert(
    path: Path, project: Path, site: str, image: str | None, secret: re.Pattern[str]
) -> Converted:
    """Convert a batch script, which is never run.

    Args:
        path: path of the script.
        project: folder of the new project.
        site: name of the site to write.
        image: image named by the user.
        secret: matches names of variables whose values are secret.

    Raises:
        ArgosyError: if the script cannot be read, or no line starts a program.
    """
    if not KEY.fullmatch(site) or site in ("local", "templates"):
        hint = "write letters, digits, '.', '_' or '-'"
        raise ArgosyError(f"--site {site}: cannot be the name of a cluster", hint)
    job = Job.read(path, project)
    script = job.script
    has_setup = any(sets_up(each, script) for each in script.statements)
    is_native = has_setup and not image and not job.has_container
    environment = Environment(script, project, secret, is_native)
    program, experiment = _read_statements(job, environment, image)
    files = SiteFiles(site, job, environment).files(path.name)
    notes = (sorted(found, key=_number) for found in (script.taken, script.left))
    return Converted(program.name, experiment, files, *notes)


def convert_launch(
    command: str, project: Path, image: str | None, secret: re.Pattern[str]
) -> Converted | None:
    """Convert a command with a launcher or with variables, such as `A=1 torchrun …`; None for others.

    Args:
        command: the command as typed.
        project: folder of the program.
        image: image to run it in; None: the command's image, or Argosy's.
        secret: matches names of variables whose values are secret.
    """
    job = Job.of_text(command, project)
    if not job or not (job.launch.starters or job.launch.environment):
        return None
    environment = Environment(job.script, project, secret, is_native=False)
    program, keys = _read_statements(job, environment, image)
    resources = {**first_experiment(program, None)["resources"], **keys["resources"]}
    experiment = {**keys, "resources": resources}
    return Converted(program.name, experiment, {}, job.script.taken, job.script.left)


def _read_statements(
    job: Job, environment: Environment, image: str | None
) -> tuple[Program, dict[str, Any]]:
    """Read all commands in order; return the program, and the keys of its experiment."""
    container, program = Container(job, environment), None
    for each in job.script.statements:
        if each is job.statement:
            for name, value in job.launch.environment.items():
                environment.set_variable(each.line, name, value)
            container.read_mounts()
            words = container.words()
            program = Program(environment.folder, words, environment.base)
            for before in job.launch.before:
                environment.read(Statement(each.line, tuple(before)))
        elif launch := read_launch(each.words, job.script.split):
            said = "" if launch.starters else "prepares something, or "
            said += "is an experiment of its own: add it by argosy run -- COMMAND"
            job.script.leave(each.line, " ".join(each.words), said)
        else:
            environment.read(each)
    assert program is not None
    return program, Experiment(job, environment, container, program).keys(image)


def _number(note: Note) -> int:
    return int(note.line.partition("-")[0])
