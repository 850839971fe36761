"""The keys `throughput` and `metrics`: patterns or named formats of printed numbers, and their meaning."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PlainValidator,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)

from argosy.runtime.contract.throughput import ALL, FIRST, GROUPS, LAST, NUMBER
from argosy.validation import Model, from_text
from argosy_common.errors import choices

FORMATS: Mapping[str, Mapping[str, str]] = {
    # DeepSpeed's first rates may be -inf, which the pattern skips.
    "deepspeed": {"pattern": r"RunningAvgSamplesPerSec=([0-9][0-9.e+-]*)"},
    "horovod-synthetic": {
        "pattern": r"Iter #[0-9]+: ([0-9.]+) img/sec per",
        "of": "rank",
        "per": "image",
    },
    "huggingface": {"pattern": r"'train_samples_per_second': '?([0-9][0-9.e+-]*)"},
    # Each rank trains on its own batches, so a progress bar counts the steps of one rank.
    "keras": {
        "pattern": r" (?P<number>[1-9][0-9]*)"
        r"(?:(?P<seconds>s)|(?P<milliseconds>ms)|(?P<microseconds>us))/step"
        # The last line of an epoch includes validation time.
        r"(?!.*\bval_)",
        "of": "rank",
        "per": "step",
    },
    "lightning": {
        # The last states of an epoch include validation time.
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
"""Log formats of well-known programs, as values of `throughput`."""

_NAME = re.compile("[A-Za-z][A-Za-z0-9_-]*")
_UNIT = re.compile("[A-Za-z]+(?:-[A-Za-z]+)*")
_RANKS = (FIRST, LAST, ALL)


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError) as problem:
        raise ValueError(f"is not a regular expression: {problem}") from problem
    except RecursionError:
        raise ValueError("is not a regular expression: nested too deeply") from None


def _pattern(text: str) -> str:
    """Refuse a pattern without a unique group for the number."""
    pattern = _compiled(text)
    if pattern.groups == 0 and _NAME.fullmatch(text):
        raise ValueError(
            f"needs exactly one group, or is the name of a format; {choices([*FORMATS], text)}"
        )
    names = set(pattern.groupindex)
    has_names = len(names) == pattern.groups and NUMBER in names and names <= {*GROUPS}
    if pattern.groups != 1 and not has_names:
        raise ValueError(
            "needs exactly one group, around the number, or several named groups: (?P<number>…), and "
            f"optionally {', '.join(GROUPS[1:])}"
        )
    return text


def _rank(value: object) -> str | int:
    value = from_text(value)
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if is_number or value in _RANKS:
        return value  # type: ignore[return-value]
    raise ValueError(f"is {', '.join(_RANKS)} or the number of a rank, from 0")


class Throughput(Model):
    """A number in a program's output, and its meaning."""

    # A format implies a pattern, so no key is required.
    model_config = ConfigDict(json_schema_extra={"required": []})

    format: str | None = None
    """Name of a known format, which sets all other keys; keys given here override it."""
    pattern: str
    """A regular expression with one group, the number. Several groups need names: `number`; `times`, like
    the key; `seconds`, `milliseconds` or `microseconds`, for the number's unit."""
    of: Literal["job", "rank", "node"] = "job"
    """The number is the throughput of the whole job, of a rank or of a node."""
    says: Annotated[
        Literal["rate", "seconds", "milliseconds", "microseconds"], Field(alias="is")
    ] = "rate"
    """The number is a rate per second, or the time of one step or sample."""
    per: str = "sample"
    """Counted unit, in the singular; the report shows its plural per second, such as tokens/s."""
    times: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Factor for the number: samples (or tokens) per step of the job, rank or node in `of`."""
    rank: Annotated[
        str | int,
        PlainValidator(_rank),
        WithJsonSchema({"anyOf": [{"enum": [*_RANKS]}, {"type": "integer", "minimum": 0}]}),
    ] = FIRST
    """Ranks to search for the number. `all`: their means are summed, or averaged for `of: job`."""

    @model_validator(mode="before")
    @classmethod
    def by_name(cls, value: Any) -> Any:
        """Expand a format's name to its keys, and a text alone to a pattern."""
        if isinstance(value, str):
            if value not in FORMATS:
                return {"pattern": _pattern(value)}
            value = {"format": value}
        if not isinstance(value, Mapping):
            raise ValueError("must be a pattern, the name of a format, or a mapping")
        name = value.get("format")
        if name is None:
            return value
        if name not in FORMATS:
            raise ValueError(f"format: there is no {name}; {choices([*FORMATS], str(name))}")
        if value.get("pattern", FORMATS[name]["pattern"]) != FORMATS[name]["pattern"]:
            raise ValueError(f"format: {name} has its own pattern; remove one of the two keys")
        return {**FORMATS[name], **value}

    @field_validator("pattern")
    @classmethod
    def with_a_number(cls, text: str) -> str:
        """Refuse a pattern without a unique group for the number."""
        return _pattern(text)

    @field_validator("per")
    @classmethod
    def one_word(cls, text: str) -> str:
        """Refuse text that is not a unit for the report."""
        if not _UNIT.fullmatch(text) or len(text) > 24:
            raise ValueError("must be a word of letters, such as sample, step or token")
        return text

    @model_serializer(mode="wrap")
    def written(self, dump: SerializerFunctionWrapHandler) -> Any:
        """Dump a pattern alone as text, and no default values, so that digests of runs are stable."""
        found = {"is" if key == "says" else key: value for key, value in dump(self).items()}
        if self.format is None:
            fields = type(self).model_fields.items()
            default = {each.alias or key: each.default for key, each in fields}
            found = {key: value for key, value in found.items() if value != default[key]}
        return self.pattern if found.keys() == {"pattern"} else found


_METRIC = re.compile(r"\w[\w.@/+-]{0,63}")


def _metric_name(name: str) -> str:
    if name == "throughput":
        raise ValueError("is not a metric: write throughput: PATTERN beside metrics")
    if not _METRIC.fullmatch(name):
        raise ValueError("must be a word of at most 64 letters, digits and _ . @ / + -")
    return name


def _one_group(text: str) -> str:
    """Refuse a pattern without exactly one group."""
    groups = _compiled(text).groups
    if groups != 1:
        raise ValueError(f"needs exactly one group, around the number, and has {groups}")
    return text


Metrics = Mapping[
    Annotated[str, AfterValidator(_metric_name)], Annotated[str, AfterValidator(_one_group)]
]
"""Patterns of printed numbers besides the throughput, by metric name."""


def or_text(schema: dict[str, Any]) -> None:
    """Allow a text in place of the mapping in the key's JSON Schema."""
    schema["anyOf"].insert(0, {"type": "string"})
