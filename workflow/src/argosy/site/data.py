"""Where a site has the data that studies name: slurm/<site>/data.yaml.

It stands beside site.yaml, so that config.yaml is the same at every site.
"""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, RootModel, ValidationError

from argosy.site.values import Key
from argosy.validation import describe
from argosy.yaml_file import read_yaml
from argosy_common.errors import ArgosyError
from argosy_common.host_paths import host_path


class DataPaths(RootModel[dict[Key, Annotated[str, AfterValidator(host_path)]]]):
    """Paths of the host by name."""


def read_data(path: Path) -> dict[str, str]:
    """Return the paths in a data.yaml by name; none if there is no such file.

    Raises:
        ArgosyError: when it cannot be read, is not YAML, or holds wrong names or paths.
    """
    if not path.exists():
        return {}
    try:
        return DataPaths.model_validate(read_yaml(path) or {}).root
    except ValidationError as problem:
        named = Path("slurm", path.parent.name, path.name)
        raise ArgosyError(describe(problem, named, DataPaths)) from None
