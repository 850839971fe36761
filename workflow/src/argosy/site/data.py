"""slurm/<site>/data.yaml: the paths of named data at a site, so that config.yaml is the same everywhere."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, RootModel

from argosy.site.values import Key
from argosy.validation import Model, validated
from argosy.yaml_file import read_yaml
from argosy_common.host_paths import host_path


def _long_form(value: Any) -> Any:
    """Expand a path alone to a mapping."""
    if not isinstance(value, str | dict):
        raise ValueError("write a host path")
    return {"from": value} if isinstance(value, str) else value


class DataPlace(Model):
    """A folder or file of the site."""

    source: Annotated[str, Field(alias="from"), AfterValidator(host_path)]
    """Host path, which may contain variables such as $SCRATCH."""
    stage: Literal["shared", "node"] = "shared"
    """node: each node copies the data to its local disk, for every experiment that uses it."""


class DataPlaces(RootModel[dict[Key, Annotated[DataPlace, BeforeValidator(_long_form)]]]):
    """Data by name."""


def read_data(path: Path) -> dict[str, DataPlace]:
    """Read data.yaml into a mapping by name; empty if there is no such file.

    Raises:
        ArgosyError: if it is unreadable, not YAML, or has wrong names or paths.
    """
    if not path.exists():
        return {}
    named = Path("slurm", path.parent.name, path.name)
    return validated(read_yaml(path) or {}, named, DataPlaces).root
