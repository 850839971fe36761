"""Values in config/config.yaml, each with its check: names, words, images, paths and durations."""

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)

from argosy.study.built_images import BuiltImage
from argosy.study.image_names import ARCHIVES, image_name, is_taken
from argosy.validation import DURATION_SCHEMA, NAME, one_or_several, printable, written_seconds

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Runtime = Literal["container", "native"]
FORMER_RUNTIMES = {"udocker": "container"}
"""New names by former names."""


def several(value: object) -> object:
    """Wrap a single value in a list."""
    return [value] if isinstance(value, (str, int)) else value


def no_former_runtime(values: object) -> object:
    """Refuse a former name and give the new one."""
    for value in values if isinstance(values, (list, tuple)) else ():
        if isinstance(value, str) and value in FORMER_RUNTIMES:
            raise ValueError(f"{value} is a former name: write {FORMER_RUNTIMES[value]}")
    return values


def distinct_runtimes(values: tuple[Runtime, ...]) -> tuple[Runtime, ...]:
    """Refuse an empty list, and a runtime listed twice."""
    if not values or len(set(values)) != len(values):
        raise ValueError("name container, native, or both once")
    return values


Runtimes = Annotated[
    tuple[Runtime, ...],
    BeforeValidator(no_former_runtime),
    BeforeValidator(several),
    AfterValidator(distinct_runtimes),
    one_or_several({"enum": [*get_args(Runtime)]}),
]


def folder_name(value: str) -> str:
    """Accept a name that is valid as a folder on any file system and as a Slurm job."""
    if len(value) > 64 or not NAME.fullmatch(value):
        raise ValueError(
            "a name may contain letters, digits, '.', '_' and '-', begins with a letter or digit "
            "and has at most 64 characters"
        )
    return value


_BESIDE_EXPERIMENTS = ("tables", "figures", "history")
"""Folders of a site's results that do not belong to an experiment."""


def experiment_name(value: str) -> str:
    """Refuse names of other folders in results/<site>/."""
    if value in _BESIDE_EXPERIMENTS:
        raise ValueError(f"'{value}' is the results' folder of {value}; choose another name")
    return folder_name(value)


def native_name(experiment: str) -> str:
    return f"{experiment}-native"


def image_asked_for(value: Any, info: ValidationInfo) -> BuiltImage | str:
    """Accept a folder of containers/, an image source, or a mapping that describes an image."""
    if isinstance(value, Mapping | BuiltImage):
        return BuiltImage.model_validate(value, context=info.context)
    if not isinstance(value, str):
        raise ValueError("write the name of an image, or a mapping with from, python and system")
    return printable(value)


def image_or_source(value: str) -> str:
    """Accept a folder of containers/ or an image source."""
    if is_taken(value) and NAME.fullmatch(image_name(value)):
        return value
    if is_taken(value) or ":" in value or "/" in value:
        raise ValueError(
            "is not an image: write a folder of containers/, docker://HOST/NAME:TAG, udocker:NAME:TAG or "
            f"the path of an archive ({', '.join(ARCHIVES)})"
        )
    return folder_name(value)


def variable_name(value: str) -> str:
    """Accept the name of an environment variable that is not reserved."""
    if not VARIABLE.fullmatch(value):
        raise ValueError(
            "a variable's name may contain letters, digits and '_', and may not begin with a digit"
        )
    if value.startswith("ARGOSY_"):
        raise ValueError("variables that begin with ARGOSY_ are reserved for Argosy")
    return value


def output_path(value: str) -> str:
    """Accept a path below the project, or an absolute path in the image or below /workloads."""
    path = printable(value).removeprefix("./").rstrip("/")
    parts = path.removeprefix("/").split("/")
    if not path or ":" in path or {"", ".", ".."} & {*parts}:
        raise ValueError(
            "write a path below the project, such as checkpoints, or an absolute one; no ':'"
        )
    if path == "/workloads" or (path[0] == "/" and parts[0] in _NO_OUTPUTS):
        raise ValueError(f"cannot hold output: /{parts[0]} is reserved in each container")
    return path


_NO_OUTPUTS = ("argosy", "dev", "job", "proc", "run", "sys", "tmp")


def separate_outputs(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a path that is listed twice, or inside another one."""
    for place, path in enumerate(paths):
        others = (*paths[:place], *paths[place + 1 :])
        if any(f"{path}/".startswith(f"{other}/") for other in others):
            raise ValueError(f"{path} is listed twice, or lies inside another path of the list")
    return paths


LONGEST_COMMAND = 128 << 10
"""Characters; Linux accepts no longer argument, and splitting a longer line takes minutes."""


_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_OPERATOR = re.compile(r"(?<!\S)(?:[|&]{1,2}(?!\S)|[0-9&]?[<>]\S*)|;(?!\S)|\n")


def words(line: Any) -> Any:
    """Split a command line as a shell would; refuse operators, which only a shell would handle."""
    if not isinstance(line, str):
        return line
    if len(line) > LONGEST_COMMAND:
        raise ValueError(
            f"is longer than {LONGEST_COMMAND >> 10} KiB; write the values into a file"
        )
    line = line.replace("\\\n", " ")
    if found := _OPERATOR.search(_QUOTED.sub("''", line.strip())):
        raise ValueError(
            "has several lines; write one, or > in place of |"
            if found[0] == "\n"
            else f"has {found[0]}, which only a shell carries out: write bash -c '…', or quote it"
        )
    try:
        return tuple(shlex.split(line))
    except ValueError as problem:
        raise ValueError(f"cannot be split into words: {problem}") from problem


def names_a_program(line: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a command whose first word is empty."""
    if line and not line[0].strip():
        raise ValueError("its first word is empty: write the name of a program")
    return line


def off_or_seconds(value: Any, info: ValidationInfo) -> Any:
    """Convert `off`, which YAML may read as false, to 0 seconds: never."""
    if value in (0, "off"):
        return 0
    return written_seconds(value, info)


def long_enough(value: int) -> int:
    """Refuse a timeout that is too short: steps are recorded only once a second."""
    if 0 < value < LEAST_HANG_TIMEOUT_S:
        raise ValueError(f"must be at least {LEAST_HANG_TIMEOUT_S}s, or off")
    return value


LEAST_HANG_TIMEOUT_S = 10


VARIANTS = ("alone", "synthetic", "warm")
"""Suffixes for the experiments that a stall study adds."""

Words = Annotated[
    tuple[str, ...],
    BeforeValidator(words),
    Field(min_length=1),
    AfterValidator(names_a_program),
    one_or_several({"type": "string"}),
]
Name = Annotated[str, AfterValidator(folder_name)]
LauncherName = Annotated[str, AfterValidator(folder_name)]
"""File name in the project's or Argosy's launchers/, without suffix."""
Image = Annotated[
    BuiltImage | str, PlainValidator(image_asked_for, json_schema_input_type=BuiltImage | str)
]
Variable = Annotated[str, AfterValidator(variable_name)]
Output = Annotated[str, AfterValidator(output_path)]
HangTimeout = Annotated[
    int,
    BeforeValidator(off_or_seconds),
    Field(ge=0),
    AfterValidator(long_enough),
    # YAML 1.1 reads `off` as false.
    WithJsonSchema({"anyOf": [DURATION_SCHEMA, {"enum": ["off", False]}]}),
]
"""Seconds; 0: nothing counts as a hang."""
ExperimentName = Annotated[str, AfterValidator(experiment_name)]
