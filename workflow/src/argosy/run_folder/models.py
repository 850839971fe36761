"""The JSON files of a run's folder: each file's schema, for those who write it and those who read it.

A key that is not named here is left alone: a newer writer may say more within one schema version.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from argosy.runtime.contract.layout import PROVENANCE, SCHEMA_VERSION
from argosy.runtime.contract.run import RunSpec, run_of
from argosy.validation import describe
from argosy_common.errors import ArgosyError, plain
from argosy_common.reading import NotReadError, json_of, read_bytes

Version = Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)]
Whole = Annotated[int, Field(ge=0, lt=1 << 31)]
"""As the tables hold it."""
Bytes = Annotated[int, Field(ge=0, lt=1 << 63)]
Unix = Annotated[float, Field(ge=0, lt=253_402_300_800)]
"""Seconds since the epoch, up to the last year that calendars have."""


class RunFolderError(ArgosyError):
    """A file of a run's folder that cannot be read as docs/run-folder.md says."""


class OtherVersionError(RunFolderError):
    """A file that another version of Argosy wrote."""


class Record(BaseModel):
    """An object in a file."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class File(Record):
    """The object at the top of a file."""

    schema_version: Version = SCHEMA_VERSION

    def content(self) -> dict[str, Any]:
        """Return what is written into the file."""
        return self.model_dump(mode="json")


class Failure(Record):
    """The first failure of a job; `rank` is None when it was not a rank's."""

    node: Whole | None
    rank: Whole | None
    cause: str


class Verdict(File):
    """verdict.json and result.json: how an attempt ended. Times in seconds since the epoch."""

    run_id: str
    attempt: str
    spec: str | None = None
    """Of the run.json that the attempt was started for."""
    programs: dict[str, str] | None = None
    """As in the attempt's claim."""
    state: Literal["completed", "failed", "interrupted", "cancelled"]
    started: Unix
    ended: Unix
    seconds: float
    hosts: list[str | None]
    """By node; None for one that left no status."""
    failure: Failure | None
    restart: dict[str, Any] | None = None
    """Of a failed attempt: the next one, which its job begins by itself."""
    groups: Whole | None = None
    """Into which the ranks fall that were connected to each other; 1: they have met; None: not known."""
    remarks: list[str] = []
    """What is doubtful of a completed run, a phrase each."""


class Machine(Record):
    """A node's hardware, as its agent saw it."""

    cpu_model: str | None = None
    cpus: Whole | None = None
    memory_bytes: Bytes | None = None
    kernel: str | None = None
    engine: str | None = None


class PrintedLoss(Record):
    """The first loss that a rank printed as NaN or infinite; `at` is unix."""

    text: str
    at: Unix


class RankOfNode(Record):
    """A rank in node-<n>.json, as far as a report tells of it."""

    rank: Whole
    not_finite: PrintedLoss | None = None


class StagedData(Record):
    """How a node came by its copy of data; `was_there` if another job has made it."""

    seconds: Annotated[float, Field(ge=0)]
    was_there: bool


class NodeStatus(File):
    """node-<n>.json: what the agent of a node knew last."""

    node: Whole
    host: str
    state: Literal["running", "completed", "failed", "interrupted", "cancelled"]
    started: Unix
    ended: Unix | None
    machine: Machine
    failure: Failure | None
    ranks: list[RankOfNode] = []
    silence: str | None = None
    """Of the head: for how long no rank had got on when the job was ended, and where they were."""
    staged: dict[str, StagedData] = {}
    """By the data's path in the container."""


class Checkpoint(Record):
    """The point from which an attempt goes on: `step` steps were done by `attempt`, saved at `unix`."""

    attempt: str
    step: Whole
    unix: Unix | None = None


class Experiment(Record):
    """A run's section of config.yaml, of claim.json or provenance.json."""

    command: list[str] = []
    """Without the paths of the machine that run.json has in that of a run without a container."""
    resources: dict[str, int | str] = {}
    environment: dict[str, str] = {}


def _run_or_none(value: object) -> RunSpec | None:
    if value is None or isinstance(value, RunSpec):
        return value
    if not isinstance(value, dict):
        raise ValueError("no object")
    return run_of(value)


class Claim(File):
    """claim.json: when an attempt began (unix), and by which description."""

    unix: Unix = 0.0
    spec: str | None = None
    """Of the batch script, and of the run.json that it was made with."""
    continues: Checkpoint | None
    run: Annotated[RunSpec | None, BeforeValidator(_run_or_none)] = None
    experiment: Experiment | None = None
    programs: dict[str, str] = {}
    """Digests of the files that the program was made of then; none: it was not looked."""


class SeenData(Record):
    """Data of the host as it was before the ranks started; `newest_unix` is of its last change."""

    path: str
    files: Whole
    bytes: Bytes
    newest_unix: Unix
    is_whole: bool
    """Whether all files were counted."""
    sha256: str | None

    @property
    def identity(self) -> str | None:
        """The same text for the same data, wherever it lies; None if not all of it was seen."""
        if self.sha256 or not self.is_whole:
            return self.sha256
        return f"{self.files} files, {self.bytes} bytes"


