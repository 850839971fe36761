"""run.json, the description of a run: its type and its validation."""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from itertools import chain
from typing import Any, Callable, Mapping, Sequence

from . import layout
from .throughput import throughput_of

RANKS_MEET = "its ranks", "if they need not meet, set independent: true"
"""`RunSpec.meeting_names` of a run whose ranks have to meet."""
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_BELOW = 1 << 31
"""Limit of numbers: tables have 32-bit integers."""
_LONGEST_SHOWN = 200


@dataclass(frozen=True)
class Image:
    """A frozen image, by its name and digest."""

    name: str
    digest: str


@dataclass(frozen=True)
class Variant:
    """The experiment that a run repeats with `synthetic` or `warm` data."""

    of: str
    data: str


@dataclass(frozen=True)
class CheckpointPlan:
    """Seconds of the warning before the time limit, and number of jobs that may continue the run."""

    warning_s: float
    requeues: int


@dataclass(frozen=True)
class Data:
    """A folder or file of the host; `path` may contain variables of the job."""

    path: str
    write: bool
    """Whether the program may write to it."""
    digest: bool
    """Whether to record a digest of its content."""
    stage: str | None = None
    """`node`: each node copies it to its own disk; None: it is used in place."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    value.encode("utf-8")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise ValueError("not a list of strings")
    return tuple(map(_text, value))


def _commands(value: Any) -> Mapping[str, Sequence[tuple[str, ...]]]:
    if not isinstance(value, dict) or not value.keys() <= {"head", "each"}:
        raise ValueError("not commands of head and each")
    return {where: tuple(map(_texts, commands)) for where, commands in value.items()}


def _paths(value: Any) -> tuple[str, ...]:
    return () if value == [] else _texts(value)


def _throughput(value: Any) -> str | Mapping[str, Any]:
    throughput_of(value)
    return _text(value) if isinstance(value, str) else dict(value)


def _variables(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError("not a map of strings")
    return {_text(name): _text(text) for name, text in value.items()}


def _one_of(*words: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in words:
            raise ValueError(f"not {' or '.join(words)}")
        return str(value)

    return check


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"not a whole number from {least} to {most:,}")
        return value

    return check


def _seconds(value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value < _BELOW:
        raise ValueError("not a number of seconds")
    return value  # type: ignore[no-any-return]


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("not true or false")
    return value


def _image(value: Any) -> Image | None:
    if value is None:
        return None
    image = Image(_text(value["name"]), _text(value["digest"]))
    if not _DIGEST.fullmatch(image.digest):
        raise ValueError("its digest is not sha256: and 64 digits")
    return image


def _checkpoints(value: Any) -> CheckpointPlan:
    return CheckpointPlan(_seconds(value["warning_s"]), _whole(0, _BELOW - 1)(value["requeues"]))


def _variant(value: Any) -> Variant:
    return Variant(_text(value["of"]), _one_of("synthetic", "warm")(value["data"]))


def _data(value: Any) -> Mapping[str, Data]:
    return {
        _text(target): Data(
            _text(each["path"]),
            _flag(each["write"]),
            _flag(each["digest"]),
            _one_of("node")(each["stage"]) if "stage" in each else None,
        )
        for target, each in dict(value).items()
    }


def _read(by: Callable[[Any], Any], **absent: Any) -> Mapping[str, Any]:
    """Return a key's metadata: its reader, and its value if it is `absent`; a default is one as well."""
    return {"read": by, **absent}


