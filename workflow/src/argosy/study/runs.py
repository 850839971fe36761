"""Expands experiments to runs with stable ids, one for each size and repeat, and orders a study's runs.

Runs are submitted in randomised blocks (Fisher, "The Design of Experiments", 1935, ch. 4). A block is one
repeat of all experiments and sizes, shuffled, so its runs share the machine's state of that hour.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Annotated, Literal

from argosy.runtime.contract.placeholders import filled, names_in
from argosy.study.built_images import BuiltImage
from argosy.study.image_names import image_name
from argosy.study.launcher import Launcher
from argosy.study.models import Config, Experiment, RunKeys, Stalls
from argosy.study.shell_words import remedy, unfilled
from argosy.study.sizes import GPU, NodeRange, Resources
from argosy.study.sweep import SweptPoint
from argosy.study.values import Name, Runtime, native_name
from argosy.validation import IF_SET, Count, Model
from argosy_common.errors import ArgosyError


class Variant(Model):
    """The studied experiment of a run that differs from it only in its input data."""

    of: Name
    data: Literal["synthetic", "warm"]


class Written(Model):
    """Command and variables with the placeholders of size and repeat still in them."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


class Run(RunKeys):
    """One repeat of one size of an experiment, with everything that determines its outcome.

    It is independent of other sizes and repeats, so adding some does not change it. Unset optional fields
    are left out of the JSON, so that a new field does not change earlier runs.
    """

    command: tuple[str, ...]
    """The experiment's command with this run's values in place of placeholders."""
    experiment: Name
    nodes: Count
    ranks_per_node: Count
    repeat: Count
    scaling: Literal["strong", "weak"]
    image: Name | None
    runtime: Runtime
    variant: Annotated[Variant | None, IF_SET] = None
    native_of: Annotated[Name | None, IF_SET] = None
    """The same experiment in containers, if this is its native variant."""
    sweep: Annotated[SweptPoint | None, IF_SET] = None
    """The combination of a sweep."""
    written: Annotated[Written | None, IF_SET] = None
    """Command and variables before the placeholders of this run were replaced; None if it has none."""
    own_launcher: Annotated[Launcher | None, IF_SET] = None
    """The project's own launcher file; None for a launcher of Argosy."""
    least_nodes: Annotated[Count | None, IF_SET] = None
    """Fewest nodes with which the run continues after losing nodes; None: all."""

    @property
    def asked_as(self) -> str:
        """The experiment of config.yaml from which this run was derived."""
        if self.sweep:
            return self.sweep.of
        return self.variant.of if self.variant else self.native_of or self.experiment

    @property
    def as_written(self) -> "Run":
        """This run with its placeholders restored, to compare it with runs of other sizes."""
        if self.written is None:
            return self
        return self.model_copy(update={**dict(self.written), "written": None})

    @property
    def run_id(self) -> str:
        """Folder name of the run; it depends only on size and repeat."""
        return f"nodes{self.nodes}-ranks{self.ranks_per_node}-repeat{self.repeat}"


def expand(
    config: Config,
    variables: Mapping[str, str] = {},
    gpus: Callable[[Resources], int] = lambda _: 0,
) -> list[Run]:
    """Return all runs of a configuration, sorted by experiment, size and repeat.

    Args:
        config: the configuration.
        variables: the site's variables, for `{site.NAME}`.
        gpus: returns the GPUs per node for `ranks_per_node: gpu`; 0 if there are none.

    Raises:
        ArgosyError: if the site lacks a variable or a GPU.
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
    """Raise ArgosyError for a variable that the site lacks, or a shell variable that nothing expands."""
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
"""Fields of `Run` that name the experiment from which a derived run comes."""


def _experiments(
    config: Config, gpus: Callable[[Resources], int]
) -> Iterator[tuple[str, Experiment, _More]]:
    """Yield each experiment, followed by its native variant and the variants of its stall study."""
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
    """Yield the variants of a stall study: synthetic data, one rank alone, and warm files."""
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
    content = {
        **experiment.model_dump(include={*RunKeys.model_fields}),
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
    """Return the seed of the shuffle, derived from the study's experiments and sizes.

    It ignores repeats, so that more of them keep the order of earlier blocks. It ignores data, whose paths
    differ between sites.
    """
    asked = {run.as_written.model_dump_json(exclude={"repeat", "data"}) for run in runs}
    digest = hashlib.sha256("\n".join(sorted(asked)).encode())
    return int.from_bytes(digest.digest()[:4], "big")


def in_blocks(runs: Iterable[Run]) -> list[Run]:
    """Return the runs in order of submission: by repeat, shuffled within each repeat."""
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
