"""Instructions with their meaning."""

from collections.abc import Mapping
from dataclasses import dataclass

from argosy.images.containerfile.expansion import ExpansionError, expand, expand_text
from argosy.images.containerfile.mounts import Mount
from argosy.images.containerfile.source import Source
from argosy.images.containerfile.text import Heredoc

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Entry:
    """What all instructions have: where it stands, and its text in one line for people."""

    line: int
    text: str
    escape: str


@dataclass(frozen=True)
class From(Entry):
    """FROM: a stage begins."""

    base: str
    alias: str | None
    platform: str | None


@dataclass(frozen=True)
class Arg(Entry):
    """ARG: names, each with a default or None."""

    names: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Setting(Entry):
    """ENV and LABEL: pairs, values not yet expanded."""

    name: str
    pairs: Pairs


@dataclass(frozen=True)
class Run(Entry):
    """RUN: a line for the shell, or an argument vector."""

    command: str | tuple[str, ...]
    heredocs: tuple[Heredoc, ...]
    mounts: tuple[Mount, ...]

    @property
    def told(self) -> str:
        """All that it tells the shell."""
        command = self.command if isinstance(self.command, str) else " ".join(self.command)
        return "\n".join([command, *(heredoc.content for heredoc in self.heredocs)])


@dataclass(frozen=True)
class Copy(Entry):
    """COPY and ADD (which unpacks archives and fetches URLs); words not yet expanded."""

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
    """CMD, ENTRYPOINT and SHELL: a line for the shell, or an argument vector."""

    name: str
    command: str | tuple[str, ...]


@dataclass(frozen=True)
class Words(Entry):
    """WORKDIR, USER, EXPOSE, VOLUME, STOPSIGNAL and MAINTAINER: words, not yet expanded."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Ignored(Entry):
    """What has no meaning where nobody watches a container, and does no harm; `why` says so."""

    why: str


def expanded(source: Source, entry: Entry, word: str, variables: Mapping[str, str]) -> str:
    """Return a word of an instruction with its variables replaced and its quotes removed.

    Raises:
        ArgosyError: naming the line.
    """
    try:
        return expand(word, variables, entry.escape)
    except ExpansionError as problem:
        raise source.error(entry.line, str(problem)) from None


def content_of(source: Source, entry: Entry, heredoc: Heredoc, variables: Mapping[str, str]) -> str:
    """Return what COPY writes for a here-document: its text, with variables unless its name is quoted.

    Raises:
        ArgosyError: naming the line.
    """
    if heredoc.quoted:
        return heredoc.content
    try:
        return expand_text(heredoc.content, variables)
    except ExpansionError as problem:
        raise source.error(entry.line, f"<<{heredoc.name}: {problem}") from None
