"""Renders a run's batch script: the base template, with the blocks that its site overrides."""

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

TEMPLATE = "job.sbatch.j2"


def render_script(slurm_dir: Path, site: str, values: Mapping[str, Any]) -> str:
    """The text of job.sbatch. A site's own `job.sbatch.j2` extends the base template of that name.

    Raises:
        ArgosyError: naming the template, when it uses a value that there is not or is not Jinja.
    """
    templates = FileSystemLoader(slurm_dir / "templates")
    own = slurm_dir / site / TEMPLATE
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
    name = f"{site}/{TEMPLATE}" if own.is_file() else TEMPLATE
    try:
        return environment.get_template(name).render(values)
    except TemplateSyntaxError as problem:
        raise ArgosyError(f"{problem.filename}:{problem.lineno}: {problem.message}") from None
    except TemplateError as problem:
        raise ArgosyError(f"{slurm_dir / name}: {problem.message}") from None
