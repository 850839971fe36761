"""Keys of slurm/<site>/site.yaml.

Batch options have sbatch's long names. They are given at three levels: a queue overrides hardware, which
overrides the site. `null` removes a line that Argosy would write. Without a key, Argosy checks nothing and
Slurm decides.
"""

# ruff: noqa: RUF012 - pydantic copies defaults

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from argosy.site.values import (
    TO_FILL_IN,
    Argument,
    Folder,
    Key,
    OptionName,
    Options,
    Text,
    keys_to_fill_in,
)
from argosy.validation import (
    Count,
    Mebibytes,
    Model,
    Seconds,
    Value,
    printable,
    validated,
)
from argosy.yaml_file import read_yaml
from argosy_common.errors import ArgosyError

LOCAL = "local"
"""The scheduler that runs jobs as processes of this machine."""


class Source(Model):
    """A source of a site's values."""

    where: Text
    """Page, repository or person."""
    grade: Literal["A", "B", "C"]
    """A: the operator's documentation; B: a third project's configuration; C: a user's notes."""
    date: Text | None = None
    """Date of the page or its last change; None if unknown."""


class Hardware(Model):
    """One kind of node: its resources for jobs, and the options that request it."""

    architecture: Literal["x86_64", "aarch64"]
    """Processor architecture, as printed by `uname -m`."""
    cores: Count | None = None
    """Cores of a node that jobs may request."""
    threads_per_core: Count = 1
    """CPUs that Slurm counts per core: 2 if it counts hardware threads."""
    memory: Mebibytes | None = None
    """Memory of a node that jobs may request, in MiB."""
    gpus: Annotated[int, Field(ge=0, strict=True)] = 0
    """GPUs of a node; a MIG slice counts as a GPU."""
    gpu: Text | None = None
    """Model of the GPU."""
    account: Text | None = None
    """Account, if it differs from the site's."""
    options: Options = {}
    """Options of sbatch that request this hardware."""


class Limit(Model):
    """A limit on the wall time of jobs by their size."""

    nodes: Count | None = None
    """Largest number of nodes with this limit; None: any number."""
    time: Seconds | None = None
    """Longest wall time; None: no known limit."""

    def holds(self, nodes: int) -> bool:
        """Return whether the limit covers a job of `nodes` nodes."""
        return self.nodes is None or nodes <= self.nodes


