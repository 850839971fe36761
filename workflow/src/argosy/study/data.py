"""The key `data` of an experiment: folders and files of the host that its containers show."""

import re
from itertools import permutations
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from argosy.validation import from_text
from argosy_common.host_paths import host_path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CONTAINER_PATH = re.compile(r"(?:/[A-Za-z0-9._-]+)+")
_OF_THE_CONTAINER = (
    *("argosy", "workloads", "job", "proc", "sys", "dev", "run", "tmp", "etc"),
    *("usr", "bin", "sbin", "lib", "lib32", "lib64"),
)
"""Folders of every container that no data may hide."""


def is_name(source: str) -> bool:
    """Return whether data is named, for the site to say where it is."""
    return _NAME.fullmatch(source) is not None


def container_path(value: str) -> str:
    """Accept a path that hides nothing that a program needs to start."""
    parts = value.split("/")[1:]
    if not _CONTAINER_PATH.fullmatch(value) or {".", ".."} & {*parts}:
        raise ValueError(
            "write an absolute path of letters, digits, '.', '_' and '-', such as /data/era5"
        )
    if parts[0] in _OF_THE_CONTAINER:
        raise ValueError(f"/{parts[0]} is the container's own; write /data/{parts[-1]}")
    return value


def name_or_path(value: str) -> str:
    """Accept a name of the site's data.yaml, and a path of the host."""
    try:
        return value if is_name(value) else host_path(value)
    except ValueError as problem:
        raise ValueError(f"{problem}, or a name of slurm/<site>/data.yaml") from None


def long_form(value: Any) -> Any:
    """Accept the source alone."""
    if not isinstance(value, str | dict | Data):
        raise ValueError("write a path of the host, or a name of slurm/<site>/data.yaml")
    return {"from": value} if isinstance(value, str) else value


Flag = Annotated[bool, BeforeValidator(from_text), Field(strict=True)]


class Data(BaseModel):
    """A folder or file of the host."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    source: Annotated[str, Field(alias="from"), AfterValidator(name_or_path)]
    """Its path, which may hold variables such as $SCRATCH, or its name in slurm/<site>/data.yaml."""
    write: Flag = False
    """Whether the program may write to it."""
    digest: Flag = False
    """Whether each run reads all of it first, and notes a digest."""
    stage: Annotated[
        Literal["shared", "node"], Field(exclude_if=lambda stage: stage == "shared")
    ] = "shared"
    """shared: used where it lies; node: first copied to the own disk of each node, and kept there for the
    next jobs. Also `node` where slurm/<site>/data.yaml says so."""

    @model_validator(mode="after")
    def only_read_on_nodes(self) -> "Data":
        """Refuse a copy to write to: nobody would ever see what is written there."""
        if self.write and self.stage == "node":
            raise ValueError(
                "leave out `write: true` or `stage: node`: the copies on nodes are read-only"
            )
        return self


def apart(data: dict[str, Data]) -> dict[str, Data]:
    """Refuse a path in the container below another one."""
    for outer, inner in permutations(data, 2):
        if inner.startswith(f"{outer}/"):
            raise ValueError(f"{inner} lies in {outer}: leave one out, or choose paths apart")
    return data


ContainerPath = Annotated[str, AfterValidator(container_path)]
SHORT_OR_LONG = BeforeValidator(long_form, json_schema_input_type=Data | str)
