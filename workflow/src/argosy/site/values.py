"""Checks of values in site.yaml: names, options of sbatch, folders."""

import re
import string
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from argosy.validation import printable

OPTION_FIELDS = (
    "nodes",
    "ranks",
    "ranks_per_node",
    "cpus",
    "gpus",
    "gpus_total",
    "memory",
    "memory_per_cpu",
    "memory_per_gpu",
    "minutes",
)
"""Fields in braces of an option's value; `cpus`, `gpus` and `memory` (MiB) are per node."""

OF_THE_RUN = {
    "account": "write it as `account`, of the site or of its hardware",
    "array": "a run is one job",
    "chdir": "Argosy finds jobs by their folder",
    "cluster": "Argosy works with the cluster of the login node; see docs/porting.md",
    "clusters": "Argosy works with the cluster of the login node; see docs/porting.md",
    "cluster-constraint": "Argosy works with the cluster of the login node; see docs/porting.md",
    "job-name": "Argosy finds jobs by their name",
    "nodes": "it comes from scale.nodes of the experiment",
    "ntasks": "a job has one task per node",
    "output": "logs are in the run's folder",
    "time": "it comes from resources.time of the experiment",
}
"""Options that a site cannot set, with reasons."""

TO_FILL_IN = "?"
"""Placeholder in a template file for values that the user has to fill in."""

OPTION = re.compile(r"[a-z][a-z0-9-]*")
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
FOLDER = re.compile(r"(?:/|\$[A-Z_][A-Z0-9_]*)[A-Za-z0-9_./$-]*")


def keys_to_fill_in(content: Any, key: str = "") -> list[str]:
    """Return the keys of a file that the user still has to fill in, in order."""
    if isinstance(content, Mapping):
        parts = [(f"{key}.{name}" if key else str(name), each) for name, each in content.items()]
    elif isinstance(content, list):
        parts = [(f"{key}.{number}", each) for number, each in enumerate(content)]
    else:
        return [key] if content == TO_FILL_IN else []
    return [found for name, each in parts for found in keys_to_fill_in(each, name)]


def key_name(name: str) -> str:
    """Accept a name of hardware, a queue or a variable."""
    if not KEY.fullmatch(name):
        raise ValueError("a name may contain letters, digits, '.', '_' and '-'")
    return name


def option_name(name: str) -> str:
    """Accept the long name of an sbatch option that a site may set."""
    if not OPTION.fullmatch(name):
        raise ValueError("write the long name of an option of sbatch, without dashes")
    if name in OF_THE_RUN:
        raise ValueError(f"a site cannot set it: {OF_THE_RUN[name]}")
    return name


def option_value(value: Any) -> Any:
    """Accept text with known fields in braces, an integer, true or null."""
    if isinstance(value, str) and value:
        return _known_fields(printable(value))
    if value is False:
        raise ValueError("write null to remove the line, or put the word in quotes")
    if value is None or isinstance(value, int):
        return value
    raise ValueError("write text, a whole number, null, or true for an option without a value")


def argument(value: str) -> str:
    """Accept a long option of srun, with its value."""
    if not value.startswith("--"):
        raise ValueError("write an option with two dashes and '=', such as --cpu-bind=cores")
    if value.startswith("--cluster"):
        raise ValueError(f"a site cannot set it: {OF_THE_RUN['clusters']}")
    return value


def folder(value: str) -> str:
    """Accept an absolute folder, perhaps with variables, that stays one word in a script."""
    if not FOLDER.fullmatch(value):
        raise ValueError("write an absolute folder, which may contain variables such as $USER")
    return value


def _known_fields(value: str) -> str:
    known = ", ".join("{" + name + "}" for name in OPTION_FIELDS)
    try:
        for _, name, form, conversion in string.Formatter().parse(value):
            if name is None:
                continue
            if name not in OPTION_FIELDS:
                raise ValueError(f"has the unknown field {{{name}}}; there are {known}")
            if form or conversion:
                raise ValueError(f"write {{{name}}} with nothing else in the braces")
    except ValueError as problem:
        raise ValueError(f"{problem} (write a literal brace twice)") from None
    return value


Text = Annotated[str, Field(min_length=1), AfterValidator(printable)]
Key = Annotated[str, AfterValidator(key_name)]
Folder = Annotated[str, AfterValidator(folder)]
Argument = Annotated[Text, AfterValidator(argument)]
OptionName = Annotated[str, AfterValidator(option_name)]
OptionValue = Annotated[str | int | Literal[True] | None, BeforeValidator(option_value)]
Options = Mapping[OptionName, OptionValue]