@dataclass(frozen=True)
class RunSpec:
    """The content of run.json, in the order of its keys.

    Keys with their default value are omitted, so that a new key does not change existing runs.
    """

    spec: str | None = field(metadata=_read(_text, absent=None))
    """Digest of all settings that affect the outcome."""
    run_id: str = field(metadata=_read(_text))
    experiment: str = field(metadata=_read(_text))
    site: str = field(metadata=_read(_text))
    hardware: str | None = field(metadata=_read(_text, absent=None))
    """Entry of `hardware` in site.yaml; None: the site has one kind of nodes."""
    queue: str | None = field(metadata=_read(_text, absent=None))
    nodes: int = field(metadata=_read(_whole(1, layout.MOST_NODES)))
    ranks_per_node: int = field(metadata=_read(_whole(1, layout.MOST_RANKS_PER_NODE)))
    repeat: int = field(metadata=_read(_whole(0, _BELOW - 1)))
    scaling: str = field(metadata=_read(_one_of("strong", "weak")))
    image: Image | None = field(metadata=_read(_image))
    """None for a run with the host's software."""
    runtime: str | None = field(metadata=_read(_one_of("container", "native"), absent=None))
    """`container` or `native`; None, from older versions: `native` if there is no image."""
    command: tuple[str, ...] = field(metadata=_read(_texts))
    launcher: str | None = field(metadata=_read(_text, absent=None))
    rank_environment: Mapping[str, str] = field(metadata=_read(_variables, absent={}))
    """Variables of the ranks, as format strings."""
    throughput: str | Mapping[str, Any] | None = field(metadata=_read(_throughput, absent=None))
    """A regular expression whose only group captures the job's samples per second; or a `Throughput`."""
    time_limit_s: float | None = field(metadata=_read(_seconds, absent=None))
    checkpoints: CheckpointPlan | None = field(metadata=_read(_checkpoints, absent=None))
    variant: Variant | None = field(default=None, metadata=_read(_variant))
    timeline: bool = field(default=False, metadata=_read(_flag))
    """Whether rank 0 writes Horovod's timeline."""
    hang_timeout_s: float | None = field(default=None, metadata=_read(_seconds))
    """Seconds of silence that count as a hang; 0: never; None: derived from the ranks' steps."""
    independent: bool = field(default=False, metadata=_read(_flag))
    """Whether the ranks are separate programs that need not meet."""
    gpus_per_rank: int | None = field(default=None, metadata=_read(_whole(0, _BELOW - 1)))
    allocation: str | None = field(default=None, metadata=_read(_text))
    """Folder of the job that the run shares with others, below the site's."""
    outputs: tuple[str, ...] | None = field(default=None, metadata=_read(_paths))
    """The program's outputs: relative to the working directory, or absolute and mounted."""
    data: Mapping[str, Data] | None = field(default=None, metadata=_read(_data))
    """Data of the host, by path in the container."""
    metrics: Mapping[str, str] | None = field(default=None, metadata=_read(_variables))
    """Regular expressions of other printed numbers, each with one group, by name."""
    per: str | None = field(default=None, metadata=_read(_one_of("node", "job")))
    """`node` or `job`: start the command once per node, or once on the head; None: once per rank."""
    start: tuple[str, ...] | None = field(default=None, metadata=_read(_texts))
    """Words before the command, as format strings."""
    beside: Mapping[str, Sequence[tuple[str, ...]]] | None = field(
        default=None, metadata=_read(_commands)
    )
    """Commands beside the program, on the `head` or on `each` node, as format strings."""
    bind: str | None = field(default=None, metadata=_read(_one_of("core", "numa")))
    """`core` or `numa`: the CPUs that a rank is bound to; None: not bound."""
    cpus_per_rank: int | None = field(default=None, metadata=_read(_whole(1, _BELOW - 1)))
    """Cores of a bound rank."""
    restarts: int | None = field(default=None, metadata=_read(_whole(0, _BELOW - 1)))
    """Most restarts within the job after the loss of a rank or node; None: none."""
    least_nodes: int | None = field(default=None, metadata=_read(_whole(1, layout.MOST_NODES)))
    """Fewest nodes for such a restart; None: all."""
    mpi: str | None = field(default=None, metadata=_read(_text))
    """Type of MPI for which the scheduler starts a task per rank; None: no tasks."""

    def content(self) -> dict[str, Any]:
        keys: dict[str, Any] = {
            key: [*value] if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }
        for each in (keys["data"] or {}).values():
            if each["stage"] is None:
                del each["stage"]
        defaults = {each.name: each.default for each in fields(self)}
        asked = {key: value for key, value in keys.items() if value is not defaults[key]}
        return {"schema_version": layout.SCHEMA_VERSION, **asked}

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def processes_per_node(self) -> int:
        """Number of processes started on each node; with `per: job`, on the head only."""
        return 1 if self.per else self.ranks_per_node

    @property
    def processes(self) -> int:
        return 1 if self.per == "job" else self.nodes * self.processes_per_node

    @property
    def lone_program(self) -> int | None:
        """Number of the program that runs only on the head, among the members that have to meet.

        The other members are the commands beside it, by their node's number. None: the members are the
        ranks.
        """
        return self.nodes if self.per == "job" and self.beside else None

    @property
    def meeting_names(self) -> tuple[str, str]:
        """Name of the members that have to meet, and the remedy, for messages."""
        if self.lone_program:
            return "its program and the commands beside it", "let the program connect to them"
        return RANKS_MEET

    @property
    def has_to_meet(self) -> bool:
        """Whether the members have to be connected to each other."""
        alone = self.ranks if self.lone_program else self.processes
        return alone > 1 and not self.independent

    def meeting_ranks(self, node: int) -> Sequence[int]:
        """Return a node's members that have to be connected to the others."""
        if self.lone_program:
            return (node, self.lone_program) if node == 0 else (node,)
        begin = node * self.processes_per_node
        return range(begin, begin + self.processes_per_node)

    @property
    def formats(self) -> Sequence[str]:
        """All format strings that the agent fills in."""
        return [*self.rank_environment.values(), *self.launcher_words]

    @property
    def launcher_words(self) -> Sequence[str]:
        """The words of the launcher's own commands, as format strings."""
        commands = (words for group in (self.beside or {}).values() for words in group)
        return [*(self.start or ()), *chain.from_iterable(commands)]

    @property
    def is_native(self) -> bool:
        """Whether it runs without a container."""
        return self.runtime == "native" if self.runtime else self.image is None

    def shown_project(self, project: str) -> str | None:
        """Return the target of links to the project in the working directory; None: no links."""
        if not self.is_native:
            return "/workloads"
        return None if self.outputs is None else project

    @property
    def warning_s(self) -> float | None:
        """Seconds from the warning to the job's end, for a checkpoint; None: no checkpoints."""
        return self.checkpoints.warning_s if self.checkpoints else None

    @property
    def horovod_cycle_s(self) -> float | None:
        """Horovod's cycle time in seconds; None: its default."""
        milliseconds = _positive(self.rank_environment.get("HOROVOD_CYCLE_TIME"))
        return None if milliseconds is None else milliseconds / 1000

    @property
    def horovod_fusion_bytes(self) -> float | None:
        """Horovod's fusion threshold in bytes; None: its default."""
        return _positive(self.rank_environment.get("HOROVOD_FUSION_THRESHOLD"))


def run_of(content: Mapping[str, Any]) -> RunSpec:
    """Parse a run; keys of newer versions are ignored.

    Raises:
        ValueError: the text names the key and the problem.
    """
    run = RunSpec(**{each.name: _value(content, each) for each in fields(RunSpec)})
    if run.ranks > layout.MOST_RANKS:
        raise ValueError(f"nodes times ranks_per_node is more than {layout.MOST_RANKS:,}")
    return run


def _value(content: Mapping[str, Any], key: Field[Any]) -> Any:
    absent = key.metadata.get("absent", key.default)
    value = content.get(key.name)
    if absent is MISSING and key.name not in content:
        raise ValueError(f"{key.name}: this key is missing")
    if absent is not MISSING and value is None:
        return absent
    try:
        return key.metadata["read"](value)
    except (LookupError, TypeError, ValueError) as problem:
        why = f"{problem} is missing" if isinstance(problem, KeyError) else problem
        raise ValueError(f"{key.name}: {why} (it is {value!r:.{_LONGEST_SHOWN}})") from None


def _positive(text: str | None) -> float | None:
    """Parse a number from 0, as libraries read it from a variable; None if it is none."""
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None