class DataFile(File):
    """data.json: data by its path in the container."""

    data: dict[str, SeenData]


class SiteOfRun(Record):
    """What provenance.json says of the site."""

    scheduler: str = "local"


class Provenance(File):
    """provenance.json, as far as anybody reads it."""

    experiment: Experiment = Experiment()
    site: SiteOfRun = SiteOfRun()


class Job(Record):
    """A job that was submitted for a run; what schedulers note beside is their own."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, extra="allow")

    scheduler: str | None = None
    job_id: Annotated[str, BeforeValidator(lambda each: str(each) if type(each) is int else each)]
    submitted: Unix = 0.0
    """Unix."""
    script: str | None = None
    script_sha256: str | None = None
    pid: int | None = None
    """Of a job that is a process of this machine, as `process_created` (unix)."""
    process_created: float | None = None
    allocation: str | None = None
    """The folder of a job that runs share, below that of the site."""
    collected: bool = False
    """Whether a driver has seen its end."""
    ended: str | None = None


class JobFile(File):
    """job.json: the jobs that were submitted for a run, the newest last."""

    jobs: list[Job] = []


Model = TypeVar("Model", bound=Record)
FileModel = TypeVar("FileModel", bound=File)


def read_model(path: Path, top: Path, model: type[FileModel]) -> FileModel:
    """Read `path` below `top` as `model`.

    Raises:
        OtherVersionError: naming who wrote the file.
        RunFolderError: for any other fault, naming the file, the key, and what to do.
    """
    return as_model(path, read_object(path, top), model)


def read_spec(path: Path, top: Path) -> RunSpec:
    """Return run.json; raises as `read_model`."""
    content = read_object(path, top)
    try:
        return run_of(content)
    except ValueError as problem:
        raise RunFolderError(f"{path}: {problem}") from problem


def check_place(spec: RunSpec, folder: Path) -> None:
    """Raise RunFolderError for a folder that was copied or renamed: the run is of another one."""
    if (spec.experiment, spec.run_id) != (folder.parent.name, folder.name):
        raise RunFolderError(
            f"{folder / 'run.json'}: belongs to run {spec.experiment}/{spec.run_id}, but its folder "
            f"is {folder.parent.name}/{folder.name}; move a copied or renamed folder away"
        )


def as_model(path: Path, content: dict[str, Any], model: type[Model]) -> Model:
    """Return the `content` of `path` as `model`; raises as `read_model`."""
    try:
        return model.model_validate(content)
    except ValidationError as problem:
        raise RunFolderError(describe(problem, path, model)) from problem


def try_model(path: Path, top: Path, model: type[FileModel]) -> FileModel | None:
    """Return what `read_model` does; None for what is missing, not whole yet or not as it should be."""
    try:
        return read_model(path, top, model)
    except RunFolderError:
        return None


def read_object(path: Path, top: Path) -> dict[str, Any]:
    """Read a JSON object of the known schema version from `path` below `top`; raises as `read_model`."""
    try:
        found = json_of(read_bytes(path, top))
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, NotReadError) else problem
        raise RunFolderError(
            f"{path}: cannot be read as JSON ({why}); move its run folder away and run it again"
        ) from problem
    if not isinstance(found, dict) or "schema_version" not in found:
        raise RunFolderError(
            f"{path}: contains no JSON object with a schema_version; move its run folder away"
        )
    check_version(path, top, found["schema_version"])
    if found.get("runtime") == "udocker":
        raise OtherVersionError(
            f"{path}: its runtime is udocker, which this Argosy calls container; it was written by "
            f"{_writer(path, top)}: use that version for {top}, or move the folder away"
        )
    return found


def read_json(path: Path, top: Path) -> Any:
    """Return what stands in a file of JSON below `top`; None where that cannot be told."""
    try:
        return json_of(read_bytes(path, top))
    except (OSError, ValueError):
        return None


def check_version(path: Path, top: Path, version: object) -> None:
    """Raise OtherVersionError unless `version` is the one that this Argosy reads."""
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise OtherVersionError(
            f"{path}: its schema_version is {version}; this Argosy reads {SCHEMA_VERSION}; it was "
            f"written by {_writer(path, top)}: use that version for {top}, or move the folder away"
        )


def _writer(path: Path, top: Path) -> str:
    """Name the version of Argosy that planned the run to which a file belongs."""
    run_dir = top.joinpath(*path.relative_to(top).parts[:2])
    try:
        argosy = read_json(run_dir / PROVENANCE, top)["argosy"]
        commit = f" ({str(argosy['git_commit'])[:12]})" if argosy.get("git_commit") else ""
        return plain(f"Argosy {argosy['version']}{commit}")
    except (LookupError, TypeError, AttributeError):
        return "another version of Argosy"
