"""Renders batch scripts from the scheduler's template, with blocks that the site overrides.

Each value that a template prints is one shell word: `finalize` quotes everything except Markup. The filters
`q`, `directive` and `expanded`, macros and `super()` return Markup.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jinja2 import (
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PrefixLoader,
    StrictUndefined,
    TemplateError,
    TemplateSyntaxError,
)
from markupsafe import Markup

from argosy.schedulers.batch_system import BatchSystem
from argosy.shipped.files import templates_folder
from argosy.site.values import FOLDER
from argosy_common.errors import ArgosyError
from argosy_common.files import umask
from argosy_common.host_paths import shell_word, variables
from argosy_images import Store

BASE = "base.sbatch.j2"
"""The common part of all schedulers' scripts."""

VARIABLE = re.compile(r"\$([A-Z_][A-Z0-9_]*)")
"""A shell variable in a folder of a site's file."""


LENIENT = """set +euo pipefail
trap '
    code=$?
    if [ "${{#BASH_SOURCE[@]}}" = 1 ]; then
        echo "argosy: environment of the site: \\"$BASH_COMMAND\\" ended with exit code $code" >&2
    fi
' ERR
{lines}
trap - ERR
{strict}
"""


class ScriptTemplate:
    """The scheduler's template `name`, with blocks overridden by the site's file of the same name.

    Raises:
        ArgosyError: with the template's name, if it is not valid Jinja.
    """

    def __init__(self, system: BatchSystem, site_dir: Path, name: str) -> None:
        *_, self._path = template_files(system, site_dir, name)
        own = self._path.parent == site_dir
        with _said_of(self._path):
            environment = _environment(system, site_dir)
            self._template = environment.get_template(f"{site_dir.name}/{name}" if own else name)
        self._has_own_launch = own and "launch" in self._template.blocks

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the text of the script.

        Raises:
            ArgosyError: with the template's name, if it uses an unknown value.
        """
        run = values.get("run")
        if self._has_own_launch and run is not None and run.least_nodes:
            raise ArgosyError(
                f"{self._path}: its launcher starts all nodes of a job, so a run cannot go on with fewer",
                f"write experiments.{run.experiment}.scale.nodes: {run.nodes}",
            )
        if self._has_own_launch and run is not None and run.mpi:
            raise ArgosyError(
                f"{self._path}: its launcher starts no tasks of MPI, which {run.launcher} needs",
                f"choose another experiments.{run.experiment}.launcher, such as `mpi`",
            )
        with _said_of(self._path):
            return self._template.render(values)


def template_files(system: BatchSystem, site_dir: Path, name: str) -> list[Path]:
    """Return the files of a site's template, the overriding one last."""
    shared, own = templates_folder(site_dir.parent), site_dir / name
    of_scheduler = next(
        (path for folder in _folders(system, site_dir) if (path := folder / name).is_file()),
        shared / name,
    )
    return [shared / BASE, of_scheduler, *([own] if own.is_file() else [])]


def _folders(system: BatchSystem, site_dir: Path) -> list[Path]:
    """Return the folders of templates, in the order of search."""
    return [*([system.TEMPLATES] if system.TEMPLATES else []), templates_folder(site_dir.parent)]


def _environment(system: BatchSystem, site_dir: Path) -> Environment:
    templates = FileSystemLoader(_folders(system, site_dir))
    environment = Environment(
        loader=ChoiceLoader([templates, PrefixLoader({site_dir.name: FileSystemLoader(site_dir)})]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Makes macros and `super()` return Markup. `finalize` runs first, so nothing is escaped as HTML.
        autoescape=True,
        finalize=_one_word,
    )
    environment.globals["log_words"] = system.LOG_WORDS
    environment.globals["trusted"] = os.environ.get(Store.TRUSTED_VARIABLE, "")
    environment.globals["umask"] = f"{umask():03o}"
    environment.filters["directive"] = lambda name, value: _directive(system, name, value)
    environment.filters["q"] = _quoted
    environment.filters["expanded"] = _expanded
    environment.filters["host_word"] = lambda path: Markup(shell_word(path))
    environment.filters["host_variables"] = variables
    environment.filters["lenient"] = lenient
    environment.filters["variables"] = lambda text: sorted(set(VARIABLE.findall(text)))
    return environment


def _one_word(value: object) -> Markup:
    """Return a printed value as one word; raises ArgosyError for unprintable characters."""
    if isinstance(value, Markup):
        return value
    text = str(value)
    if not text.isprintable():
        raise ArgosyError(f"{text!r}: cannot be a value in a batch script", "write it on one line")
    return _quoted(text)


def _quoted(value: object) -> Markup:
    return Markup(shlex.quote(str(value)))


def _directive(system: BatchSystem, name: str, value: str | None) -> Markup:
    line = system.directive(name, value)
    if not line.isprintable():
        raise ArgosyError(f"{line!r}: is not an option of a batch script", "write it on one line")
    return Markup(line)


def _expanded(folder: str) -> Markup:
    """Return a folder to write in double quotes, where the shell expands its variables."""
    if not FOLDER.fullmatch(folder):
        raise ArgosyError(
            f"{folder}: is not an absolute path",
            "write an absolute path, which may contain variables",
        )
    return Markup(folder)


def lenient(lines: str, strict: str) -> str:
    """Wrap a site's shell lines so that unset variables and failures do not end the script.

    Sourced files such as conda's fail in strict shells. The script reports failing commands of the lines,
    but not failures inside a sourced file or a function.

    Args:
        strict: the command that makes the shell strict again.
    """
    return LENIENT.format(lines=lines.strip("\n"), strict=strict) if lines.strip() else ""


@contextmanager
def _said_of(path: Path) -> Iterator[None]:
    try:
        yield
    except TemplateSyntaxError as problem:
        raise ArgosyError(f"{problem.filename}:{problem.lineno}: {problem.message}") from None
    except TemplateError as problem:
        raise ArgosyError(f"{path}: {problem.message}") from None
