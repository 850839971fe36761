"""Setups of runs: only runs with the same setup are repeats, whatever their experiment's name."""

import hashlib
import json
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import duckdb

from argosy.results.tables import Run, fetch
from argosy_common.errors import plain_texts

Found = TypeVar("Found")

_QUERY = """
SELECT experiment, run_id, state, scaling, timeline, command, launcher, independent, is_native, hardware,
    throughput_pattern, environment, own_variables, resources, image_name, image_digest, programs,
    started_unix_s
FROM runs ORDER BY started_unix_s NULLS LAST, experiment, run_id
"""
_UNTOLD = ("time", "bind")
"""Resources that are not amounts of a rank: a time limit changes no work, `bind` is a mode."""
# A placeholder that Argosy fills in per rank; literal braces are doubled.
_FILLED_IN = re.compile(r"(?<!\{)(?:\{\{)*\{(?!\{)")


@dataclass(frozen=True)
class Setup:
    """Everything that determines the work of a run, except its size.

    Args:
        image: Name and digest; None for the host's software.
        is_native: Whether the run has no container.
        throughput: Pattern of printed rates.
        resources: Resources of a rank.
        variables: Environment variables that are equal on all ranks, the site's included.
        own_variables: Names of the variables that the experiment sets itself.
        programs: Digests of the program's files in /workloads, and of its data (`data PATH`); empty if
            not recorded.
        independent: Whether the ranks are separate programs, without connections.
        bind: Binding of each rank, `core` or `numa`.
    """

    command: tuple[str, ...]
    scaling: str
    image: str | None
    launcher: str | None
    is_native: bool
    hardware: str | None
    timeline: bool
    throughput: str | None
    resources: Mapping[str, int]
    variables: Mapping[str, str]
    own_variables: tuple[str, ...]
    programs: Mapping[str, str] = field(default_factory=dict)
    independent: bool = False
    bind: str | None = None

    @property
    def key(self) -> str:
        """A text that is equal for equal setups."""
        return json.dumps(list(told(self)))


@dataclass(frozen=True)
class Difference:
    """A property, `what`, with different texts in two setups, `one` and `other`.

    `is_of_work`: the work differs, so throughputs cannot be compared.
    """

    what: str
    one: str
    other: str
    is_of_work: bool


@dataclass(frozen=True)
class NamedSetup:
    """A setup of an experiment; `name` is the experiment's, with a number if it has several setups."""

    name: str
    experiment: str
    setup: Setup


@dataclass(frozen=True)
class Setups:
    """Setups by name; `of_runs` has the setup's name of each run whose experiment has several."""

    by_name: Mapping[str, NamedSetup]
    of_runs: Mapping[Run, str]

    def renamed(self, found: Mapping[Run, Found]) -> dict[Run, Found]:
        """Rekey findings about runs: the setup's name replaces the experiment's."""
        return {
            (self.of_runs.get((experiment, run_id), experiment), run_id): one
            for (experiment, run_id), one in found.items()
        }


def name_setups(tables: duckdb.DuckDBPyConnection) -> Setups:
    """Find the setups of all experiments.

    If completed runs of an experiment have several setups, each becomes an experiment of its own, in order
    of the first start: `digits #1`, `digits #2`. Other runs belong to the setup that they have, or to the
    last one.
    """
    rows = fetch(tables, _QUERY)
    by_experiment: defaultdict[str, list[tuple[Mapping[str, Any], Setup]]] = defaultdict(list)
    for row in rows:
        by_experiment[row["experiment"]].append((row, _setup(row)))
    found: dict[str, NamedSetup] = {}
    of_runs: dict[Run, str] = {}
    for experiment, noted in by_experiment.items():
        runs = _with_programs(noted)
        completed = {setup.key: setup for row, setup in runs if row["state"] == "completed"}
        setups = completed or {runs[-1][1].key: runs[-1][1]}
        names = {
            key: experiment if len(setups) == 1 else f"{experiment} #{place}"
            for place, key in enumerate(setups, 1)
        }
        found |= {names[key]: NamedSetup(names[key], experiment, setups[key]) for key in setups}
        if len(setups) > 1:
            last = names[[*setups][-1]]
            of_runs |= {
                (experiment, row["run_id"]): names.get(setup.key, last) for row, setup in runs
            }
    return Setups(dict(sorted(found.items())), of_runs)


