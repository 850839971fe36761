"""The agent's settings: the job's from the environment, the run's from run.json as it was claimed."""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import re
import socket
import tempfile
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import AbstractSet, Collection, Mapping, Pattern, Sequence

from ..contract import layout
from ..contract.attempt import Attempt
from ..contract.placeholders import FIELDS, PORT, fields_in
from ..contract.run import RunSpec
from ..contract.throughput import GROUPS, NUMBER, Throughput, throughput_of

_REQUIRED = (
    "ARGOSY_RUN_DIR",
    "ARGOSY_ATTEMPT",
    "ARGOSY_NODE",
    "ARGOSY_NODES",
    "ARGOSY_RANKS_PER_NODE",
    "ARGOSY_HEAD_ADDRESS",
    "ARGOSY_HEAD_PORT",
    "ARGOSY_TOKEN",
)

AGENT_STORE = "agent_store"
"""Field of launchers: whether a process of the head serves torch's store. Also the name of its port."""


class SettingsError(Exception):
    """The agent cannot start; the text is one line for users."""


@dataclass(frozen=True)
class NodePlace:
    """Address of a node, and a port for each of its ranks if the launcher uses them."""

    address: str
    ports: tuple[int, ...] = ()


@dataclass(frozen=True)
class MeetingPoint:
    """Addresses at which the ranks of a node find the ranks of other nodes."""

    rendezvous: tuple[str, int] = ("", 0)
    """Address and port of this node's rendezvous."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Reserved ports of the head, by their field."""
    nodes: Sequence[NodePlace] = ()
    """All nodes, if the launcher uses their addresses."""
    pmi: tuple[str, int] = ("", 0)
    """Address and port of this node's PMI server, if the launcher uses it."""


