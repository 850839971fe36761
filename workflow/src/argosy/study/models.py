"""What a researcher may write in config/config.yaml, and nothing else.

Every model refuses unknown keys, so a misspelt key is an error and never silently without effect.
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
    Model,
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
from argosy.validation import (
    Value,
    one_or_several,
)
from argosy_common.errors import choices


def _each(text: str, sweep: Sweep | None) -> Iterator[str]:
    """Yield a text as each combination of a sweep fills it in."""
    for values in sweep.points if sweep else ({},):
        yield from filled([text], values)


class Experiment(Model):
    """A program in an image, measured at several sizes."""

    sweep: SweepKey | None = None
    """Values of placeholders in the command, variables and image: an experiment for each combination."""
    image: Image | None = None
    """Folder of containers/, docker://REFERENCE, udocker:NAME:TAG, an archive, or a mapping of from, python
    and system, by which Argosy writes a Containerfile; None: the host has all."""
    command: Words
    """Program and arguments of each rank, split as a shell would and never given to one."""
    launcher: LauncherName = "horovod"
    """How ranks are started and find each other: horovod, torch, tensorflow, jax, mpi, ray, flower,
    per-node, plain, or the name of a file in the project's launchers/."""
    runtime: Runtimes = ("container",)
    """`native`: without a container, by the image's programs or else the host's; both: to compare."""
    scale: Scale
    """The sizes to measure."""
    resources: Resources = Resources()
    """What each rank needs."""
    checkpoints: Checkpoints | None = None
    """The program saves checkpoints when it is warned."""
    throughput: Annotated[Throughput | None, Field(json_schema_extra=or_text)] = None
    """A regular expression with one group: samples per second of the whole job, printed by rank 0.

    Or the name of a format, or a map that says what the number is, and whose.
    """
    metrics: Metrics = {}
    """Other numbers that the program prints, by name: a regular expression with one group, the number."""
    environment: dict[Variable, Value] = {}
    """Variables of the ranks; they win over the site's."""
    data: Annotated[dict[ContainerPath, Annotated[Data, SHORT_OR_LONG]], AfterValidator(apart)] = {}
    """Folders and files of the host, by the path at which the container shows them."""
    independent: Annotated[bool, Field(strict=True)] = False
    """The ranks are separate programs: they need not be connected to each other."""
    hang_timeout: HangTimeout | None = None
    """How long no rank may make a step or print anything; None: as the run's own steps suggest."""
    outputs: (
        Annotated[
            tuple[Output, ...],
            BeforeValidator(several),
            AfterValidator(separate_outputs),
            WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}}),
        ]
        | None
    ) = None
    """Paths that the program writes though the project or the image has them, read-only."""
    timeline: bool = False
    """Horovod writes down what it does with each tensor; for looking, since that takes time itself."""

    @field_validator("image")
    @classmethod
    def names_images(cls, image: Image | None, known: ValidationInfo) -> Image | None:
        """Refuse a name of no image, as a sweep fills it in."""
        sweep: Sweep | None = known.data.get("sweep")
        for name in {*_each(image, sweep)} if isinstance(image, str) else ():
            image_or_source(name)
        return image

    @field_validator("timeline")
    @classmethod
    def of_horovod(cls, wanted: bool, known: ValidationInfo) -> bool:
        """Refuse it with another launcher: its ranks write none."""
        if wanted and known.data.get("launcher") != "horovod":
            raise ValueError("needs Horovod; remove it, or write launcher: horovod")
        return wanted

    @field_validator("independent")
    @classmethod
    def of_plain_ranks(cls, wanted: bool, known: ValidationInfo) -> bool:
        """Refuse it with another launcher: its ranks are told how to find each other."""
        if wanted and known.data.get("launcher") != "plain":
            raise ValueError(
                "needs ranks that do not communicate; remove it, or write launcher: plain"
            )
        return wanted

    @model_validator(mode="after")
    def runs_of_a_shared_job_begin_once(self) -> "Experiment":
        """Refuse checkpoints in a shared job: a run in the queue again would take the others with it."""
        if self.resources.same_allocation and self.checkpoints:
            raise ValueError(
                "resources.same_allocation measures runs from their start in one job, but "
                "checkpoints continue runs in another job: remove one of them"
            )
        return self

    @model_validator(mode="after")
    def goes_on_with_fewer_nodes(self) -> "Experiment":
        """Refuse a range of nodes without restarts, which alone go on with fewer."""
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
        """Refuse a command that starts the ranks once more."""
        # A node may have several GPUs.
        ranks = max(self.scale.nodes) * max(self.scale.counts, default=2)
        for values in self.sweep.points if self.sweep else ({},):
            refuse_launchers(filled(self.command, values), self.environment, ranks, self.launcher)
        return self

    @model_validator(mode="after")
    def uses_all_of_its_sweep(self) -> "Experiment":
        """Refuse values that would change nothing."""
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
        """Refuse an absolute output without a container: nothing can be mounted there."""
        absolute = [path for path in self.outputs or () if path[0] == "/"]
        if absolute and "native" in self.runtime:
            raise ValueError(
                f"outputs: {absolute[0]}: without a container a program writes to the host's own; leave it "
                "out, or write runtime: container"
            )
        return self

    @model_validator(mode="after")
    def rank_of_every_size(self) -> "Experiment":
        """Refuse to search the lines of a rank that the smallest size does not have."""
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
        """Refuse another number of GPUs where ranks are as many as GPUs."""
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
        """Refuse a container without an image."""
        if "container" in self.runtime and self.image is None:
            raise ValueError("add image, or set runtime: native")
        return self


