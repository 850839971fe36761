"""The key `throughput` of an experiment: a pattern, a format's name, and the meaning of the numbers."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)

from argosy.validation import from_text
from argosy_common.errors import choices

FORMATS: Mapping[str, Mapping[str, str]] = {
    # Its first rates may be -inf.
    "deepspeed": {"pattern": r"RunningAvgSamplesPerSec=([0-9][0-9.e+-]*)"},
    "horovod-synthetic": {
        "pattern": r"Iter #[0-9]+: ([0-9.]+) img/sec per",
        "of": "rank",
        "per": "image",
    },
    "huggingface": {"pattern": r"'train_samples_per_second': '?([0-9][0-9.e+-]*)"},
    # Each rank trains on batches of its own, so steps of bars are a rank's.
    "keras": {
        "pattern": r" (?P<number>[1-9][0-9]*)"
        r"(?:(?P<seconds>s)|(?P<milliseconds>ms)|(?P<microseconds>us))/step"
        # The last line of an epoch counts the time of its validation.
        r"(?!.*\bval_)",
        "of": "rank",
        "per": "step",
    },
    "lightning": {
        # The last states of an epoch count the time of its validation.
        "pattern": r"^Epoch [0-9]+\b(?!.*100%.*\bval).*[ ,](?P<number>[0-9.]+)(?:(?P<seconds>s/it)|it/s)",
        "of": "rank",
        "per": "step",
    },
    "megatron": {
        "pattern": r"elapsed time per iteration \(ms\): (?P<number>[0-9.]+) .*"
        r"global batch size: +(?P<times>[0-9]+)",
        "is": "milliseconds",
        "rank": "last",
    },
    "mllog": {"pattern": r':::MLLOG .*"throughput"(?:, "value")?: ([0-9][0-9.e+-]*)'},
    "tqdm": {
        "pattern": r"\[[0-9:]+(?:<[0-9:?]+)?, +(?P<number>[0-9.]+[kMG]?)(?:(?P<seconds>s/\w+)|\w+/s)",
        "of": "rank",
        "per": "step",
    },
}
"""Formats of well-known programs: what their printed lines hold, in the words of the key."""

NUMBER = "number"
MORE = ("times", "seconds", "milliseconds", "microseconds")
_NAME = re.compile("[A-Za-z][A-Za-z0-9_-]*")
_UNIT = re.compile("[A-Za-z]+(?:-[A-Za-z]+)*")
_RANKS = ("first", "last", "all")


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError) as problem:
        raise ValueError(f"is not a regular expression: {problem}") from problem
    except RecursionError:
        raise ValueError("is not a regular expression: nested too deeply") from None


def _pattern(text: str) -> str:
    """Refuse a pattern in which the number is in no group, or in any of several."""
    pattern = _compiled(text)
    if pattern.groups == 0 and _NAME.fullmatch(text):
        raise ValueError(
            f"needs exactly one group, or is the name of a format; {choices([*FORMATS], text)}"
        )
    names = set(pattern.groupindex)
    has_names = len(names) == pattern.groups and NUMBER in names and names <= {NUMBER, *MORE}
    if pattern.groups != 1 and not has_names:
        raise ValueError(
            "needs exactly one group, around the number; of several, each has a name: (?P<number>…), and "
            f"besides {', '.join(MORE)}"
        )
    return text


def _rank(value: object) -> str | int:
    value = from_text(value)
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if is_number or value in _RANKS:
        return value  # type: ignore[return-value]
    raise ValueError(f"is {', '.join(_RANKS)} or the number of a rank, from 0")


class Throughput(BaseModel):
    """The numbers that a program prints, and what they mean."""

    # A format has a pattern.
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"required": []})

    format: str | None = None
    """The name of a format, which gives all other keys; keys beside it replace its own."""
    pattern: str
    """A regular expression with one group, the number. Of several groups each has a name: `number`;
    `times`, as the key; `seconds`, `milliseconds` and `microseconds`, which decide what the number is."""
    of: Literal["job", "rank", "node"] = "job"
    """Whose throughput the number is."""
    says: Annotated[
        Literal["rate", "seconds", "milliseconds", "microseconds"], Field(alias="is")
    ] = "rate"
    """A rate a second, or the time of a step or sample."""
    per: str = "sample"
    """What is counted, in the singular: the report shows its plural a second, such as tokens/s."""
    times: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Samples (or tokens) of a step of that whose number it is; the number is multiplied by them."""
    rank: Annotated[
        str | int,
        PlainValidator(_rank),
        WithJsonSchema({"anyOf": [{"enum": [*_RANKS]}, {"type": "integer", "minimum": 0}]}),
    ] = "first"
    """Whose lines are searched. With `all` the ranks' own means are added up, or averaged for `of: job`."""

    @model_validator(mode="before")
    @classmethod
    def by_name(cls, value: Any) -> Any:
        """Take a format's keys by its name, and a text alone for a pattern."""
        if isinstance(value, str):
            if value not in FORMATS:
                return {"pattern": _pattern(value)}
            value = {"format": value}
        if not isinstance(value, Mapping):
            raise ValueError("is a pattern, the name of a format, or a map")
        name = value.get("format")
        if name is None:
            return value
        if name not in FORMATS:
            raise ValueError(f"format: there is no {name}; {choices([*FORMATS], str(name))}")
        if value.get("pattern", FORMATS[name]["pattern"]) != FORMATS[name]["pattern"]:
            raise ValueError(
                f"format: {name} has a pattern of its own; leave one of the two keys out"
            )
        return {**FORMATS[name], **value}

    @field_validator("pattern")
    @classmethod
    def with_a_number(cls, text: str) -> str:
        """Refuse a pattern that does not say where the number is."""
        return _pattern(text)

    @field_validator("per")
    @classmethod
    def one_word(cls, text: str) -> str:
        """Refuse what the report could not show as a unit."""
        if not _UNIT.fullmatch(text) or len(text) > 24:
            raise ValueError("is a word of letters, such as sample, step or token")
        return text

    @model_serializer(mode="wrap")
    def written(self, dump: SerializerFunctionWrapHandler) -> Any:
        """Write a pattern alone as a text, and else no more than was asked for: runs keep their digest."""
        found = {"is" if key == "says" else key: value for key, value in dump(self).items()}
        if self.format is None:
            fields = type(self).model_fields.items()
            default = {each.alias or key: each.default for key, each in fields}
            found = {key: value for key, value in found.items() if value != default[key]}
        return self.pattern if found.keys() == {"pattern"} else found


_METRIC = re.compile(r"\w[\w.@/+-]{0,63}")


def _metric_name(name: str) -> str:
    if name == "throughput":
        raise ValueError("is no metric: write throughput: PATTERN beside metrics")
    if not _METRIC.fullmatch(name):
        raise ValueError("is a word of at most 64 letters, digits, and the signs _ . @ / + -")
    return name


def _one_group(text: str) -> str:
    """Refuse a pattern that does not say where the number is."""
    groups = _compiled(text).groups
    if groups != 1:
        raise ValueError(f"needs exactly one group, around the number, and has {groups}")
    return text


Metrics = Mapping[
    Annotated[str, AfterValidator(_metric_name)], Annotated[str, AfterValidator(_one_group)]
]
"""Patterns of numbers that a program prints besides its throughput, by the names of metrics."""


def or_text(schema: dict[str, Any]) -> None:
    """Add to the JSON Schema of the key that a text may stand for the map."""
    schema["anyOf"].insert(0, {"type": "string"})