@dataclass(frozen=True)
class Settings:
    """Settings of one node's agent; `start_timeout` is in seconds."""

    run_dir: str
    attempt: str
    node: int
    nodes: int
    ranks_per_node: int
    head_address: str
    head_port: int
    interface: str
    token: str
    start_timeout: float
    run: RunSpec
    throughput: Pattern[str] | None = None
    """The group `number`, or the only group, captures the number that `printed` explains."""
    metrics: Mapping[str, Pattern[str]] = field(default_factory=dict)
    """Patterns of other printed numbers, by name; their only group captures the number."""
    resume: str = ""
    """The checkpoint to resume from, a folder below `checkpoints`; empty for a fresh start."""
    nvml: str = ""
    """Path of pynvml.py; empty: import it from Python's path."""
    site_file: str = "site.yaml"
    """Name of the site's file in messages."""
    visible_gpus: str | None = None
    """The value of CUDA_VISIBLE_DEVICES; None: not set."""
    visible_amd_gpus: str | None = None
    """The value of ROCR_VISIBLE_DEVICES; None: not set."""
    in_container: bool = False
    user_ids: Sequence[int] = ()
    """The ids of user and group that ranks need; empty: those of the container."""
    address: str = ""
    """This node's address for the other nodes."""
    echo: bool = False
    """Whether the agent also prints the ranks' output, for a user at the terminal."""

    @property
    def ranks(self) -> int:
        return 1 if self.run.per == "job" else self.nodes * self.ranks_per_node

    @property
    def printed(self) -> Throughput | None:
        """The meaning of the printed throughput."""
        return throughput_of(self.run.throughput)

    @property
    def searched_ranks(self) -> Sequence[int]:
        """The ranks of this node whose output is searched for numbers."""
        begin = self.node * self.ranks_per_node
        own = range(begin, begin + self.ranks_per_node)
        return [rank for rank in (self.printed or Throughput("")).ranks(self.ranks) if rank in own]

    @cached_property
    def _fields(self) -> AbstractSet[str]:
        return fields_in(self.run.formats)

    @property
    def head_ports(self) -> Sequence[str]:
        """Fields of ports that the head reserves for the program, such as `master_port`."""
        return sorted(name for name in self._fields - {*FIELDS} if PORT.fullmatch(name))

    @property
    def needs_store(self) -> bool:
        """Whether the launcher uses torch's store; a single rank needs none."""
        return AGENT_STORE in self._fields and self.ranks > 1

    @property
    def needs_places(self) -> bool:
        """Whether the launcher uses the addresses of all nodes."""
        return "node_addresses" in self._fields or self.needs_rank_ports

    @property
    def needs_rank_ports(self) -> bool:
        """Whether the launcher uses a port for each rank."""
        return bool(self._fields & {"rank_port", "rank_endpoints", "rank_endpoints_json"})

    @property
    def local_ranks(self) -> Sequence[int]:
        """The local ranks that this node starts."""
        return range(self.ranks_per_node if self.node == 0 or self.run.per != "job" else 0)

    @property
    def needs_pmi(self) -> bool:
        """Whether the launcher uses the PMI server of MPI."""
        return "pmi" in self._fields

    @property
    def records(self) -> str:
        return os.path.join(self.run_dir, layout.RECORDS, self.attempt)

    @property
    def logs(self) -> str:
        """The folder of the ranks' logs; the host writes the logs beside it."""
        return os.path.join(self.run_dir, layout.LOGS, self.attempt, layout.RANK_LOGS)

    @property
    def files(self) -> Attempt:
        """The files of this attempt; those of the host are read-only in containers."""
        return Attempt(self.run_dir, self.attempt)

    def record(self, name: str) -> str:
        """Return the path of one of this attempt's records."""
        return os.path.join(self.records, name)

    @property
    def warning(self) -> str:
        """The file that warns of the job's end by its presence."""
        return self.files.file(layout.WARNING)

    @property
    def checkpoints(self) -> str:
        """The folder of the checkpoints of all attempts."""
        return os.path.join(self.run_dir, layout.CHECKPOINTS)

    @property
    def output(self) -> str:
        """The folder of the program's output, shared by all attempts."""
        return os.path.join(self.run_dir, layout.OUTPUT)

    def rank_fields(self, local_rank: int, meeting: MeetingPoint) -> dict[str, object]:
        """Return the values of a launcher's fields for one rank of this node."""
        own = meeting.nodes[self.node].ports if meeting.nodes else ()
        endpoints = [
            f"{shown_address(each.address)}:{port}" for each in meeting.nodes for port in each.ports
        ]
        return {
            "rank": self.node * self.ranks_per_node + local_rank,
            "size": self.ranks,
            "local_rank": local_rank,
            "local_size": self.ranks_per_node,
            "node": self.node,
            "nodes": self.nodes,
            "ranks_per_node": self.run.ranks_per_node,
            "head_address": self.head_address,
            "head_port": self.head_port,
            "rendezvous_address": meeting.rendezvous[0],
            "rendezvous_port": meeting.rendezvous[1],
            "pmi": "{}:{}".format(*meeting.pmi),
            "interface": self.interface,
            "timeline": self.record(layout.TIMELINE),
            "tmp": tempfile.gettempdir(),
            # The token itself stays with the agents.
            "secret": hmac.new(self.token.encode(), b"of the program", "sha256").hexdigest(),
            "node_address": self.address,
            "node_addresses": ",".join(each.address for each in meeting.nodes),
            "rank_port": own[local_rank] if local_rank < len(own) else 0,
            "rank_endpoints": ",".join(endpoints),
            "rank_endpoints_json": json.dumps(endpoints),
            **dict.fromkeys(self.head_ports, 0),
            **meeting.ports,
            AGENT_STORE: AGENT_STORE in meeting.ports,
        }


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read and check all settings.

    Raises:
        SettingsError: a variable or a key of run.json is missing or wrong.
    """
    missing = [name for name in _REQUIRED if not environ.get(name)]
    if missing:
        raise SettingsError(
            f"{', '.join(missing)} not set: the agent is started by job.sbatch, not by hand"
        )
    run_dir = environ["ARGOSY_RUN_DIR"]
    nodes = _count(environ, "ARGOSY_NODES")
    run = _read_run(Attempt(run_dir, environ["ARGOSY_ATTEMPT"]))
    path, printed = os.path.join(run_dir, layout.RUN), throughput_of(run.throughput)
    settings = Settings(
        run_dir=run_dir,
        attempt=environ["ARGOSY_ATTEMPT"],
        node=_count(environ, "ARGOSY_NODE", least=0, most=nodes - 1),
        nodes=nodes,
        ranks_per_node=_count(environ, "ARGOSY_RANKS_PER_NODE"),
        head_address=_address("ARGOSY_HEAD_ADDRESS", environ["ARGOSY_HEAD_ADDRESS"]),
        head_port=_count(environ, "ARGOSY_HEAD_PORT", most=65535),
        interface=environ.get("ARGOSY_INTERFACE", ""),
        token=environ["ARGOSY_TOKEN"],
        start_timeout=_count({"ARGOSY_START_TIMEOUT": "300", **environ}, "ARGOSY_START_TIMEOUT"),
        resume=environ.get("ARGOSY_RESUME", ""),
        site_file=environ.get("ARGOSY_SITE_FILE") or "site.yaml",
        nvml=environ.get("ARGOSY_NVML", ""),
        visible_gpus=environ.get("CUDA_VISIBLE_DEVICES"),
        visible_amd_gpus=environ.get("ROCR_VISIBLE_DEVICES"),
        in_container=bool(environ.get("ARGOSY_ENGINE")),
        user_ids=[int(each) for each in environ.get("ARGOSY_USER_IDS", "").split()],
        address=environ.get("ARGOSY_NODE_ADDRESS", ""),
        echo=environ.get("ARGOSY_ECHO") == "1",
        run=_on_this_host(run, environ),
        throughput=_pattern(f"{path}: throughput", printed.pattern, GROUPS, "samples per second")
        if printed
        else None,
        metrics={
            name: _pattern(f"{path}: metrics.{name}", text, (), "number")
            for name, text in (run.metrics or {}).items()
        },
    )
    settings = replace(settings, address=settings.address or own_address(settings.head_address))
    for local_rank in settings.local_ranks[:1]:
        rank_environment(settings, local_rank, MeetingPoint())
    filled_words(settings, settings.run.formats, 0, MeetingPoint())
    if settings.printed:
        try:
            settings.printed.ranks(settings.ranks)
        except ValueError as error:
            raise SettingsError(f"{path}: throughput: {error}") from None
    return settings


def own_address(head: str) -> str:
    """Return this node's address on the route to the head; empty without a route."""
    family = socket.AF_INET6 if ":" in head else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((head, 9))  # nothing is sent
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def shown_address(address: str) -> str:
    """Return an address as it is written before a port."""
    return f"[{address}]" if ":" in address else address