class Stalls(Model):
    """What an experiment waits for is found by running it again with less to wait for.

    Each is what is added to the experiment's command.
    """

    synthetic: Words
    """Batches are made in memory: nothing is read and nothing prepared."""
    warm: Words | None = None
    """All files are in memory already: nothing is read, all is prepared."""


class Studies(Model):
    """Ready-made designs over experiments, by the experiment's name."""

    stalls: dict[ExperimentName, Stalls] = {}
    """Experiments that run again with less to wait for."""


class Config(Model):
    """The whole of config/config.yaml."""

    site: Name = "local"
    """A folder of slurm/."""
    hardware: Name | None = None
    """Which of the site's hardware to use; None: the first that suits."""
    queue: Name | None = None
    """Which of the site's queues to use; None: the first that takes the job."""
    avoid_bad_nodes: Annotated[bool, Field(strict=True)] = True
    """Whether jobs avoid a node that spoils runs; false here or in the site's file turns that off."""
    budget: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Most node-hours that the runs without a result may take by their time limits; None: any."""
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
    """The experiments that are run; None: all. Files given by --configfile add to those of config.yaml."""

    @cached_property
    def swept(self) -> dict[str, SweptPoint]:
        """The combinations of all sweeps, by the names of their experiments."""
        return {
            point_name(name, values): SweptPoint(of=name, values=values)
            for name, one in self.experiments.items()
            for values in (one.sweep.points if one.sweep else ())
        }

    @cached_property
    def measured(self) -> dict[str, Experiment]:
        """All experiments by name, with those of the combinations of sweeps in place of the swept ones."""
        plain = {name: one for name, one in self.experiments.items() if not one.sweep}
        return plain | {
            name: self.experiments[point.of].at(point.values) for name, point in self.swept.items()
        }

    @property
    def selected(self) -> dict[str, Experiment]:
        """The experiments that are run, by name."""
        if self.only is None:
            return self.measured
        return {
            name: one
            for name, one in self.measured.items()
            if {name, *([self.swept[name].of] if name in self.swept else [])} & {*self.only}
        }

    @property
    def taken_images(self) -> dict[str, str]:
        """Where images come from that are taken as they are, by their names in the project."""
        images = [one.image for one in self.selected.values() if isinstance(one.image, str)]
        return {image_name(image): image for image in images if is_taken(image)}

    @property
    def built_images(self) -> dict[str, BuiltImage]:
        """The images that are described by what they are made of, by their names in the project."""
        images = [one.image for one in self.selected.values()]
        return {image.name: image for image in images if isinstance(image, BuiltImage)}

    @model_validator(mode="after")
    def few_runs_of_sweeps(self) -> "Config":
        """Refuse more runs than anybody measures, before they are made."""
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

    @model_validator(mode="after")
    def distinct_names_of_sweeps(self) -> "Config":
        """Refuse a combination that has the name of another experiment."""
        for name, point in self.swept.items():
            if name in self.experiments:
                raise ValueError(
                    f"experiments.{name}: the sweep of {point.of} makes an experiment of that name; "
                    "choose another"
                )
        return self

    @model_validator(mode="after")
    def known_selection(self) -> "Config":
        """Refuse a selection of what is not an experiment."""
        for name in self.only or ():
            if name not in self.experiments and name not in self.swept:
                hint = choices([*self.experiments, *self.swept], name)
                raise ValueError(f"only: {name}: is not an experiment; {hint}")
        return self

    @model_validator(mode="after")
    def one_image_of_a_name(self) -> "Config":
        """Refuse two images that would be called the same: one would be measured as the other."""
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
    def native_experiments(self) -> "Config":
        """Refuse a name that the native one of an experiment in both runtimes has."""
        for name, one in self.measured.items():
            if len(one.runtime) > 1 and experiment_name(native_name(name)) in self.measured:
                raise ValueError(
                    f"experiments.{native_name(name)}: the runtime of {name} already adds an "
                    "experiment of this name; choose another name"
                )
        return self

    @model_validator(mode="after")
    def studied_experiments(self) -> "Config":
        """Refuse a study of no experiment, or one that adds what has the name of another."""
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
            for variant in VARIANTS:
                added = experiment_name(f"{name}-{variant}")
                if added in self.measured:
                    raise ValueError(
                        f"experiments.{added}: studies.stalls.{name} already adds an experiment "
                        "of this name; choose another name"
                    )
        return self
