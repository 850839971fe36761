"""Keys of config/config.yaml.

Every model refuses unknown keys, so a misspelt key is an error.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from argosy.runtime.contract.placeholders import filled, names_in
from argosy.study.built_images import BuiltImage
from argosy.study.command_launchers import refuse_launchers
from argosy.study.data import SHORT_OR_LONG, ContainerPath, Data, apart
from argosy.study.image_names import image_name, is_taken
from argosy.study.sizes import GPU, Checkpoints, NodeRange, Resources, Scale, least_of
from argosy.study.sweep import MOST_RUNS, Sweep, SweepKey, SweptPoint, point_name
from argosy.study.throughput import Metrics, Throughput, or_text
from argosy.study.values import (
    VARIANTS,
    ExperimentName,
    HangTimeout,
    Image,
    LauncherName,
    Name,
    Output,
    Runtimes,
    Variable,
    Words,
    experiment_name,
    image_or_source,
    native_name,
    separate_outputs,
    several,
)
from argosy.validation import IF_SET, Model, Value, one_or_several
from argosy_common.errors import choices

_ADDS = "already adds an experiment of this name; choose another name"


def _each(text: str, sweep: Sweep | None) -> Iterator[str]:
    """Yield a text with the values of each combination of a sweep."""
    for values in sweep.points if sweep else ({},):
        yield from filled([text], values)


class RunKeys(Model):
    """Keys that an experiment and each of its runs have: its program, and how it runs."""

    command: Words
    """Program and arguments of each rank, split into words as by a shell; no shell runs them."""
    launcher: LauncherName = "horovod"
    """How ranks are started and find each other: horovod, torch, tensorflow, jax, mpi, ray, flower,
    per-node, plain, or the name of a file in the project's launchers/."""
    resources: Resources = Resources()
    """Resources of each rank."""
    checkpoints: Checkpoints | None = None
    """Set it if the program saves checkpoints on a signal."""
    throughput: Annotated[Throughput | None, Field(json_schema_extra=or_text)] = None
    """A regular expression with one group: samples per second of the whole job, printed by rank 0.

    Or the name of a format, or a mapping that describes the number.
    """
    metrics: Annotated[Metrics, IF_SET] = {}
    """Other printed numbers: a regular expression with one group by metric name."""
    environment: Annotated[dict[Variable, Value], IF_SET] = {}
    """Variables of the ranks; they override the site's."""
    data: Annotated[
        dict[ContainerPath, Annotated[Data, SHORT_OR_LONG]], AfterValidator(apart), IF_SET
    ] = {}
    """Host folders and files, by their mount path in the container."""
    independent: Annotated[bool, Field(strict=True), IF_SET] = False
    """The ranks are separate programs that need not connect to each other."""
    hang_timeout: Annotated[HangTimeout | None, IF_SET] = None
    """Longest time without a step or output of any rank; None: derived from the run's own steps."""
    outputs: Annotated[
        Annotated[
            tuple[Output, ...],
            BeforeValidator(several),
            AfterValidator(separate_outputs),
            WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}}),
        ]
        | None,
        IF_SET,
    ] = None
    """Paths of the project or the image that the program may write; they are read-only otherwise."""
    timeline: Annotated[bool, IF_SET] = False
    """Write Horovod's timeline, an event for each tensor; this slows the run."""


