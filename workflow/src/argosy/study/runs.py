"""Expands an experiment to runs with stable ids, one for each point and repeat, and orders a study's runs.

Runs are submitted in randomised blocks (Fisher, "The Design of Experiments", 1935, ch. 4): a block is one
repeat of all experiments and sizes, shuffled. Runs of a block share the machine's state of that hour.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Annotated, Literal

from pydantic import Field

from argosy.runtime.contract.placeholders import filled, names_in
from argosy.study.built_images import BuiltImage
from argosy.study.data import Data
from argosy.study.image_names import image_name
from argosy.study.launcher import Launcher
from argosy.study.models import Config, Experiment, Stalls
from argosy.study.shell_words import remedy, unfilled
from argosy.study.sizes import GPU, Checkpoints, NodeRange, Resources
from argosy.study.sweep import SweptPoint
from argosy.study.throughput import Throughput
from argosy.study.values import HangTimeout, LauncherName, Model, Name, Runtime, native_name
from argosy.validation import Count
from argosy_common.errors import ArgosyError


class Variant(Model):
    """Of which experiment a run is, but for its data."""

    of: Name
    data: Literal["synthetic", "warm"]


class Written(Model):
    """Words of a run as they are at every size: with the placeholders of its size and repeat."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


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
    launcher: LauncherName
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
    sweep: Annotated[SweptPoint | None, Field(exclude_if=lambda point: point is None)] = None
    """The combination of a sweep; left out of other experiments."""
    outputs: Annotated[tuple[str, ...] | None, Field(exclude_if=lambda paths: paths is None)] = None
    """Paths that the program writes; left out where the study says none."""
    written: Annotated[Written | None, Field(exclude_if=lambda words: words is None)] = None
    """The words before the run's own numbers were filled in; left out where there is nothing to fill in."""
    data: Annotated[Mapping[str, Data], Field(exclude_if=lambda data: not data)] = {}
    """Data of the host by its path in the container; left out where there is none."""
    metrics: Annotated[Mapping[str, str], Field(exclude_if=lambda metrics: not metrics)] = {}
    """Patterns of other printed numbers; left out where there are none."""
    own_launcher: Annotated[Launcher | None, Field(exclude_if=lambda own: own is None)] = None
    """Of a file of the project; left out where the launcher comes with Argosy."""
    least_nodes: Annotated[Count | None, Field(exclude_if=lambda least: least is None)] = None
    """The fewest nodes with which the run goes on after losses; left out where it needs all."""

    @property
    def asked_as(self) -> str:
        """The experiment of config.yaml that it is made of."""
        if self.sweep:
            return self.sweep.of
        return self.variant.of if self.variant else self.native_of or self.experiment

    @property
    def as_written(self) -> "Run":
        """The run by whose words runs of other sizes are of the same work."""
        if self.written is None:
            return self
        return self.model_copy(update={**dict(self.written), "written": None})

    @property
    def run_id(self) -> str:
        """The run's folder name; it depends on the point and the repeat alone."""
        return f"nodes{self.nodes}-ranks{self.ranks_per_node}-repeat{self.repeat}"


def expand(
    config: Config,
    variables: Mapping[str, str] = {},
    gpus: Callable[[Resources], int] = lambda _: 0,
) -> list[Run]:
    """Return all runs of the configuration, by experiment, size and repeat.

    Args:
        config: the whole of it.
        variables: of the site, for `{site.NAME}`.
        gpus: of the nodes of the site that ranks of one GPU go to, for `ranks_per_node: gpu`.

    Raises:
        ArgosyError: naming a variable that the site does not have, or saying that it has no GPUs.
    """
    of_site = {f"{_OF_SITE}{name}": value for name, value in variables.items()}
    for name, experiment in config.selected.items():
        _check_variables(config, name, experiment, of_site)
    return [
        _filled(_run(name, experiment, point, repeat, more), of_site)
        for name, experiment, more in _experiments(config, gpus)
        for point in experiment.scale.points
        for repeat in range(1, experiment.scale.repeats + 1)
    ]


_OF_SITE = "site."


def _check_variables(
    config: Config, name: str, experiment: Experiment, of_site: Mapping[str, str]
) -> None:
    """Raise ArgosyError for a variable that the site lacks, or one of a shell that nobody fills in."""
    stalls = config.studies.stalls.get(name)
    asked = config.swept[name].of if name in config.swept else name
    words = {
        "command": experiment.command,
        **{f"environment.{name}": (value,) for name, value in experiment.environment.items()},
        "outputs": experiment.outputs or (),
    }
    parts = {f"experiments.{asked}.{key}": each for key, each in words.items()}
    if stalls:
        parts[f"studies.stalls.{name}"] = (*stalls.synthetic, *(stalls.warm or ()))
    for key, each in parts.items():
        for named in names_in(each):
            if named.startswith(_OF_SITE) and named not in of_site:
                variable = named.removeprefix(_OF_SITE)
                raise ArgosyError(
                    f"{key}: {{{named}}}: slurm/{config.site}/site.yaml has no variables.{variable}",
                    f"add it there, as variables: {{{variable}: VALUE}}",
                )
        shell = experiment.environment if key.endswith(".command") else None
        for place, texts in (
            (key, each),
            (f"{key}, with variables of the site", filled(each, of_site)),
        ):
            if found := unfilled(texts, shell):
                raise ArgosyError(f"{place}: {found}: nothing fills this in", remedy(found))


