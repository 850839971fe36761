"""Typed instructions of a Containerfile."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from argosy_images.containerfile.expansion import ExpansionError, expand, expand_text
from argosy_images.containerfile.text import Heredoc, Instruction, Source

Kind = Literal["cache", "bind", "tmpfs"]
_KINDS: dict[str, Kind] = {"cache": "cache", "bind": "bind", "tmpfs": "tmpfs"}
_TARGETS = ("target", "dst", "destination")
_KEYS: dict[Kind, tuple[str, ...]] = {
    # Ids and modes of a cache are the user's. One step runs at a time, so `sharing` has no effect.
    # SELinux labels, z and Z of podman, have no effect: files keep the user's.
    "cache": ("id", "sharing", "mode", "uid", "gid", "ro", "readonly", "from", "source", "z", "Z"),
    "bind": ("source", "src", "from", "rw", "readwrite", "ro", "readonly", "z", "Z"),
    "tmpfs": ("size",),
}

_SWITCH = {"": True, "true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Mount:
    """A mount of RUN.

    Args:
        target: the path in the container, not yet expanded; relative to WORKDIR.
        source: for a bind, a path in the image's folder or in `stage`.
        stage: for a bind, the source stage or image; None: the image's folder.
        identity: for a cache, its id: mounts with the same id share a cache.
    """

    kind: Kind
    target: str
    source: str = ""
    stage: str | None = None
    identity: str = ""
    writable: bool = True


def read_mount(source: Source, raw: Instruction, value: str) -> Mount:
    """Parse the value of a --mount flag."""
    pairs = dict(part.partition("=")[::2] for part in value.split(","))
    kind = _KINDS.get(pairs.pop("type", "bind"))
    if kind is None:
        raise source.error(raw.line, "RUN --mount: the types cache, bind and tmpfs are supported")
    target = next((pairs.pop(name) for name in _TARGETS if name in pairs), "")
    if not target:
        raise source.error(raw.line, f"RUN --mount={value}: add target=/a/folder")
    for name in pairs:
        if name not in _KEYS[kind]:
            raise source.error(raw.line, f"RUN --mount=type={kind}: `{name}` is not supported")
    if kind == "cache" and ("from" in pairs or "source" in pairs):
        raise source.error(raw.line, "RUN --mount=type=cache: from and source are not supported")
    if "$" in pairs.get("from", ""):
        raise source.error(
            raw.line, f"RUN --mount from={pairs['from']}: variables are not supported here"
        )
    writable = _asked(source, raw, pairs, "rw", "readwrite")
    readonly = _asked(source, raw, pairs, "ro", "readonly")
    return Mount(
        kind,
        target,
        source=pairs.get("source", pairs.get("src", "")),
        stage=pairs.get("from"),
        identity=pairs.get("id", target),
        writable=writable if kind == "bind" else not readonly,
    )


def _asked(source: Source, raw: Instruction, pairs: dict[str, str], *names: str) -> bool:
    """Return whether one of these switches is set: `rw`, `rw=true`."""
    values = [pairs[name].lower() for name in names if name in pairs]
    if wrong := [value for value in values if value not in _SWITCH]:
        raise source.error(raw.line, f"RUN --mount: `{wrong[0]}` is neither true nor false")
    return any(_SWITCH[value] for value in values)


Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Entry:
    """Base of all instructions: line number, text in one line for messages, escape character."""

    line: int
    text: str
    escape: str


@dataclass(frozen=True)
class From(Entry):
    """FROM: the start of a stage."""

    base: str
    alias: str | None
    platform: str | None


@dataclass(frozen=True)
class Arg(Entry):
    """ARG: names with defaults or None."""

    names: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Setting(Entry):
    """ENV and LABEL: pairs, not yet expanded."""

    name: str
    pairs: Pairs


@dataclass(frozen=True)
class Run(Entry):
    """RUN in shell form (a string) or exec form (a tuple)."""

    command: str | tuple[str, ...]
    heredocs: tuple[Heredoc, ...]
    mounts: tuple[Mount, ...]

    @property
    def told(self) -> str:
        """The command with its here-documents."""
        command = self.command if isinstance(self.command, str) else " ".join(self.command)
        return "\n".join([command, *(heredoc.content for heredoc in self.heredocs)])


@dataclass(frozen=True)
class Copy(Entry):
    """COPY and ADD (which unpacks archives and downloads URLs); words not yet expanded."""

    name: str
    sources: tuple[str, ...]
    heredocs: tuple[Heredoc, ...]
    target: str
    stage: str | None
    mode: int | None
    checksum: str | None

    @property
    def unpacks(self) -> bool:
        """Whether archives among the sources are unpacked."""
        return self.name == "ADD"


@dataclass(frozen=True)
class Program(Entry):
    """CMD, ENTRYPOINT and SHELL in shell form (a string) or exec form (a tuple)."""

    name: str
    command: str | tuple[str, ...]


@dataclass(frozen=True)
class Words(Entry):
    """WORKDIR, USER, EXPOSE, VOLUME, STOPSIGNAL and MAINTAINER; words not yet expanded."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Ignored(Entry):
    """An ignored instruction, such as HEALTHCHECK, with the reason `why`."""

    why: str


def expanded(source: Source, entry: Entry, word: str, variables: Mapping[str, str]) -> str:
    """Expand the variables in a word of an instruction, and remove its quotes."""
    try:
        return expand(word, variables, entry.escape)
    except ExpansionError as problem:
        raise source.error(entry.line, str(problem)) from None


def content_of(source: Source, entry: Entry, heredoc: Heredoc, variables: Mapping[str, str]) -> str:
    """Return a here-document's content for COPY, with variables expanded unless its delimiter is quoted."""
    if heredoc.quoted:
        return heredoc.content
    try:
        return expand_text(heredoc.content, variables)
    except ExpansionError as problem:
        raise source.error(entry.line, f"<<{heredoc.name}: {problem}") from None