def _with_programs(
    runs: Sequence[tuple[Mapping[str, Any], Setup]],
) -> list[tuple[Mapping[str, Any], Setup]]:
    """Give runs without recorded programs (older or pending ones) the first recorded programs."""
    known: dict[tuple[str, ...], Mapping[str, str]] = {}
    for _, setup in runs:
        if setup.programs:
            known.setdefault(setup.command, setup.programs)
    return [
        (row, replace(setup, programs=setup.programs or known.get(setup.command, {})))
        for row, setup in runs
    ]


def differences(one: Setup, other: Setup) -> list[Difference]:
    """List the differences of two setups, those of the work first; programs only if both are known."""
    own = {f"variable {name}" for name in (*one.own_variables, *other.own_variables)}
    of_work = {"command", "kind of scaling", "timeline", "throughput pattern", "ranks", *own}
    if not (one.programs and other.programs):
        one, other = replace(one, programs={}), replace(other, programs={})
    ours, theirs = dict(told(one)), dict(told(other))
    found = [
        Difference(what, ours.get(what, "none"), theirs.get(what, "none"), what in of_work)
        for what in dict.fromkeys([*ours, *theirs])
        if ours.get(what) != theirs.get(what)
    ]
    return sorted(found, key=lambda each: not each.is_of_work)


def told(setup: Setup) -> Iterator[tuple[str, str]]:
    """Yield the properties of a setup as names and texts, without absent ones."""
    yield "command", shlex.join(setup.command)
    yield "kind of scaling", setup.scaling
    if setup.timeline:
        yield "timeline", "written by Horovod"
    if setup.throughput is not None:
        yield "throughput pattern", setup.throughput
    for name in ("image", "launcher", "hardware"):
        if getattr(setup, name) is not None:
            yield name, getattr(setup, name)
    if setup.independent:
        yield "ranks", "independent of each other"
    if setup.is_native:
        yield "runtime", "native"
    if setup.bind is not None:
        yield "bind", setup.bind
    for name, amount in sorted(setup.resources.items()):
        yield name, str(amount)
    for name, value in sorted(setup.variables.items()):
        yield f"variable {name}", value
    for name, digest in sorted(setup.programs.items()):
        yield name if name.startswith("data ") else f"program {name}", digest


def _setup(row: Mapping[str, Any]) -> Setup:
    resources = _object(row["resources"])
    variables = _object(row["environment"])
    return Setup(
        command=tuple(row["command"]),
        scaling=row["scaling"],
        image=_image(row["image_name"], row["image_digest"]),
        launcher=row["launcher"],
        is_native=row["is_native"],
        hardware=row["hardware"],
        timeline=row["timeline"],
        throughput=row["throughput_pattern"],
        resources={name: amount for name, amount in resources.items() if name not in _UNTOLD},
        variables={
            name: value.replace("{{", "{").replace("}}", "}")
            for name, value in variables.items()
            if not _FILLED_IN.search(value)
        },
        own_variables=tuple(row["own_variables"]),
        programs=_object(row["programs"]),
        independent=row["independent"],
        bind=resources.get("bind"),
    )


def _object(text: str) -> dict[str, Any]:
    """Parse a JSON object and remove control characters from its texts."""
    found: dict[str, Any] = plain_texts(json.loads(text))
    return found


def _image(name: str | None, digest: str | None) -> str | None:
    return None if name is None else f"{name} {digest}"


def inputs_digest(setups: Iterable[NamedSetup], runs: Iterable[Run]) -> str:
    """Return the SHA-256 of a study's inputs, as `sha256:…`.

    It covers the runs, and each setup's program and files, image, launcher, resources of a rank and own
    variables. It excludes the site's hardware and variables.

    Args:
        setups: All setups of the study.
        runs: All requested runs.
    """
    asked = {
        "setups": sorted([each.experiment, *_lines(each.setup)] for each in setups),
        "runs": sorted(set(runs)),
    }
    text = json.dumps(asked, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _lines(setup: Setup) -> Iterator[str]:
    """Yield the properties of a setup that do not depend on the site."""
    own = {f"variable {name}" for name in setup.own_variables}
    for what, text in told(setup):
        of_site = what == "hardware" or (what.startswith("variable ") and what not in own)
        if not of_site:
            yield f"{what}: {text}"