class Queue(Model):
    """A way into the cluster: usually a partition, a QoS or both."""

    hardware: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Names of its kinds of nodes."""
    options: Options = {}
    """Options of sbatch that select this queue."""
    limits: tuple[Limit, ...] = ()
    """Limits by rising node count; the first one that covers a job's nodes applies."""
    only_by_name: bool = False
    """Use this queue only for runs that name it, for example a test or preemptible queue."""
    gpus_only: bool = False
    """Whether it rejects jobs without GPUs."""
    whole_nodes_from: Count | None = None
    """Jobs of this many nodes or more must use all GPUs of each node."""

    @field_validator("limits")
    @classmethod
    def rising(cls, limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
        """Refuse unsorted limits, and two limits for one size."""
        counts = [limit.nodes for limit in limits]
        known = [count for count in counts if count is not None]
        if None in counts[:-1] or known != sorted(set(known)):
            raise ValueError("sort the limits by node count, with a limit without nodes last")
        return limits


class Images(Model):
    """Staging, engine and build place of images."""

    stage: Literal["shared", "node", "memory"] = "shared"
    """shared: use images on the shared file system; node: unpack them once on each node's local disk, and
    keep them for the next jobs; memory: unpack them in each node's memory, for one job."""
    folder: Folder | None = None
    """Folder on the node's disk for `stage: node` of images or data, with variables. None: tmpdir."""
    cache_size: Mebibytes = 50 * 1024
    """Limit for a user's images and data on a node with `stage: node`, in MiB; the least recently used ones
    are evicted."""
    engine: Literal["runc", "crun", "apptainer", "proot", "proot-ptrace"] | None = None
    """Container engine; None: the fastest working engine with isolation, as measured on a node. proot does
    not isolate, and is the default only if nothing else works."""
    build: Literal["login", "job"] = "login"
    """Where the workflow builds images: login: where Snakemake runs; job: on a compute node."""


class Site(Model):
    """A cluster, or this machine."""

    scheduler: Key
    """`slurm`, `local`, or another installed scheduler (docs/schedulers.md)."""
    cluster_name: Text | None = None
    """The scheduler's name for the cluster; `argosy site here` finds the site by it."""
    interface: Text | None = None
    """Network interface between the nodes; required for runs."""
    host_suffix: Annotated[str, AfterValidator(printable)] = ""
    """Suffix of a node's host name that selects its address on that interface."""
    account_required: bool = False
    """Whether to refuse jobs without an account."""
    account: Text | None = None
    """Account to charge."""
    tmpdir: Folder = "/tmp"
    """Local folder of a node for temporary files; may contain variables such as $SLURM_TMPDIR."""
    absent_folders: Mapping[Folder, Text] = {}
    """Folders of login nodes that compute nodes lack, with the remedy."""
    images: Images = Images()
    """Staging, engine and build place of images."""
    options: Options = {}
    """Options of sbatch for every job."""
    unsupported_options: Mapping[OptionName, Text] = {}
    """Options that the site rejects, with reasons."""
    srun: tuple[Argument, ...] = ()
    """Extra arguments for the `srun` that starts a task on each node."""
    mpi: Annotated[str | None, Field(pattern=r"^[a-z][a-z0-9_]*$")] = None
    """Type of `srun --mpi` for the site's own MPI, as listed by `srun --mpi=list`; for `launcher: srun`.
    None: no such runs."""
    same_allocation: bool = True
    """Whether a job may hold several runs, one after another; the launcher must then start on fewer nodes
    than the job has."""
    environment: Mapping[Text, Text] = {}
    """Variables of the ranks."""
    variables: Mapping[Key, Value] = {}
    """Values for {site.NAME} in commands and variables of experiments."""
    avoid_bad_nodes: bool = True
    """Whether jobs avoid a node on which this driver's runs failed as on no other node."""
    hardware: Mapping[Key, Hardware] = {}
    """Kinds of nodes by name; the first that fits is used."""
    queues: Mapping[Key, Queue] = {}
    """Queues by name; the first that accepts a job is used."""
    operator: Text | None = None
    """Operator and country."""
    contact: Text | None = None
    """Address of the documentation or help desk."""
    sources: tuple[Source, ...] = ()
    """Sources of these values."""
    tried: Text | None = None
    """Date of Argosy's last run at the site; None: never."""

    @model_validator(mode="after")
    def whole(self) -> "Site":
        """Refuse keys that contradict each other."""
        if self.scheduler != LOCAL and not (self.hardware and self.queues):
            raise ValueError("a cluster needs at least one entry in hardware and in queues")
        if self.scheduler == LOCAL and self.images.build == "job":
            raise ValueError("images.build: `scheduler: local` cannot build in a job")
        if self.scheduler != "slurm" and self.mpi:
            raise ValueError("mpi: only Slurm starts MPI tasks, by `srun --mpi`: remove this key")
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
        """Return (key, options) for every level."""
        return [
            ("options", self.options),
            *((f"hardware.{name}.options", each.options) for name, each in self.hardware.items()),
            *((f"queues.{name}.options", each.options) for name, each in self.queues.items()),
        ]


def misnamed_site(folder: Path) -> ArgosyError | None:
    """Return the error for a site whose only file is a `site.yml`; None for any other folder."""
    path, wrong = folder / "site.yaml", folder / "site.yml"
    if path.exists() or not wrong.is_file():
        return None
    return ArgosyError(f"{path}: there is no such file", f"rename {wrong.name} to {path.name}")


def read_site(folder: Path) -> Site:
    """Read and validate the `site.yaml` of a site's folder.

    Raises:
        ArgosyError: if it is missing, not YAML, or has wrong keys or values.
    """
    path = folder / "site.yaml"
    if not path.is_file():
        known = sorted(entry.parent.name for entry in folder.parent.glob("*/site.yaml"))
        raise misnamed_site(folder) or ArgosyError(
            f"{path}: there is no such site", f"there are {', '.join(known)}"
        )
    content = read_yaml(path)
    if open_keys := ", ".join(keys_to_fill_in(content)):
        raise ArgosyError(
            f"{path}: fill in {open_keys}: they still contain `{TO_FILL_IN}`",
            "docs/porting.md lists the commands that print these values",
        )
    return validated(content, path, Site)
