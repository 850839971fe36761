"""The key `sweep`: values of an experiment's placeholders, and a name for each combination."""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from argosy.validation import Count, Model, Natural, Value

LONGEST_NAME = 57
"""Characters of a combination's name; room for the suffix `-native` remains."""
MOST_RUNS = 10_000
"""Limit for all sweeps of a study together."""
_FORMS = ("product", "list", "random")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_RUNS = ("repeat", "nodes", "ranks", "ranks_per_node", "experiment", "output")
"""Placeholders that each run has anyway."""


def variable(name: str) -> str:
    """Accept a placeholder's name that is not reserved."""
    if not _NAME.fullmatch(name):
        raise ValueError("a name has letters, digits and '_', and begins with no digit")
    if name in _OF_RUNS:
        raise ValueError(f"{{{name}}} is reserved for each run's own value: choose another name")
    return name


def each_once(values: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a value that is listed twice."""
    if len(set(values)) != len(values):
        raise ValueError("a value is listed twice")
    return values


@dataclass(frozen=True)
class Range:
    """A range for random sweeps; `is_whole`: both ends are integers."""

    low: float
    high: float
    is_log: bool
    is_whole: bool

    def draw(self, random: Random) -> str:
        """Draw a number: an integer, or a float with four significant digits."""
        if self.is_log:
            drawn = math.exp(random.uniform(math.log(self.low), math.log(self.high)))
        elif self.is_whole:
            drawn = random.randint(int(self.low), int(self.high))
        else:
            drawn = random.uniform(self.low, self.high)
        return str(round(drawn)) if self.is_whole else f"{drawn:.4g}"


def number_range(value: Any) -> Range:
    """Read `[low, high]` or `[low, high, log]`."""
    if not isinstance(value, list | tuple) or [*value[2:]] not in ([], ["log"]) or len(value) < 2:
        raise ValueError("write [low, high], or [low, high, log]")
    try:
        low, high = map(float, value[:2])
    except (TypeError, ValueError, OverflowError):
        raise ValueError("write numbers: [low, high], or [low, high, log]") from None
    if not -1e300 < low < high < 1e300:
        raise ValueError("the first number must be below the second")
    is_log = len(value) == 3
    if is_log and low <= 0:
        raise ValueError("a logarithmic range must begin above 0")
    return Range(low, high, is_log, all(type(end) is int for end in value[:2]))


Variable = Annotated[str, AfterValidator(variable)]
_NUMBER = {"type": ["number", "string"]}
NumberRange = Annotated[
    Range,
    PlainValidator(number_range),
    WithJsonSchema(
        {
            "type": "array",
            "prefixItems": [_NUMBER, _NUMBER, {"const": "log"}],
            "minItems": 2,
            "maxItems": 3,
        }
    ),
]
Values = Annotated[
    tuple[Value, ...], Field(min_length=1, max_length=MOST_RUNS), AfterValidator(each_once)
]
Product = Annotated[dict[Variable, Values], Field(min_length=1)]
Point = Annotated[dict[Variable, Value], Field(min_length=1)]


class Sweep(Model):
    """Values of the placeholders of an experiment: by `product`, `list` or `random`."""

    product: Product | None = None
    """Lists of values by name; every combination is an experiment. Short form: `sweep: {lr: […]}`."""
    list: Annotated[tuple[Point, ...], Field(min_length=1, max_length=MOST_RUNS)] | None = None
    """Combinations, all with the same names."""
    random: Annotated[dict[Variable, NumberRange], Field(min_length=1)] | None = None
    """Ranges by name: `[low, high]`, drawing integers if both ends are, or `[low, high, log]`."""
    samples: Annotated[Count, Field(le=MOST_RUNS)] | None = None
    """Number of combinations to draw from `random`."""
    seed: Natural = 1
    """Seed of `random`; more samples keep the earlier ones."""

    @model_validator(mode="after")
    def one_form(self) -> "Sweep":
        """Refuse several forms, keys of another form, and too many combinations."""
        if sum(getattr(self, form) is not None for form in _FORMS) != 1:
            raise ValueError("give values by name, or one of product, list and random")
        of_random = self.model_fields_set & {"samples", "seed"}
        if (self.random is None and of_random) or (self.random and not self.samples):
            raise ValueError("samples and seed are for random, which needs samples")
        if len({frozenset(point) for point in self.list or ()}) > 1:
            raise ValueError("list: each combination has the same names")
        if self.size > MOST_RUNS:
            raise ValueError(
                f"it has {self.size:,} combinations, more than {MOST_RUNS:,}: list fewer values, "
                "or draw from them by random and samples"
            )
        points = self.points
        if len({*map(_text, points)}) < len(points):
            raise ValueError("a combination occurs twice: take fewer samples or list each once")
        return self

    @property
    def size(self) -> int:
        if self.product is not None:
            return math.prod(map(len, self.product.values()))
        return len(self.list) if self.list is not None else self.samples or 0

    @property
    def points(self) -> tuple[dict[str, str], ...]:
        """The values of each combination, by name."""
        if self.list is not None:
            return tuple({name: point[name] for name in self.list[0]} for point in self.list)
        if self.product is not None:
            names, values = self.product.keys(), self.product.values()
            return tuple(dict(zip(names, each, strict=True)) for each in itertools.product(*values))
        # A generator for each name: adding names or samples changes no other draw.
        draws = {name: Random(f"{self.seed} {name}") for name in self.random or {}}
        return tuple(
            {name: each.draw(draws[name]) for name, each in (self.random or {}).items()}
            for _ in range(self.samples or 0)
        )


def product_by_default(value: Any) -> Any:
    """Treat a mapping without a form as a product."""
    if isinstance(value, Mapping) and not value.keys() & {*_FORMS, "samples", "seed"}:
        return {"product": value}
    return value


SweepKey = Annotated[
    Sweep, BeforeValidator(product_by_default, json_schema_input_type=Sweep | Product)
]


class SweptPoint(Model):
    """The swept experiment's name, and the values of one combination."""

    of: str
    values: dict[str, str]


def point_name(experiment: str, values: Mapping[str, str]) -> str:
    """Return the name of a combination: `train-lr0.1-batch32`.

    It depends only on the values, so adding a value changes no other name. A name that is too long,
    ambiguous or has special characters ends with a digest of the values.
    """
    readable = experiment + "".join(f"-{name}{value}" for name, value in values.items())
    name = re.sub(r"[^A-Za-z0-9._-]", "_", readable)
    is_clear = not any(f"-{other}" in value for value in values.values() for other in values)
    if name == readable and is_clear and len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(_text(values).encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9]}-{digest}"


def _text(values: Mapping[str, str]) -> str:
    return json.dumps(values, sort_keys=True)
