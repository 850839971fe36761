"""Expands an experiment to runs with stable ids, one for each point and repeat, and orders a study's runs.

Runs are submitted in randomised blocks (Fisher, "The Design of Experiments", 1935, ch. 4): a block is one
repeat of all experiments and sizes, shuffled. Runs of a block share the machine's state of that hour.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Annotated, Literal

from pydantic import Field

from argosy.study.image_names import image_name
from argosy.study.models import (
    Checkpoints,
    Config,
    Experiment,
    HangTimeout,
    Launcher,
    Model,
    Name,
    Resources,
    Runtime,
    Stalls,
    native_name,
)
from argosy.study.throughput import Throughput
from argosy.validation import Count


class Variant(Model):
    """Of which experiment a run is, but for its data."""

    of: Name
    data: Literal["synthetic", "warm"]


class Run(Model):
    """One point of an experiment, measured once, as a job of its own; all that decides its outcome.

    It does not know of the other points and repeats, so adding some leaves it as it is.
    """

    experiment: Name
    nodes: Count
    ranks_per_node: Count
    repeat: Count
    scaling: Literal["strong", "weak"]
    image: Name | None
    command: tuple[str, ...]
    launcher: Launcher
    runtime: Runtime
    resources: Resources
    checkpoints: Checkpoints | None
    throughput: Throughput | None
    variant: Annotated[Variant | None, Field(exclude_if=lambda variant: variant is None)] = None
    """Left out where there is none: that must not look like a change of the runs there are."""
    native_of: Annotated[Name | None, Field(exclude_if=lambda name: name is None)] = None
    """The experiment that is measured in containers, where this is the same without; left out as well."""
    timeline: Annotated[bool, Field(exclude_if=lambda timeline: not timeline)] = False
    """As is this."""
    hang_timeout: Annotated[
        HangTimeout | None, Field(exclude_if=lambda timeout: timeout is None)
    ] = None
    """And this."""
    environment: Annotated[Mapping[str, str], Field(exclude_if=lambda names: not names)] = {}
    """And these."""
    independent: Annotated[bool, Field(exclude_if=lambda wanted: not wanted)] = False
    """Whether ranks need not meet; left out where they have to."""

    @property
    def run_id(self) -> str:
        """The run's folder name; it depends on the point and the repeat alone."""
        return f"nodes{self.nodes}-ranks{self.ranks_per_node}-repeat{self.repeat}"


def expand(config: Config) -> list[Run]:
    """Return all runs of the configuration, by experiment, node count and repeat."""
    return [
        _run(name, experiment, nodes, repeat, more)
        for name, experiment, more in _experiments(config)
        for nodes in sorted(experiment.scale.nodes)
        for repeat in range(1, experiment.scale.repeats + 1)
    ]


_More = Mapping[str, object]
"""Of a run that is made for another experiment: which."""


def _experiments(config: Config) -> Iterator[tuple[str, Experiment, _More]]:
    """Yield the experiments, each with its native one and those that a study of its stalls adds."""
    for name, asked in config.selected.items():
        experiment = _in(asked, asked.runtime[0] if len(asked.runtime) == 1 else "container")
        yield name, experiment, {}
        if len(asked.runtime) > 1:
            yield native_name(name), _in(asked, "native"), {"native_of": name}
        if stalls := config.studies.stalls.get(name):
            yield from _of_stalls(name, experiment, stalls)


def _in(experiment: Experiment, runtime: Runtime) -> Experiment:
    return experiment.model_copy(update={"runtime": (runtime,)})


def _of_stalls(
    name: str, experiment: Experiment, stalls: Stalls
) -> Iterator[tuple[str, Experiment, _More]]:
    """Yield what takes part: one rank computes, ranks of a node exchange within it, nodes between them."""
    scale = experiment.scale
    synthetic = _with(experiment, stalls.synthetic, {1, *scale.nodes})
    of = {"variant": Variant(of=name, data="synthetic")}
    yield f"{name}-synthetic", synthetic, of
    if scale.ranks_per_node > 1:
        yield f"{name}-alone", _with(experiment, stalls.synthetic, {1}, ranks_per_node=1), of
    if stalls.warm:
        warm = _with(experiment, stalls.warm, {*scale.nodes})
        yield f"{name}-warm", warm, {"variant": Variant(of=name, data="warm")}


def _with(
    experiment: Experiment, words: tuple[str, ...], nodes: set[int], **scale: int
) -> Experiment:
    sizes = experiment.scale.model_copy(update={"nodes": tuple(sorted(nodes)), **scale})
    return experiment.model_copy(update={"command": (*experiment.command, *words), "scale": sizes})


def _run(name: str, experiment: Experiment, nodes: int, repeat: int, more: _More) -> Run:
    [runtime] = experiment.runtime
    asked = experiment.model_dump(exclude={"scale", "image", "runtime"})
    content = {
        **asked,
        **more,
        "experiment": name,
        "runtime": runtime,
        "nodes": nodes,
        "ranks_per_node": experiment.scale.ranks_per_node,
        "repeat": repeat,
        "scaling": experiment.scale.kind,
        "image": experiment.image and image_name(experiment.image),
    }
    return Run.model_validate(content)


def seed_of(runs: Iterable[Run]) -> int:
    """Return the seed of a study's order, made of its experiments and sizes.

    Repeats are not in it: with more of them the blocks that there are keep their order.
    """
    asked = {run.model_dump_json(exclude={"repeat"}) for run in runs}
    digest = hashlib.sha256("\n".join(sorted(asked)).encode())
    return int.from_bytes(digest.digest()[:4], "big")


def in_blocks(runs: Iterable[Run]) -> list[Run]:
    """Return the runs in the order of their submission: by repeat, shuffled within each."""
    by_repeat: defaultdict[int, list[Run]] = defaultdict(list)
    for run in runs:
        by_repeat[run.repeat].append(run)
    seed = seed_of(run for block in by_repeat.values() for run in block)
    ordered = []
    for repeat, block in sorted(by_repeat.items()):
        block.sort(key=lambda run: (run.experiment, run.run_id))
        Random(f"{seed} {repeat}").shuffle(block)
        ordered += block
    return ordered