class Experiment(RunKeys):
    """A program in an image, measured at several sizes."""

    sweep: SweepKey | None = None
    """Values of placeholders in command, environment and image; each combination is an experiment."""
    image: Image | None = None
    """Folder of containers/, docker://REFERENCE, udocker:NAME:TAG, an archive, or a mapping of from, python
    and system to build an image; None: use the host's programs."""
    runtime: Runtimes = ("container",)
    """`container`, `native` (without one, with the image's programs or the host's), or both to compare."""
    scale: Scale
    """The sizes to measure."""

    @field_validator("image")
    @classmethod
    def names_images(cls, image: Image | None, known: ValidationInfo) -> Image | None:
        """Refuse an invalid image name, for each combination of a sweep."""
        sweep: Sweep | None = known.data.get("sweep")
        for name in {*_each(image, sweep)} if isinstance(image, str) else ():
            image_or_source(name)
        return image

    @field_validator("timeline")
    @classmethod
    def of_horovod(cls, wanted: bool, known: ValidationInfo) -> bool:
        """Refuse a timeline with other launchers."""
        if wanted and known.data.get("launcher") != "horovod":
            raise ValueError("needs Horovod; remove it, or write launcher: horovod")
        return wanted

    @field_validator("independent")
    @classmethod
    def of_plain_ranks(cls, wanted: bool, known: ValidationInfo) -> bool:
        """Refuse independent ranks with a launcher that connects them."""
        if wanted and known.data.get("launcher") != "plain":
            raise ValueError(
                "needs ranks that do not communicate; remove it, or write launcher: plain"
            )
        return wanted

    @model_validator(mode="after")
    def runs_of_a_shared_job_begin_once(self) -> "Experiment":
        """Refuse checkpoints in a shared job: a requeue would restart the other runs too."""
        if self.resources.same_allocation and self.checkpoints:
            raise ValueError(
                "resources.same_allocation measures runs from their start in one job, but "
                "checkpoints continue runs in another job: remove one of them"
            )
        return self

    @model_validator(mode="after")
    def goes_on_with_fewer_nodes(self) -> "Experiment":
        """Refuse a range of nodes without restarts: only a restart can use fewer nodes."""
        for nodes in self.scale.nodes:
            if isinstance(nodes, NodeRange) and not (
                self.checkpoints and self.checkpoints.restarts
            ):
                raise ValueError(
                    f"scale.nodes: {nodes.least}..{int(nodes)} goes on with fewer nodes in a restart: add "
                    f"checkpoints: {{restarts: 1}} or more, or write {int(nodes)}"
                )
            named = {"nodes", "ranks"} & {*names_in((*self.command, *self.environment.values()))}
            if isinstance(nodes, NodeRange) and named:
                raise ValueError(
                    f"scale.nodes: {nodes.least}..{int(nodes)} may go on with fewer nodes, but "
                    f"{{{min(named)}}} would stay as planned: let the program ask its launcher instead"
                )
        return self

    @model_validator(mode="after")
    def no_second_launcher(self) -> "Experiment":
        """Refuse a command that starts the ranks a second time."""
        # A node may have several GPUs.
        ranks = max(self.scale.nodes) * max(self.scale.counts, default=2)
        for values in self.sweep.points if self.sweep else ({},):
            refuse_launchers(filled(self.command, values), self.environment, ranks, self.launcher)
        return self

    @model_validator(mode="after")
    def uses_all_of_its_sweep(self) -> "Experiment":
        """Refuse swept values without a placeholder."""
        image = self.image if isinstance(self.image, str) else ""
        used = {*names_in((*self.command, *self.environment.values(), image))}
        for name in self.sweep.points[0] if self.sweep else ():
            if name not in used:
                raise ValueError(
                    f"sweep: {name} changes nothing: write {{{name}}} in command, environment or image"
                )
        return self

    def at(self, values: Mapping[str, str]) -> "Experiment":
        """Return the experiment of one combination of its sweep."""
        image = self.image
        if isinstance(image, str):
            [image] = filled([image], values)
        texts = filled(self.environment.values(), values)
        return self.model_copy(
            update={
                "sweep": None,
                "image": image,
                "command": filled(self.command, values),
                "environment": dict(zip(self.environment, texts, strict=True)),
            }
        )

    @model_validator(mode="after")
    def outputs_of_a_container(self) -> "Experiment":
        """Refuse an absolute output without a container, since nothing is mounted."""
        absolute = [path for path in self.outputs or () if path[0] == "/"]
        if absolute and "native" in self.runtime:
            raise ValueError(
                f"outputs: {absolute[0]}: without a container a program writes to the host's own; leave it "
                "out, or write runtime: container"
            )
        return self

    @model_validator(mode="after")
    def rank_of_every_size(self) -> "Experiment":
        """Refuse `throughput.rank` if the smallest size has no such rank."""
        rank = self.throughput.rank if self.throughput else None
        if not self.scale.counts:
            return self
        ranks = min(map(least_of, self.scale.nodes)) * min(self.scale.counts)
        if isinstance(rank, int) and rank >= ranks:
            raise ValueError(
                f"throughput.rank: there is no rank {rank} of {ranks}, as the smallest size has; write last"
            )
        return self

    @model_validator(mode="after")
    def one_gpu_of_each_rank(self) -> "Experiment":
        """Refuse `gpus_per_rank` other than 1 with `ranks_per_node: gpu`."""
        asked = self.resources.gpus_per_rank
        is_written = "gpus_per_rank" in self.resources.model_fields_set
        if GPU in self.scale.ranks_per_node and is_written and asked != 1:
            raise ValueError(
                f"resources.gpus_per_rank: {asked} contradicts scale.ranks_per_node: gpu, which gives each "
                "rank one; remove it, or write a number of ranks"
            )
        return self

    @model_validator(mode="after")
    def image_for_a_container(self) -> "Experiment":
        if "container" in self.runtime and self.image is None:
            raise ValueError("add image, or set runtime: native")
        return self


