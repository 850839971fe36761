"""The stages of a Containerfile, and which of them an image needs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from argosy.images.containerfile.instructions import (
    Arg,
    Copy,
    Entry,
    From,
    Run,
    expanded,
)
from argosy.images.containerfile.reading import read_instruction
from argosy.images.containerfile.text import Source, split_instructions
from argosy.images.oci import Platform, architecture


@dataclass(frozen=True)
class Stage:
    """FROM and what follows it.

    Args:
        base: `scratch`, a reference, or None where it is the stage `parent`.
        parent: the number of the stage that this one goes on from.
        arguments: ARGs before the first FROM, which a stage sees when it names them.
    """

    number: int
    begin: From
    base: str | None
    parent: int | None
    entries: tuple[Entry, ...]
    arguments: Mapping[str, str]

    @property
    def name(self) -> str:
        """The stage's name for people."""
        return self.begin.alias or str(self.number)


@dataclass(frozen=True)
class Containerfile:
    """A file whose every instruction can be carried out."""

    source: Source
    stages: tuple[Stage, ...]

    def find(self, name: str) -> Stage | None:
        """Return the stage that a `--from` names, by its name or number."""
        found = [stage for stage in self.stages if name.lower() == stage.begin.alias]
        if not found and name.isdecimal():
            found = [stage for stage in self.stages if stage.number == int(name)]
        return found[-1] if found else None

    def needed(self) -> list[Stage]:
        """Return the stages that the last one is made of, itself included, in the order of the file."""
        numbers = {len(self.stages) - 1}
        for stage in reversed(self.stages):
            if stage.number in numbers:
                numbers |= {other.number for other in self._used_by(stage)}
        return [stage for stage in self.stages if stage.number in numbers]

    def _used_by(self, stage: Stage) -> Iterator[Stage]:
        if stage.parent is not None:
            yield self.stages[stage.parent]
        for _, name in _references(stage.entries):
            if found := self.find(name):
                yield found


def read_containerfile(source: Source) -> Containerfile:
    """Read the file.

    Raises:
        ArgosyError: naming file and line, for what Argosy cannot build.
    """
    raw = split_instructions(source, source.read())
    entries = [read_instruction(source, each) for each in raw]
    arguments: dict[str, str] = platform_arguments()
    first = next((n for n, entry in enumerate(entries) if isinstance(entry, From)), None)
    for entry in entries[: len(entries) if first is None else first]:
        if not isinstance(entry, Arg):
            raise source.error(entry.line, "the first instruction must be FROM (or ARG before it)")
        for name, default in entry.names:
            if default is not None:
                arguments[name] = expanded(source, entry, default, arguments)
    if first is None:
        raise source.error(1, "there is no FROM")
    containerfile = Containerfile(source, tuple(_stages(source, entries[first:], arguments)))
    _refuse_other_stages(containerfile)
    return containerfile


def platform_arguments() -> dict[str, str]:
    """Return the ARGs that are there without being declared, of this machine."""
    own = architecture()
    return {
        f"{prefix}{name}": value
        for prefix in ("TARGET", "BUILD")
        for name, value in (
            ("PLATFORM", f"linux/{own}"),
            ("OS", "linux"),
            ("ARCH", own),
            ("VARIANT", ""),
        )
    }


def _stages(
    source: Source, entries: Sequence[Entry], arguments: Mapping[str, str]
) -> Iterator[Stage]:
    begins = [n for n, entry in enumerate(entries) if isinstance(entry, From)]
    names: dict[str, int] = {}
    for number, (begin, end) in enumerate(zip(begins, [*begins[1:], len(entries)], strict=True)):
        entry = entries[begin]
        assert isinstance(entry, From)
        _check_platform(source, entry, arguments)
        base = expanded(source, entry, entry.base, arguments)
        if not base:
            raise source.error(entry.line, f"FROM {entry.base} is empty: give ARG a value")
        parent = names.get(base.lower())
        own = None if parent is not None else base
        yield Stage(number, entry, own, parent, tuple(entries[begin + 1 : end]), arguments)
        if entry.alias:
            names[entry.alias] = number


def _check_platform(source: Source, entry: From, arguments: Mapping[str, str]) -> None:
    if entry.platform is None:
        return
    wanted = expanded(source, entry, entry.platform, arguments)
    if not wanted or not Platform.parse(wanted).is_own:
        own = f"linux/{architecture()}"
        raise source.error(entry.line, f"--platform={wanted}: this machine builds for {own} alone")


def _refuse_other_stages(containerfile: Containerfile) -> None:
    for stage in containerfile.stages:
        for line, name in _references(stage.entries):
            found = containerfile.find(name)
            if name.isdecimal() and not found:
                raise containerfile.source.error(line, f"there is no stage {name}; the first is 0")
            if found and found.number >= stage.number:
                raise containerfile.source.error(
                    line,
                    f"the stage {name} begins at line {found.begin.line}: a stage can only use those "
                    "above it, or stages would go round in a circle",
                )


def _references(entries: Sequence[Entry]) -> Iterator[tuple[int, str]]:
    """Line and name of each stage or image that these instructions take files from."""
    for entry in entries:
        if isinstance(entry, Copy) and entry.stage:
            yield entry.line, entry.stage
        if isinstance(entry, Run):
            yield from ((entry.line, mount.stage) for mount in entry.mounts if mount.stage)
