"""Renders batch scripts: the base template of that name, with the blocks that the site overrides."""

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

from argosy.errors import ArgosyError
from argosy.jobs.schedulers.slurm.script_options import directive

VARIABLE = re.compile(r"\$([A-Z_][A-Z0-9_]*)")
"""Of the shell, in a folder of a site's file."""


class ScriptTemplate:
    """The base template of a name, with the blocks that the site's own file of that name overrides.

    Raises:
        ArgosyError: naming the template, when it is not Jinja.
    """

    def __init__(self, slurm_dir: Path, site: str, name: str) -> None:
        own = slurm_dir / site / name
        self._path = own if own.is_file() else slurm_dir / "templates" / name
        with _said_of(self._path):
            environment = _environment(slurm_dir, site)
            self._template = environment.get_template(f"{site}/{name}" if own.is_file() else name)

    def render(self, values: Mapping[str, Any]) -> str:
        """The text of the script.

        Raises:
            ArgosyError: naming the template, when it uses a value that there is not.
        """
        with _said_of(self._path):
            return self._template.render(values)


def _environment(slurm_dir: Path, site: str) -> Environment:
    templates = FileSystemLoader(slurm_dir / "templates")
    environment = Environment(
        loader=ChoiceLoader([templates, PrefixLoader({site: FileSystemLoader(slurm_dir / site)})]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # These are shell scripts: every value is quoted by the filter `q` instead.
        autoescape=False,
    )
    environment.filters["directive"] = directive
    environment.filters["q"] = lambda value: shlex.quote(str(value))
    environment.filters["variables"] = lambda text: sorted(set(VARIABLE.findall(text)))
    return environment


@contextmanager
def _said_of(path: Path) -> Iterator[None]:
    try:
        yield
    except TemplateSyntaxError as problem:
        raise ArgosyError(f"{problem.filename}:{problem.lineno}: {problem.message}") from None
    except TemplateError as problem:
        raise ArgosyError(f"{path}: {problem.message}") from None