def rank_environment(settings: Settings, local_rank: int, meeting: MeetingPoint) -> dict[str, str]:
    """Return the launcher's variables of one rank; raises SettingsError for an unknown field."""
    fields = settings.rank_fields(local_rank, meeting)
    return {
        name: _fill(settings, f"rank_environment: {name}", template, fields)
        for name, template in settings.run.rank_environment.items()
    }


def filled_words(
    settings: Settings, words: Sequence[str], local_rank: int, meeting: MeetingPoint
) -> list[str]:
    """Return a launcher's command with its fields filled in; raises SettingsError as well."""
    fields = settings.rank_fields(local_rank, meeting)
    return [_fill(settings, "launcher", word, fields) for word in words]


def _fill(settings: Settings, where: str, template: str, fields: Mapping[str, object]) -> str:
    try:
        return template.format_map(fields)
    except (LookupError, ValueError, AttributeError, TypeError, OverflowError):
        path = os.path.join(settings.run_dir, layout.RUN)
        raise SettingsError(
            f"{path}: {where}: cannot fill in {template!r}: "
            f"it may use {', '.join('{' + field + '}' for field in fields)}"
        ) from None


def _on_this_host(run: RunSpec, environ: Mapping[str, str]) -> RunSpec:
    """Replace paths of the container by paths of the host in a native run."""
    workloads = environ.get("ARGOSY_WORKLOADS")
    if not workloads:
        return run
    places = {"/workloads": workloads, "/job": environ["ARGOSY_RUN_DIR"]}
    for line in environ.get("ARGOSY_DATA", "").splitlines():
        target, _, path = line.partition("\t")
        places[target] = path
    # Whole paths and beginnings of paths.
    container_path = re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, places))})(?![\w.-])")

    def on_host(text: str, doubled: bool = False) -> str:
        def place(found: re.Match[str]) -> str:
            path = places[found[0]]
            return path.replace("{", "{{").replace("}", "}}") if doubled else path

        return container_path.sub(place, text)

    def filled(words: Sequence[str]) -> tuple[str, ...]:
        return tuple(on_host(word, doubled=True) for word in words)

    beside = {
        where: [filled(words) for words in each] for where, each in (run.beside or {}).items()
    }
    return replace(
        run,
        command=tuple(on_host(word) for word in run.command),
        start=filled(run.start) if run.start else None,
        beside=beside or None,
        rank_environment={
            name: on_host(template, doubled=True) for name, template in run.rank_environment.items()
        },
    )


def _count(environ: Mapping[str, str], name: str, least: int = 1, most: int = 1 << 30) -> int:
    text = environ[name]
    if not re.fullmatch("[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise SettingsError(f"{name} is {text!r}: not a whole number from {least} to {most}")
    return int(text)


def _address(name: str, text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise SettingsError(f"{name}: {text.strip()!r} is not an IP address") from None


def _read_run(attempt: Attempt) -> RunSpec:
    path = os.path.join(attempt.run_dir, layout.RUN)
    try:
        return attempt.run()
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None


def _pattern(where: str, text: str, names: Collection[str], what: str) -> Pattern[str]:
    """Compile a pattern with one group, or with several groups of these names."""
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise SettingsError(f"{where}: not a regular expression: {error}") from None
    own = {*pattern.groupindex}
    has_names = len(own) == pattern.groups and NUMBER in own and own <= {*names}
    if pattern.groups != 1 and not has_names:
        raise SettingsError(f"{where} has {pattern.groups} groups: put one around the {what}")
    return pattern
