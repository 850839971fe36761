"""Schemas of the JSON files in a run's folder, for writers and readers.

Readers ignore unknown keys: a newer writer may add keys within a schema version.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from argosy.runtime.contract.layout import PROVENANCE, SCHEMA_VERSION
from argosy.runtime.contract.run import RunSpec, run_of
from argosy.validation import describe
from argosy_common.errors import ArgosyError, plain
from argosy_common.reading import NotReadError, json_of, read_bytes

Version = Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)]
Whole = Annotated[int, Field(ge=0, lt=1 << 31)]
"""An integer that fits the tables' INTEGER columns."""
Bytes = Annotated[int, Field(ge=0, lt=1 << 63)]
Unix = Annotated[float, Field(ge=0, lt=253_402_300_800)]
"""Seconds since the epoch, up to the year 9999."""


class RunFolderError(ArgosyError):
    """A file of a run's folder violates docs/run-folder.md."""


class OtherVersionError(RunFolderError):
    """Another version of Argosy wrote a file."""


class Record(BaseModel):
    """An object in a file."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class File(Record):
    """The object at the top of a file."""

    schema_version: Version = SCHEMA_VERSION

    def content(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class Failure(Record):
    """The first failure of a job; `rank` is None if no rank caused it."""

    node: Whole | None
    rank: Whole | None
    cause: str


class Verdict(File):
    """verdict.json and result.json: the end of an attempt. Times are in seconds since the epoch."""

    run_id: str
    attempt: str
    spec: str | None = None
    """Digest of the attempt's run.json."""
    programs: dict[str, str] | None = None
    """Digests of program files, as in the attempt's claim."""
    state: Literal["completed", "failed", "interrupted", "cancelled"]
    started: Unix
    ended: Unix
    seconds: float
    hosts: list[str | None]
    """Host of each node; None for a node without a status file."""
    failure: Failure | None
    restart: dict[str, Any] | None = None
    """The next attempt, if the job restarts after this failed one."""
    groups: Whole | None = None
    """Number of groups of connected ranks; 1: all are connected; None: unknown."""
    remarks: list[str] = []
    """Doubts about a completed run, a phrase each."""


class Machine(Record):
    """A node's hardware, as found by its agent."""

    cpu_model: str | None = None
    cpus: Whole | None = None
    memory_bytes: Bytes | None = None
    kernel: str | None = None
    engine: str | None = None


class PrintedLoss(Record):
    """The first NaN or infinite loss that a rank printed; `at` is in Unix seconds."""

    text: str
    at: Unix


class RankOfNode(Record):
    """A rank in node-<n>.json, with the keys that the report uses."""

    rank: Whole
    not_finite: PrintedLoss | None = None


class StagedData(Record):
    """A node's copy of data: the time it took, and whether an earlier job had made it."""

    seconds: Annotated[float, Field(ge=0)]
    was_there: bool


class NodeStatus(File):
    """node-<n>.json: the last status of a node's agent."""

    node: Whole
    host: str
    state: Literal["running", "completed", "failed", "interrupted", "cancelled"]
    started: Unix
    ended: Unix | None
    machine: Machine
    failure: Failure | None
    ranks: list[RankOfNode] = []
    silence: str | None = None
    """Of the head: the time without progress when the job was ended as hung, and where the ranks were."""
    staged: dict[str, StagedData] = {}
    """Copies of data by path in the container."""


class Checkpoint(Record):
    """The checkpoint from which an attempt continues: `attempt` saved it after `step` steps at `unix`."""

    attempt: str
    step: Whole
    unix: Unix | None = None


class Experiment(Record):
    """A run's section of config.yaml, in claim.json or provenance.json."""

    command: list[str] = []
    """The command without this machine's paths, which run.json has for native runs."""
    resources: dict[str, int | str] = {}
    environment: dict[str, str] = {}


