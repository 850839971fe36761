"""Renders batch scripts: the base template of that name, with the blocks that the site overrides."""

import shlex
from collections.abc import Mapping
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
from argosy.jobs.options import directive


def render_script(slurm_dir: Path, site: str, template: str, values: Mapping[str, Any]) -> str:
    """The text of the script. A site's own file `template` extends the base template of that name.

    Raises:
        ArgosyError: naming the template, when it uses a value that there is not or is not Jinja.
    """
    templates = FileSystemLoader(slurm_dir / "templates")
    own = slurm_dir / site / template
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
    name = f"{site}/{template}" if own.is_file() else template
    try:
        return environment.get_template(name).render(values)
    except TemplateSyntaxError as problem:
        raise ArgosyError(f"{problem.filename}:{problem.lineno}: {problem.message}") from None
    except TemplateError as problem:
        raise ArgosyError(f"{slurm_dir / name}: {problem.message}") from None