class Stalls(Model):
    """Find an experiment's stalls by running it again with less input work.

    Each key holds arguments to append to the experiment's command.
    """

    synthetic: Words
    """Arguments for batches made in memory: no reading, no preprocessing."""
    warm: Words | None = None
    """Arguments for files cached in memory: no reading, full preprocessing."""


class Studies(Model):
    """Ready-made designs over experiments, by the experiment's name."""

    stalls: dict[ExperimentName, Stalls] = {}
    """Experiments to run again with less input work, by name."""


class Config(Model):
    """The whole of config/config.yaml."""

    site: Name = "local"
    """A folder of slurm/."""
    hardware: Name | None = None
    """The site's hardware to use; None: the first that fits."""
    queue: Name | None = None
    """The site's queue to use; None: the first that accepts the job."""
    avoid_bad_nodes: Annotated[bool, Field(strict=True)] = True
    """Whether jobs avoid nodes on which runs fail; false here or in site.yaml turns it off."""
    budget: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Limit on the node-hours of all runs without a result, by their time limits; None: no limit."""
    experiments: Annotated[dict[ExperimentName, Experiment], Field(min_length=1)]
    """Programs to measure, by name."""
    studies: Studies = Studies()
    """Designs that add experiments."""
    only: (
        Annotated[
            tuple[ExperimentName, ...],
            BeforeValidator(several),
            Field(min_length=1),
            one_or_several({"type": "string"}),
        ]
        | None
    ) = None
    """Experiments to run; None: all. Files given by --configfile add experiments to config.yaml's."""

    @cached_property
    def swept(self) -> dict[str, SweptPoint]:
        """All combinations of all sweeps, by experiment name."""
        return {
            point_name(name, values): SweptPoint(of=name, values=values)
            for name, one in self.experiments.items()
            for values in (one.sweep.points if one.sweep else ())
        }

    @cached_property
    def measured(self) -> dict[str, Experiment]:
        """All experiments by name; each swept one is replaced by its combinations."""
        plain = {name: one for name, one in self.experiments.items() if not one.sweep}
        return plain | {
            name: self.experiments[point.of].at(point.values) for name, point in self.swept.items()
        }

    @property
    def selected(self) -> dict[str, Experiment]:
        if self.only is None:
            return self.measured
        return {
            name: one
            for name, one in self.measured.items()
            if {name, *([self.swept[name].of] if name in self.swept else [])} & {*self.only}
        }

    @property
    def taken_images(self) -> dict[str, str]:
        """Sources of imported images, by name in the project."""
        images = [one.image for one in self.selected.values() if isinstance(one.image, str)]
        return {image_name(image): image for image in images if is_taken(image)}

    @property
    def built_images(self) -> dict[str, BuiltImage]:
        """Images to build from a base and packages, by name in the project."""
        images = [one.image for one in self.selected.values()]
        return {image.name: image for image in images if isinstance(image, BuiltImage)}

    @model_validator(mode="after")
    def few_runs_of_sweeps(self) -> "Config":
        """Refuse too many runs before creating them."""
        runs = {
            name: one.sweep.size * one.scale.size * one.scale.repeats * len(one.runtime)
            for name, one in self.experiments.items()
            if one.sweep
        }
        if (total := sum(runs.values())) > MOST_RUNS:
            name = max(runs, key=lambda each: runs[each])
            raise ValueError(
                f"experiments.{name}.sweep: {'sweeps have' if len(runs) > 1 else 'it has'} {total:,} runs, "
                f"more than {MOST_RUNS:,}: list fewer values, sizes or repeats"
            )
        return self

    @property
    def added(self) -> Iterator[tuple[str, str]]:
        """The names of the experiments that keys add, each with a phrase about the key."""
        for name, one in self.experiments.items():
            for values in one.sweep.points if one.sweep else ():
                why = f"the sweep of {name} makes an experiment of that name; choose another"
                yield point_name(name, values), why
        for name, one in self.measured.items():
            if len(one.runtime) > 1:
                yield native_name(name), f"the runtime of {name} {_ADDS}"
        for name in self.studies.stalls:
            yield from ((f"{name}-{each}", f"studies.stalls.{name} {_ADDS}") for each in VARIANTS)

    @model_validator(mode="after")
    def distinct_names(self) -> "Config":
        """Refuse an experiment with the name of another one, or of one that a key adds."""
        taken = {*self.experiments}
        for name, why in self.added:
            if experiment_name(name) in taken:
                raise ValueError(f"experiments.{name}: {why}")
            taken.add(name)
        return self

    @model_validator(mode="after")
    def known_selection(self) -> "Config":
        """Refuse an unknown experiment in `only`."""
        for name in self.only or ():
            if name not in self.experiments and name not in self.swept:
                hint = choices([*self.experiments, *self.swept], name)
                raise ValueError(f"only: {name}: is not an experiment; {hint}")
        return self

    @model_validator(mode="after")
    def one_image_of_a_name(self) -> "Config":
        """Refuse two image sources with the same name in the project."""
        named: dict[str, str] = {}
        for experiment, one in self.measured.items():
            if (
                isinstance(one.image, str)
                and named.setdefault(image_name(one.image), one.image) != one.image
            ):
                name = image_name(one.image)
                raise ValueError(
                    f"experiments.{experiment}.image: {one.image} and {named[name]} would both be "
                    f"named {name}; import one of them under another name (argosy image import), "
                    "and use that name"
                )
        return self

    @model_validator(mode="after")
    def studied_experiments(self) -> "Config":
        """Refuse a study of an unknown or swept experiment, or of one without a run on one node."""
        for name in self.studies.stalls:
            if name not in self.experiments:
                known = ", ".join(self.experiments)
                raise ValueError(f"studies.stalls.{name}: is not an experiment; there are: {known}")
            studied = self.experiments[name]
            if studied.sweep:
                raise ValueError(
                    f"studies.stalls.{name}: has a sweep: study an experiment without one"
                )
            if len(studied.scale.ranks_per_node) > 1 and 1 not in studied.scale.nodes:
                raise ValueError(
                    f"studies.stalls.{name}: with several ranks_per_node it needs 1 in scale.nodes"
                )
        return self
