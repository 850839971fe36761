"""The differences between clusters: slurm/<site>/site.yaml.

A site is data. Its batch options are those of sbatch by their long names, given at three levels
(site, hardware, queue), where the inner level wins; `null` takes away a line that Argosy would write.
What is not known of a site stays out: then Argosy checks nothing there, and Slurm decides.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from argosy.site.values import (
    TO_FILL_IN,
    Argument,
    Folder,
    Key,
    OptionName,
    Options,
    Text,
    keys_to_fill_in,
    printable,
)
from argosy.validation import AS_WRITTEN, Count, Mebibytes, Seconds, Value, describe
from argosy.yaml_file import read_yaml
from argosy_common.errors import ArgosyError

LOCAL = "local"
"""The scheduler without a cluster: jobs are processes of this machine."""


class Model(BaseModel):
    """Immutable, and strict about unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Model):
    """Where facts of a site come from."""

    where: Text
    """The page, repository or person."""
    grade: Literal["A", "B", "C"]
    """A: the operator's documentation; B: configuration that a third project keeps; C: a user's notes."""
    date: Text | None = None
    """Date of the page or its last change; None if unknown."""


class Hardware(Model):
    """One kind of node: what jobs may use of it, and the options that request it."""

    architecture: Literal["x86_64", "aarch64"]
    """The processors, as `uname -m` names them."""
    cores: Count | None = None
    """Cores of a node that jobs may request."""
    threads_per_core: Count = 1
    """CPUs that Slurm counts per core: 2 if it counts hardware threads."""
    memory: Mebibytes | None = None
    """Memory of a node that jobs may request, in MiB."""
    gpus: Annotated[int, Field(ge=0, strict=True)] = 0
    """GPUs of a node; a MIG slice counts as a GPU."""
    gpu: Text | None = None
    """The model of the GPU, in words."""
    account: Text | None = None
    """The account, if it differs from the site's."""
    options: Options = {}
    """Options of sbatch that request it."""


class Limit(Model):
    """The longest wall time of jobs of up to `nodes` nodes; None: no known limit."""

    nodes: Count | None = None
    """The largest number of nodes with this limit."""
    time: Seconds | None = None
    """The longest wall time."""

    def holds(self, nodes: int) -> bool:
        """Return whether it is the limit of a job of that size."""
        return self.nodes is None or nodes <= self.nodes


