"""The JSON objects of a run folder, as far as the tables need them (docs/run-folder.md).

Keys that are not named here are left alone: a newer writer may say more within one schema version.
"""

import math
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from argosy.reading import NotReadError, json_of, read_bytes
from argosy.results.errors import ResultsError
from argosy.validation import describe

SCHEMA_VERSION = 1
MOST_NODES = 1 << 20
MOST_RANKS_PER_NODE = 1 << 10

Whole = Annotated[int, Field(ge=0, lt=1 << 31)]
"""As the tables hold it."""
Bytes = Annotated[int, Field(ge=0, lt=1 << 63)]


class Record(BaseModel):
    """An object at the top of a file."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Image(Record):
    name: str
    digest: str


class Variant(Record):
    """Of which experiment a run is, but for its data."""

    of: str
    data: Literal["synthetic", "warm"]


def _number(text: str | None) -> float | None:
    """A positive number, as libraries read it from a variable; None where it is none."""
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


class Asked(Record):
    """run.json: what was asked."""

    run_id: str
    experiment: str
    site: str
    nodes: Annotated[int, Field(strict=True, ge=1, le=MOST_NODES)]
    ranks_per_node: Annotated[int, Field(strict=True, ge=1, le=MOST_RANKS_PER_NODE)]
    repeat: Whole
    scaling: Literal["strong", "weak"]
    image: Image | None
    """None for a run without a container."""
    variant: Variant | None = None
    timeline: bool = False
    """Whether Horovod was to write one."""
    command: list[str] = []
    launcher: str | None = None
    hardware: str | None = None
    """The entry of the site's file; None: of a site that has one kind of nodes."""
    throughput: str | None = None
    rank_environment: dict[str, str] = {}

    @property
    def horovod_cycle_s(self) -> float | None:
        """How often Horovod was to look for gradients; None: its default."""
        milliseconds = _number(self.rank_environment.get("HOROVOD_CYCLE_TIME"))
        return None if milliseconds is None else milliseconds / 1000

    @property
    def horovod_fusion_bytes(self) -> float | None:
        """How many bytes Horovod was to exchange at once; None: its default."""
        return _number(self.rank_environment.get("HOROVOD_FUSION_THRESHOLD"))


class Failure(Record):
    """The first failure of a job; `rank` is None when it was not a rank's."""

    node: Whole | None
    rank: Whole | None
    cause: str


class Verdict(Record):
    """verdict.json and result.json: how an incarnation ended. Times in seconds since the epoch."""

    run_id: str
    incarnation: str
    state: Literal["completed", "failed", "interrupted", "cancelled"]
    started: float
    ended: float
    seconds: float
    hosts: list[str]
    failure: Failure | None


class Machine(Record):
    cpu_model: str | None = None
    cpus: Whole | None = None
    memory_bytes: Bytes | None = None
    kernel: str | None = None
    engine: str | None = None


class NodeStatus(Record):
    """node-<n>.json: what the agent of a node knew last."""

    node: Whole
    host: str
    state: Literal["running", "completed", "failed", "interrupted", "cancelled"]
    started: float
    ended: float | None
    machine: Machine
    failure: Failure | None


class Checkpoint(Record):
    """The point from which an incarnation goes on: `step` steps were done by `incarnation`."""

    incarnation: str
    step: Whole


class Experiment(Record):
    """A run's section of config.yaml, of claim.json or provenance.json."""

    command: list[str] = []
    """Without the paths of the machine that run.json has in that of a run without a container."""
    needs: dict[str, int] = {}
    environment: dict[str, str] = {}


class Claim(Record):
    """claim.json: how an incarnation began, and by which description."""

    continues: Checkpoint | None
    run: Asked | None = None
    experiment: Experiment | None = None
    programs: dict[str, str] = {}
    """Digests of the files that the program was made of then; none: it was not looked."""


class Provenance(Record):
    """provenance.json, as far as it says what was run."""

    experiment: Experiment = Experiment()


class Gpu(Record):
    """An accelerator of a node, as a telemetry file's header describes it."""

    gpu: Whole | None = None
    uuid: str | None = None
    name: str | None = None
    memory_bytes: Bytes | None = None
    mig: bool | None = None
    energy_from_power: bool | None = None


class TelemetryHeader(Record):
    """The first line of a telemetry file, as far as it is about the node's GPUs."""

    gpus: list[Gpu] | None = None
    driver: str | None = None
    unread: dict[str, str | None] | None = None


class Job(Record):
    job_id: str | int


class Jobs(Record):
    """job.json: the jobs that were submitted for a run, the newest last."""

    jobs: list[Job]


Model = TypeVar("Model", bound=Record)


def read_object(path: Path, top: Path) -> dict[str, Any]:
    """Read a JSON object of the known schema version from `path` below `top`, or raise ResultsError."""
    try:
        found = json_of(read_bytes(path, top))
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, NotReadError) else problem
        raise ResultsError(
            f"{path}: cannot be read as JSON ({why}); move its run folder away and run it again"
        ) from problem
    if not isinstance(found, dict):
        raise ResultsError(f"{path}: holds no JSON object; move its run folder away")
    check_version(path, found.get("schema_version"))
    return found


def check_version(path: Path, version: object) -> None:
    """Raise ResultsError unless `version` is the one that this Argosy reads."""
    if version != SCHEMA_VERSION:
        raise ResultsError(
            f"{path}: its schema_version is {version}, this Argosy reads {SCHEMA_VERSION}; move "
            "the folder away, or make the tables with the version of Argosy that wrote it"
        )


def read_model(path: Path, top: Path, model: type[Model]) -> Model:
    """Read `path` below `top` as `model`, or raise ResultsError naming file and key."""
    return as_model(path, read_object(path, top), model)


def as_model(path: Path, content: dict[str, Any], model: type[Model]) -> Model:
    """The `content` of `path` as `model`; raises ResultsError naming file and key."""
    try:
        return model.model_validate(content)
    except ValidationError as problem:
        raise ResultsError(describe(problem, path, model)) from problem
