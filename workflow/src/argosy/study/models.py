"""What a researcher may write in config/config.yaml, and nothing else.

Every model refuses unknown keys, so a misspelt key is an error and never silently without effect.
"""

import re
import shlex
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
SIZE = re.compile(r"(\d+)([KMGT])")


def folder_name(value: str) -> str:
    """Accept a name that can be a folder's name on any file system and a Slurm job's name."""
    if len(value) > 64 or not NAME.fullmatch(value):
        raise ValueError(
            "a name may hold letters, digits, '.', '_' and '-', begins with a letter or digit "
            "and has at most 64 characters"
        )
    return value


def seconds(value: Any) -> Any:
    """Turn `30m`, `2h`, `1d12h` into seconds; leave other types to pydantic."""
    if isinstance(value, bool | float):
        raise ValueError("write a duration as 30m, 2h or 1d12h")
    if not isinstance(value, str):
        return value
    parts = DURATION.fullmatch(value.strip())
    if not parts or not any(parts.groups()):
        raise ValueError("write a duration as 30m, 2h or 1d12h")
    days, hours, minutes, secs = (int(part or 0) for part in parts.groups())
    span = timedelta(days=days, hours=hours, minutes=minutes, seconds=secs)
    return int(span.total_seconds())


def mebibytes(value: Any) -> Any:
    """Turn `16G` into mebibytes; leave other types to pydantic."""
    if not isinstance(value, str):
        return value
    parts = SIZE.fullmatch(value.strip())
    if not parts:
        raise ValueError("write a size as 512M, 16G or 1T")
    kibibytes = int(parts[1]) * 1024 ** "KMGT".index(parts[2])
    return max(1, kibibytes // 1024)


def experiment_name(value: str) -> str:
    """Keep experiments apart from the tables, which lie beside them."""
    if value == "tables":
        raise ValueError("'tables' is the folder of the results' tables; choose another name")
    return folder_name(value)


Name = Annotated[str, AfterValidator(folder_name)]
ExperimentName = Annotated[str, AfterValidator(experiment_name)]
Count = Annotated[int, Field(ge=1, strict=True)]


class Model(BaseModel):
    """Immutable, and strict about unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Scale(Model):
    """Which points are measured: every node count, each `repeats` times as jobs of its own."""

    kind: Literal["strong", "weak"] = "strong"
    nodes: Annotated[tuple[Count, ...], Field(min_length=1)]
    ranks_per_node: Count = 1
    repeats: Count = 3

    @field_validator("nodes")
    @classmethod
    def each_once(cls, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """A point is measured once for each repeat; naming it twice would only collide."""
        if len(set(nodes)) != len(nodes):
            raise ValueError("the same node count is listed twice")
        return nodes


class Needs(Model):
    """What one rank needs, and the wall time of one run."""

    cpus_per_rank: Count = 1
    memory_per_rank: Annotated[int, BeforeValidator(mebibytes), Field(ge=1)] = 2048
    """MiB."""
    time: Annotated[int, BeforeValidator(seconds), Field(ge=60)] = 1800
    """Seconds."""


class Experiment(Model):
    """A program in an image, measured at several sizes."""

    image: Name
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    launcher: Literal["horovod", "plain"] = "horovod"
    scale: Scale
    needs: Needs = Needs()
    throughput: str | None = None

    @field_validator("command", mode="before")
    @classmethod
    def split(cls, command: Any) -> Any:
        """Split a command line as a shell would, but never give it to one."""
        if not isinstance(command, str):
            return command
        try:
            return tuple(shlex.split(command))
        except ValueError as problem:
            raise ValueError(f"cannot be split into words: {problem}") from problem

    @field_validator("throughput")
    @classmethod
    def one_group(cls, pattern: str | None) -> str | None:
        """A pattern finds the number in its one group."""
        if pattern is None:
            return None
        try:
            groups = re.compile(pattern).groups
        except re.error as problem:
            raise ValueError(f"is not a regular expression: {problem}") from problem
        if groups != 1:
            raise ValueError("needs exactly one group, around the samples per second")
        return pattern


class Config(Model):
    """The whole of config/config.yaml."""

    site: Name = "local"
    experiments: Annotated[dict[ExperimentName, Experiment], Field(min_length=1)]