class Queue(Model):
    """A way into the cluster: usually a partition, a QoS or both."""

    hardware: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Kinds of nodes that it leads to."""
    options: Options = {}
    """Options of sbatch that choose it."""
    limits: tuple[Limit, ...] = ()
    """By rising node count; the first one that covers a job's nodes applies."""
    only_by_name: bool = False
    """Only for runs that name it, for instance because it is for tests or preemptible."""
    gpus_only: bool = False
    """Whether it rejects jobs without GPUs."""
    whole_nodes_from: Count | None = None
    """The number of nodes from which jobs must use all GPUs of each node."""

    @field_validator("limits")
    @classmethod
    def rising(cls, limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
        """Refuse limits that do not rise, or two for one size."""
        counts = [limit.nodes for limit in limits]
        known = [count for count in counts if count is not None]
        if None in counts[:-1] or known != sorted(set(known)):
            raise ValueError("sort the limits by node count, with a limit without nodes last")
        return limits


class Images(Model):
    """Where nodes take images from, and where images are built."""

    stage: Literal["shared", "node", "memory"] = "shared"
    """shared: used from the file system where it was built; node: unpacked once on each node's own
    disk, and kept there for the next jobs; memory: unpacked in each node's memory, for the job."""
    folder: Folder | None = None
    """With `stage: node` of images or data, the folder of the node's disk; may hold variables. None: the
    site's tmpdir."""
    cache_size: Mebibytes = 50 * 1024
    """With `stage: node`, what a user's kept images and data may take there, in MiB; the least recently
    used go."""
    engine: Literal["runc", "crun", "apptainer", "proot", "proot-ptrace"] | None = None
    """What starts containers; None: the fastest of those that isolate and work on a node, as measured
    there. proot does not isolate, in either way; it is taken by itself only where nothing else works."""
    build: Literal["login", "job"] = "login"
    """Where the workflow builds images: where Snakemake runs, or on a compute node."""


class Site(Model):
    """One cluster, or this machine."""

    scheduler: Key
    """The scheduler: `slurm`, `local`, or another installed one (docs/schedulers.md)."""
    cluster_name: Text | None = None
    """The scheduler's name of the cluster, by which `argosy site here` finds it."""
    interface: Text | None = None
    """Network interface over which the nodes reach each other; runs need it."""
    host_suffix: Annotated[str, AfterValidator(printable)] = ""
    """Suffix of a node's name that selects its address on that interface."""
    account_required: bool = False
    """Whether a job without an account is an error."""
    account: Text | None = None
    """The account to charge."""
    tmpdir: Folder = "/tmp"
    """Local folder of a node for temporary files; may hold variables such as $SLURM_TMPDIR."""
    absent_folders: Mapping[Folder, Text] = {}
    """Folders of login nodes that compute nodes lack, with the remedy."""
    images: Images = Images()
    """Where nodes take images from, and where images are built."""
    options: Options = {}
    """Options of sbatch of every job."""
    unsupported_options: Mapping[OptionName, Text] = {}
    """Options that the site rejects, with its reasons."""
    srun: tuple[Argument, ...] = ()
    """Arguments of the `srun` that starts a task on each node."""
    mpi: Annotated[str | None, Field(pattern=r"^[a-z][a-z0-9_]*$")] = None
    """The type of `srun --mpi` that starts the site's own MPI, for `launcher: srun`; one that
    `srun --mpi=list` names. None: no such runs."""
    same_allocation: bool = True
    """Whether a job may hold several runs, one after another: the launcher has to start on fewer nodes than
    the job has."""
    environment: Mapping[Text, Text] = {}
    """Variables of the ranks."""
    variables: Mapping[Key, Value] = {}
    """Values for commands and variables of experiments, which name them as {site.NAME}."""
    avoid_bad_nodes: bool = True
    """Whether jobs avoid a node on which runs of the driver failed in a way that no other node shares."""
    hardware: Mapping[Key, Hardware] = {}
    """In the order in which they are tried."""
    queues: Mapping[Key, Queue] = {}
    """In the order in which they are tried."""
    operator: Text | None = None
    """The operator and its country."""
    contact: Text | None = None
    """The address of its documentation or help desk."""
    sources: tuple[Source, ...] = ()
    """Where the values come from."""
    tried: Text | None = None
    """When Argosy last ran there; None: not yet."""

    @model_validator(mode="after")
    def whole(self) -> "Site":
        """Refuse keys that contradict each other."""
        if self.scheduler != LOCAL and not (self.hardware and self.queues):
            raise ValueError("a cluster needs at least one entry in hardware and in queues")
        if self.scheduler == LOCAL and self.images.build == "job":
            raise ValueError("images.build: `scheduler: local` cannot build in a job")
        if self.scheduler != "slurm" and self.mpi:
            raise ValueError("mpi: only Slurm starts tasks of MPI, by `srun --mpi`: leave it out")
        for name, queue in self.queues.items():
            if unknown := set(queue.hardware) - set(self.hardware):
                raise ValueError(
                    f"queues.{name}.hardware: {min(unknown)} is not in hardware; there are "
                    f"{', '.join(self.hardware)}"
                )
        for where, options in self.all_options():
            for option, value in options.items():
                if value is not None and option in self.unsupported_options:
                    raise ValueError(
                        f"{where}.{option}: forbidden: {self.unsupported_options[option]}"
                    )
        return self

    def all_options(self) -> list[tuple[str, Options]]:
        """Return the options of every level, with the key under which they stand."""
        return [
            ("options", self.options),
            *((f"hardware.{name}.options", each.options) for name, each in self.hardware.items()),
            *((f"queues.{name}.options", each.options) for name, each in self.queues.items()),
        ]


def read_site(folder: Path) -> Site:
    """Read and validate the `site.yaml` of a site's folder.

    Raises:
        ArgosyError: when it is missing, not YAML, or holds wrong keys or values.
    """
    path = folder / "site.yaml"
    if not path.is_file():
        known = sorted(entry.parent.name for entry in folder.parent.glob("*/site.yaml"))
        raise ArgosyError(f"{path}: there is no such site", f"there are {', '.join(known)}")
    try:
        content = read_yaml(path)
        if open_keys := ", ".join(keys_to_fill_in(content)):
            raise ArgosyError(
                f"{path}: fill in {open_keys}: they still contain `{TO_FILL_IN}`",
                "docs/porting.md lists the commands that print these values",
            )
        return Site.model_validate(content, context=AS_WRITTEN)
    except ValidationError as problem:
        raise ArgosyError(describe(problem, path, Site)) from None