def _run_or_none(value: object) -> RunSpec | None:
    if value is None or isinstance(value, RunSpec):
        return value
    if not isinstance(value, dict):
        raise ValueError("no object")
    return run_of(value)


class Claim(File):
    """claim.json: the start of an attempt in Unix seconds, and its inputs."""

    unix: Unix = 0.0
    spec: str | None = None
    """Digest of the batch script and its run.json."""
    continues: Checkpoint | None
    run: Annotated[RunSpec | None, BeforeValidator(_run_or_none)] = None
    experiment: Experiment | None = None
    programs: dict[str, str] = {}
    """Digests of the program's files at the start; empty: not recorded."""


class SeenData(Record):
    """Host data before the ranks started; `newest_unix` is the time of its last change."""

    path: str
    files: Whole
    bytes: Bytes
    newest_unix: Unix
    is_whole: bool
    """Whether all files were counted."""
    sha256: str | None

    @property
    def identity(self) -> str | None:
        """An identifier of the data's content, independent of its path; None if not all was read."""
        if self.sha256 or not self.is_whole:
            return self.sha256
        return f"{self.files} files, {self.bytes} bytes"


class DataFile(File):
    """data.json: host data by path in the container."""

    data: dict[str, SeenData]


class SiteOfRun(Record):
    scheduler: str = "local"


class Provenance(File):
    """provenance.json, with the keys that Argosy reads."""

    experiment: Experiment = Experiment()
    site: SiteOfRun = SiteOfRun()


class Job(Record):
    """A job submitted for a run; schedulers may add keys."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, extra="allow")

    scheduler: str | None = None
    job_id: Annotated[str, BeforeValidator(lambda each: str(each) if type(each) is int else each)]
    submitted: Unix = 0.0
    script: str | None = None
    script_sha256: str | None = None
    pid: int | None = None
    """Process of a local job."""
    process_created: float | None = None
    """Start of that process in Unix seconds."""
    allocation: str | None = None
    """Folder of a shared job, relative to the site's folder."""
    collected: bool = False
    """Whether a driver has processed its end."""
    ended: str | None = None


class JobFile(File):
    """job.json: the jobs submitted for a run, newest last."""

    jobs: list[Job] = []


Model = TypeVar("Model", bound=Record)
FileModel = TypeVar("FileModel", bound=File)


def read_model(path: Path, top: Path, model: type[FileModel]) -> FileModel:
    """Read `path` below `top` as `model`.

    Raises:
        OtherVersionError: if another version wrote it, naming that version.
        RunFolderError: for any other fault, naming file, key and remedy.
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
    """Validate the `content` of `path` as `model`; raises as `read_model`."""
    try:
        return model.model_validate(content)
    except ValidationError as problem:
        raise RunFolderError(describe(problem, path, model)) from problem


def try_model(path: Path, top: Path, model: type[FileModel]) -> FileModel | None:
    """Read as `read_model`; return None if the file is missing, incomplete or invalid."""
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
    """Return the content of a JSON file below `top`; None if it is unreadable."""
    try:
        return json_of(read_bytes(path, top))
    except (OSError, ValueError):
        return None


def check_version(path: Path, top: Path, version: object) -> None:
    """Raise OtherVersionError unless this Argosy reads `version`."""
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise OtherVersionError(
            f"{path}: its schema_version is {version}; this Argosy reads {SCHEMA_VERSION}; it was "
            f"written by {_writer(path, top)}: use that version for {top}, or move the folder away"
        )


def _writer(path: Path, top: Path) -> str:
    """Return the version of Argosy that planned the file's run."""
    run_dir = top.joinpath(*path.relative_to(top).parts[:2])
    try:
        argosy = read_json(run_dir / PROVENANCE, top)["argosy"]
        commit = f" ({str(argosy['git_commit'])[:12]})" if argosy.get("git_commit") else ""
        return plain(f"Argosy {argosy['version']}{commit}")
    except (LookupError, TypeError, AttributeError):
        return "another version of Argosy"