def _filled(run: Run, of_site: Mapping[str, str]) -> Run:
    """Return the run with its placeholders replaced."""
    general = {**of_site, "experiment": run.asked_as, "output": "/job/output"}
    own = {
        "nodes": str(run.nodes),
        "ranks": str(run.nodes * run.ranks_per_node),
        "ranks_per_node": str(run.ranks_per_node),
        "repeat": str(run.repeat),
    }
    written, words = (
        Written(
            command=filled(run.command, values),
            environment=dict(
                zip(run.environment, filled(run.environment.values(), values), strict=True)
            ),
        )
        for values in (general, {**general, **own})
    )
    return run.model_copy(update={**dict(words), "written": None if written == words else written})


_More = Mapping[str, object]
"""Of a run that is made for another experiment: which."""


def _experiments(
    config: Config, gpus: Callable[[Resources], int]
) -> Iterator[tuple[str, Experiment, _More]]:
    """Yield the experiments, each with its native one and those that a study of its stalls adds."""
    for name, written in config.selected.items():
        asked = (
            _on_gpus(config, name, written, gpus)
            if GPU in written.scale.ranks_per_node
            else written
        )
        experiment = _in(asked, asked.runtime[0] if len(asked.runtime) == 1 else "container")
        more = {"sweep": config.swept[name]} if name in config.swept else {}
        yield name, experiment, more
        if len(asked.runtime) > 1:
            yield native_name(name), _in(asked, "native"), {"native_of": name, **more}
        if stalls := config.studies.stalls.get(name):
            yield from _of_stalls(name, experiment, stalls)


def _on_gpus(
    config: Config, name: str, experiment: Experiment, gpus: Callable[[Resources], int]
) -> Experiment:
    resources = experiment.resources.model_copy(update={"gpus_per_rank": 1})
    key = f"experiments.{name}.scale.ranks_per_node: gpu"
    try:
        count = gpus(resources)
    except ArgosyError as problem:
        raise problem.at(key) from None
    if not count:
        kind = f"hardware.{config.hardware}" if config.hardware else "hardware"
        raise ArgosyError(
            f"{key}: slurm/{config.site}/site.yaml names no GPUs in {kind}"
            f"{f' of the queue {config.queue}' if config.queue else ''}",
            "write a number of ranks, choose another hardware or queue, or add hardware.NAME.gpus there",
        )
    sizes = {"resources": resources, "scale": experiment.scale.on(count)}
    return experiment.model_copy(update=sizes)


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
    if 1 not in scale.ranks_per_node:
        yield f"{name}-alone", _with(experiment, stalls.synthetic, {1}, ranks_per_node=(1,)), of
    if stalls.warm:
        warm = _with(experiment, stalls.warm, {*scale.nodes})
        yield f"{name}-warm", warm, {"variant": Variant(of=name, data="warm")}


def _with(
    experiment: Experiment, words: tuple[str, ...], nodes: set[int], **scale: tuple[int, ...]
) -> Experiment:
    sizes = experiment.scale.model_copy(update={"nodes": tuple(sorted(nodes)), **scale})
    return experiment.model_copy(update={"command": (*experiment.command, *words), "scale": sizes})


def _run(
    name: str, experiment: Experiment, point: tuple[int, int], repeat: int, more: _More
) -> Run:
    nodes, ranks_per_node = point
    [runtime] = experiment.runtime
    image = experiment.image
    asked = experiment.model_dump(exclude={"scale", "image", "runtime", "sweep", "resources"})
    content = {
        **asked,
        **more,
        "experiment": name,
        "runtime": runtime,
        "resources": experiment.resources.on(nodes),
        "nodes": int(nodes),
        "least_nodes": nodes.least if isinstance(nodes, NodeRange) else None,
        "ranks_per_node": ranks_per_node,
        "repeat": repeat,
        "scaling": experiment.scale.kind,
        "image": image.name if isinstance(image, BuiltImage) else image and image_name(image),
    }
    return Run.model_validate(content)


def seed_of(runs: Iterable[Run]) -> int:
    """Return the seed of a study's order, made of its experiments and sizes.

    Repeats are not in it: with more of them the blocks that there are keep their order. Nor is data, which
    has other paths at each site.
    """
    asked = {run.as_written.model_dump_json(exclude={"repeat", "data"}) for run in runs}
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
