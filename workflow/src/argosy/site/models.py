"""What differs between clusters, and nothing else: slurm/<site>/site.yaml."""

from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from argosy.errors import ArgosyError
from argosy.validation import describe


class Site(BaseModel):
    """One cluster, or this machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scheduler: Literal["local"]
    """Who runs the batch scripts."""
    interface: str
    """Network interface over which the nodes reach each other."""


def read_site(folder: Path) -> Site:
    """Read and validate the `site.yaml` of a site's folder.

    Raises:
        ArgosyError: when it is missing, not YAML, or holds wrong keys or values.
    """
    path = folder / "site.yaml"
    if not path.is_file():
        known = sorted(entry.parent.name for entry in folder.parent.glob("*/site.yaml"))
        raise ArgosyError(f"{path}: there is no such site; there are {', '.join(known)}")
    try:
        return Site.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as problem:
        raise ArgosyError(f"{path}: is not YAML: {' '.join(str(problem).split())}") from None
    except ValidationError as problem:
        raise ArgosyError(describe(problem, path, Site)) from None
