"""Values in config/config.yaml, each with its check: names, words, images, paths and durations."""

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)

from argosy.study.built_images import BuiltImage
from argosy.study.image_names import ARCHIVES, image_name, is_taken
from argosy.validation import (
    DURATION_SCHEMA,
    one_or_several,
    printable,
    written_seconds,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Runtime = Literal["container", "native"]
"""Where they run: in a container, or without one."""


FORMER_RUNTIMES = {"udocker": "container"}
"""The new word for a former one."""


def several(value: object) -> object:
    """Accept one of something for a list of it."""
    return [value] if isinstance(value, (str, int)) else value


def no_former_runtime(values: object) -> object:
    """Refuse a former word and name the new one."""
    for value in values if isinstance(values, (list, tuple)) else ():
        if isinstance(value, str) and value in FORMER_RUNTIMES:
            raise ValueError(f"{value} is a former name: write {FORMER_RUNTIMES[value]}")
    return values


def distinct_runtimes(values: tuple[Runtime, ...]) -> tuple[Runtime, ...]:
    """Refuse one that is named twice, and none."""
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
    """Accept a name that can be a folder's name on any file system and a Slurm job's name."""
    if len(value) > 64 or not NAME.fullmatch(value):
        raise ValueError(
            "a name may contain letters, digits, '.', '_' and '-', begins with a letter or digit "
            "and has at most 64 characters"
        )
    return value


_BESIDE_EXPERIMENTS = ("tables", "figures", "history")
"""Folders of a site's results that are no experiment."""


def experiment_name(value: str) -> str:
    """Keep experiments apart from what else lies beside them."""
    if value in _BESIDE_EXPERIMENTS:
        raise ValueError(f"'{value}' is the results' folder of {value}; choose another name")
    return folder_name(value)


def native_name(experiment: str) -> str:
    """Return what an experiment without containers is called that stands beside one with them."""
    return f"{experiment}-native"


def image_asked_for(value: Any, info: ValidationInfo) -> BuiltImage | str:
    """Accept a folder of containers/, an image to be taken as it is, and a mapping that describes one."""
    if isinstance(value, Mapping | BuiltImage):
        return BuiltImage.model_validate(value, context=info.context)
    if not isinstance(value, str):
        raise ValueError("write the name of an image, or a mapping with from, python and system")
    return printable(value)


def image_or_source(value: str) -> str:
    """Accept a folder of containers/, and where an image may be taken from as it is."""
    if is_taken(value) and NAME.fullmatch(image_name(value)):
        return value
    if is_taken(value) or ":" in value or "/" in value:
        raise ValueError(
            "names no image: write a folder of containers/, docker://HOST/NAME:TAG, udocker:NAME:TAG or "
            f"the path of an archive ({', '.join(ARCHIVES)})"
        )
    return folder_name(value)


def variable_name(value: str) -> str:
    """Accept the name of a variable that is nobody else's."""
    if not VARIABLE.fullmatch(value):
        raise ValueError(
            "a variable's name may contain letters, digits and '_', and may not begin with a digit"
        )
    if value.startswith("ARGOSY_"):
        raise ValueError("variables that begin with ARGOSY_ are Argosy's own")
    return value


def output_path(value: str) -> str:
    """Accept a path below the project, or an absolute one that is the image's or below /workloads."""
    path = printable(value).removeprefix("./").rstrip("/")
    parts = path.removeprefix("/").split("/")
    if not path or ":" in path or {"", ".", ".."} & {*parts}:
        raise ValueError(
            "write a path below the project, such as checkpoints, or an absolute one; no ':'"
        )
    if path == "/workloads" or (path[0] == "/" and parts[0] in _NO_OUTPUTS):
        raise ValueError(f"is no place for output: /{parts[0]} is each container's own")
    return path


_NO_OUTPUTS = ("argosy", "dev", "job", "proc", "run", "sys", "tmp")


def separate_outputs(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a path that is named twice, or lies in another."""
    for place, path in enumerate(paths):
        others = (*paths[:place], *paths[place + 1 :])
        if any(f"{path}/".startswith(f"{other}/") for other in others):
            raise ValueError(f"{path} is named twice, or lies in another of them")
    return paths


LONGEST_COMMAND = 128 << 10
"""Characters; Linux takes no longer word, and a longer line takes minutes to split."""


_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_OPERATOR = re.compile(r"(?<!\S)(?:[|&]{1,2}(?!\S)|[0-9&]?[<>]\S*)|;(?!\S)|\n")


def words(line: Any) -> Any:
    """Split a command line as a shell would, but never give it to one.

    What only a shell carries out is refused: the program would get it, and all behind it, as arguments.
    """
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


def off_or_seconds(value: Any, info: ValidationInfo) -> Any:
    """`off`, which YAML may hand on as false, is 0 seconds: never."""
    if value in (0, "off"):
        return 0
    return written_seconds(value, info)


def long_enough(value: int) -> int:
    """Refuse less than a second: steps are recorded once a second, so a shorter silence says nothing."""
    if 0 < value < LEAST_HANG_TIMEOUT_S:
        raise ValueError(f"must be at least {LEAST_HANG_TIMEOUT_S}s, or off")
    return value


LEAST_HANG_TIMEOUT_S = 10


VARIANTS = ("alone", "synthetic", "warm")
"""What is added to the name of an experiment for those that a study of its stalls makes."""

Words = Annotated[
    tuple[str, ...], BeforeValidator(words), Field(min_length=1), one_or_several({"type": "string"})
]
Name = Annotated[str, AfterValidator(folder_name)]
LauncherName = Annotated[str, AfterValidator(folder_name)]
"""Of a file in launchers/, the project's or Argosy's."""
Image = Annotated[
    BuiltImage | str,
    PlainValidator(image_asked_for, json_schema_input_type=BuiltImage | str),
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


class Model(BaseModel):
    """Immutable, and strict about unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)
