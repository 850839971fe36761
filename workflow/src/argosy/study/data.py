"""The key `data` of an experiment: host folders and files mounted into its containers."""

import re
from itertools import permutations
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from argosy.validation import NAME, Model, from_text
from argosy_common.host_paths import host_path

_CONTAINER_PATH = re.compile(r"(?:/[A-Za-z0-9._-]+)+")
_OF_THE_CONTAINER = (
    *("argosy", "workloads", "job", "proc", "sys", "dev", "run", "tmp", "etc"),
    *("usr", "bin", "sbin", "lib", "lib32", "lib64"),
)
"""Container folders that data must not hide."""


def is_name(source: str) -> bool:
    """Return whether `source` is a name of the site's data.yaml rather than a path."""
    return NAME.fullmatch(source) is not None


def container_path(value: str) -> str:
    """Accept a mount path that hides none of the container's own folders."""
    parts = value.split("/")[1:]
    if not _CONTAINER_PATH.fullmatch(value) or {".", ".."} & {*parts}:
        raise ValueError(
            "write an absolute path of letters, digits, '.', '_' and '-', such as /data/era5"
        )
    if parts[0] in _OF_THE_CONTAINER:
        raise ValueError(f"/{parts[0]} is the container's own; write /data/{parts[-1]}")
    return value


def name_or_path(value: str) -> str:
    """Accept a name of the site's data.yaml or a host path."""
    try:
        return value if is_name(value) else host_path(value)
    except ValueError as problem:
        raise ValueError(f"{problem}, or a name of slurm/<site>/data.yaml") from None


def long_form(value: Any) -> Any:
    """Expand a source alone to a mapping."""
    if not isinstance(value, str | dict | Data):
        raise ValueError("write a host path, or a name of slurm/<site>/data.yaml")
    return {"from": value} if isinstance(value, str) else value


Flag = Annotated[bool, BeforeValidator(from_text), Field(strict=True)]


class Data(Model):
    """A folder or file of the host."""

    model_config = ConfigDict(serialize_by_alias=True)

    source: Annotated[str, Field(alias="from"), AfterValidator(name_or_path)]
    """Host path, which may contain variables such as $SCRATCH, or a name of slurm/<site>/data.yaml."""
    write: Flag = False
    """Whether the program may write to it."""
    digest: Flag = False
    """Whether each run first reads all of it and records a digest."""
    stage: Annotated[
        Literal["shared", "node"], Field(exclude_if=lambda stage: stage == "shared")
    ] = "shared"
    """shared: used in place; node: copied to each node's local disk first, and kept there for later jobs.
    `stage: node` in slurm/<site>/data.yaml has the same effect."""

    @model_validator(mode="after")
    def only_read_on_nodes(self) -> "Data":
        """Refuse a writable copy on a node: its changes would be lost."""
        if self.write and self.stage == "node":
            raise ValueError(
                "leave out `write: true` or `stage: node`: the copies on nodes are read-only"
            )
        return self


def apart(data: dict[str, Data]) -> dict[str, Data]:
    """Refuse a container path below another one."""
    for outer, inner in permutations(data, 2):
        if inner.startswith(f"{outer}/"):
            raise ValueError(f"{inner} lies in {outer}: leave one out, or choose paths apart")
    return data


ContainerPath = Annotated[str, AfterValidator(container_path)]
SHORT_OR_LONG = BeforeValidator(long_form, json_schema_input_type=Data | str)
