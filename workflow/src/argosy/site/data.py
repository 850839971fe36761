"""Where a site has the data that studies name: slurm/<site>/data.yaml.

It stands beside site.yaml, so that config.yaml is the same at every site.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
)

from argosy.site.values import Key
from argosy.validation import describe
from argosy.yaml_file import read_yaml
from argosy_common.errors import ArgosyError
from argosy_common.host_paths import host_path


def _long_form(value: Any) -> Any:
    """Accept the path alone."""
    if not isinstance(value, str | dict):
        raise ValueError("write a path of the host")
    return {"from": value} if isinstance(value, str) else value


class DataPlace(BaseModel):
    """A folder or file of the site."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Annotated[str, Field(alias="from"), AfterValidator(host_path)]
    """Its path, which may hold variables such as $SCRATCH."""
    stage: Literal["shared", "node"] = "shared"
    """node: each node copies it to its own disk, for each experiment that names it."""


class DataPlaces(RootModel[dict[Key, Annotated[DataPlace, BeforeValidator(_long_form)]]]):
    """Data by name."""


def read_data(path: Path) -> dict[str, DataPlace]:
    """Return the data in a data.yaml by name; none if there is no such file.

    Raises:
        ArgosyError: when it cannot be read, is not YAML, or holds wrong names or paths.
    """
    if not path.exists():
        return {}
    try:
        return DataPlaces.model_validate(read_yaml(path) or {}).root
    except ValidationError as problem:
        named = Path("slurm", path.parent.name, path.name)
        raise ArgosyError(describe(problem, named, DataPlaces)) from None
