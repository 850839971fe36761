"""Parse instructions and stages, and find the stages that an image needs."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from argosy_images.containerfile.expansion import ExpansionError, split_words
from argosy_images.containerfile.instructions import (
    Arg,
    Copy,
    Entry,
    From,
    Ignored,
    Program,
    Run,
    Setting,
    Words,
    expanded,
    read_mount,
)
from argosy_images.containerfile.text import Instruction, Source, split_instructions
from argosy_images.oci import Platform, architecture

_ALIAS = re.compile(r"[a-z][a-z0-9_.-]*")
_RESERVED = ("scratch", "context")
_CHMOD = re.compile(r"0?[0-7]{3,4}")
_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}")
_HOST_NETWORK = ("default", "host")


def read_instruction(source: Source, raw: Instruction) -> Entry:
    """Parse an instruction."""
    reader = _READERS.get(raw.name)
    if reader is None:
        known = ", ".join(sorted(_READERS))
        raise source.error(raw.line, f"{raw.name} is not supported; there are {known}")
    if not raw.value:
        raise source.error(raw.line, f"{raw.name} has no value")
    return reader(source, raw)


def _entry(raw: Instruction) -> tuple[int, str, str]:
    return raw.line, raw.text, raw.escape


def _from(source: Source, raw: Instruction) -> From:
    flags = _flags(source, raw, "platform")
    words = raw.value.split()
    if len(words) == 1:
        return From(*_entry(raw), words[0], None, flags.get("platform"))
    if len(words) != 3 or words[1].upper() != "AS":
        raise source.error(raw.line, "write `FROM image` or `FROM image AS name`")
    alias = words[2].lower()
    if not _ALIAS.fullmatch(alias) or alias in _RESERVED:
        raise source.error(
            raw.line,
            f"{words[2]} cannot be a stage's name: it must begin with a letter, contain only "
            f"letters, digits and _ . -, and be none of {', '.join(_RESERVED)}",
        )
    return From(*_entry(raw), words[0], alias, flags.get("platform"))


def _arg(source: Source, raw: Instruction) -> Arg:
    _flags(source, raw)
    names = []
    for word in _quoted_words(source, raw):
        name, equals, default = word.partition("=")
        if not name:
            raise source.error(raw.line, f"ARG: `{word}` has no name")
        names.append((name, default if equals else None))
    return Arg(*_entry(raw), tuple(names))


def _setting(source: Source, raw: Instruction) -> Setting:
    _flags(source, raw)
    words = _quoted_words(source, raw)
    if "=" not in words[0]:
        # The old form `NAME value`: the rest of the line is the value.
        name, *value = raw.value.split(maxsplit=1)
        if not value:
            raise source.error(raw.line, f"{raw.name} {name} has no value")
        return Setting(*_entry(raw), raw.name, ((name, value[0]),))
    pairs = [word.partition("=") for word in words]
    if wrong := ["".join(pair) for pair in pairs if not pair[0] or not pair[1]]:
        raise source.error(raw.line, f"{raw.name}: `{wrong[0]}` is not NAME=value")
    return Setting(*_entry(raw), raw.name, tuple((name, value) for name, _, value in pairs))


def _run_instruction(source: Source, raw: Instruction) -> Run:
    flags = _flags(source, raw, "mount", "network")
    if flags.get("network", "default") not in _HOST_NETWORK:
        raise source.error(raw.line, "RUN --network: only the host's network is available")
    mounts = [read_mount(source, raw, value) for name, value in raw.flags if name == "mount"]
    if raw.json == ():
        raise source.error(raw.line, "RUN [] names no program")
    return Run(*_entry(raw), _command(raw), raw.heredocs, tuple(mounts))


def _copy(source: Source, raw: Instruction) -> Copy:
    # --chown has no effect, since images keep no owners; --link only changes the speed.
    own = {"COPY": ("from",), "ADD": ("checksum",)}[raw.name]
    flags = _flags(source, raw, "chmod", "chown", "link", *own)
    # As in Docker, quotes do not join words here; only the exec form has names with spaces.
    words = raw.value.split() if raw.json is None else raw.json
    in_place = {heredoc.word for heredoc in raw.heredocs}
    if len(words) < 2 or words[-1] in in_place:
        raise source.error(raw.line, f"{raw.name} needs a source and a target")
    mode, stage, checksum = flags.get("chmod"), flags.get("from"), flags.get("checksum")
    if mode is not None and not _CHMOD.fullmatch(mode):
        raise source.error(raw.line, f"--chmod={mode}: an octal number such as 755 is supported")
    if stage is not None and "$" in stage:
        raise source.error(raw.line, f"--from={stage}: variables are not supported here")
    if checksum is not None and not _CHECKSUM.fullmatch(checksum):
        raise source.error(
            raw.line, f"--checksum={checksum}: must be sha256: and 64 hexadecimal digits"
        )
    return Copy(
        *_entry(raw),
        raw.name,
        tuple(word for word in words[:-1] if word not in in_place),
        raw.heredocs,
        words[-1],
        stage,
        int(mode, 8) if mode else None,
        checksum,
    )


def _program(source: Source, raw: Instruction) -> Program:
    _flags(source, raw)
    if raw.name == "SHELL" and not raw.json:
        raise source.error(raw.line, 'SHELL is written as a list: SHELL ["/bin/bash", "-c"]')
    return Program(*_entry(raw), raw.name, _command(raw))


def _words(source: Source, raw: Instruction) -> Words:
    _flags(source, raw)
    if raw.name in ("WORKDIR", "MAINTAINER"):
        return Words(*_entry(raw), raw.name, (raw.value,))
    words = raw.value.split() if raw.json is None else raw.json
    if raw.name in ("USER", "STOPSIGNAL") and len(words) != 1:
        raise source.error(raw.line, f"{raw.name} takes one word")
    return Words(*_entry(raw), raw.name, tuple(words))


def _ignored(_: Source, raw: Instruction) -> Ignored:
    return Ignored(*_entry(raw), "ignored: batch jobs have no health checks")


def _command(raw: Instruction) -> str | tuple[str, ...]:
    return raw.value if raw.json is None else raw.json


def _quoted_words(source: Source, raw: Instruction) -> Sequence[str]:
    try:
        return split_words(raw.value, raw.escape)
    except ExpansionError as problem:
        raise source.error(raw.line, str(problem)) from None


def _flags(source: Source, raw: Instruction, *known: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in raw.flags:
        if name not in known:
            there = f"; there are {', '.join(f'--{each}' for each in known)}" if known else ""
            raise source.error(raw.line, f"{raw.name} --{name} is not supported{there}")
        if not value and name != "link":
            raise source.error(raw.line, f"{raw.name} --{name} needs a value: --{name}=…")
        if name in found and name != "mount":
            raise source.error(raw.line, f"{raw.name} --{name} is there twice")
        found[name] = value
    return found


_READERS: Mapping[str, Callable[[Source, Instruction], Entry]] = {
    "FROM": _from,
    "ARG": _arg,
    "ENV": _setting,
    "LABEL": _setting,
    "RUN": _run_instruction,
    "COPY": _copy,
    "ADD": _copy,
    "CMD": _program,
    "ENTRYPOINT": _program,
    "SHELL": _program,
    "WORKDIR": _words,
    "USER": _words,
    "EXPOSE": _words,
    "VOLUME": _words,
    "STOPSIGNAL": _words,
    "MAINTAINER": _words,
    "HEALTHCHECK": _ignored,
}


@dataclass(frozen=True)
class Stage:
    """A FROM with its instructions.

    Args:
        base: `scratch` or a reference; None if the base is the stage `parent`.
        parent: the number of the base stage.
        arguments: ARGs before the first FROM; a stage has to declare them to use them.
    """

    number: int
    begin: From
    base: str | None
    parent: int | None
    entries: tuple[Entry, ...]
    arguments: Mapping[str, str]

    @property
    def name(self) -> str:
        """The stage's alias or number."""
        return self.begin.alias or str(self.number)


@dataclass(frozen=True)
class Containerfile:
    """A parsed Containerfile without unsupported instructions."""

    source: Source
    stages: tuple[Stage, ...]

    def find(self, name: str) -> Stage | None:
        """Return the stage with this name or number, or None."""
        found = [stage for stage in self.stages if name.lower() == stage.begin.alias]
        if not found and name.isdecimal():
            found = [stage for stage in self.stages if stage.number == int(name)]
        return found[-1] if found else None

    def needed(self) -> list[Stage]:
        """Return the last stage and all stages that it depends on, in the file's order."""
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
    """Read and check a Containerfile."""
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
        raise source.error(1, "FROM is missing")
    containerfile = Containerfile(source, tuple(_stages(source, entries[first:], arguments)))
    _refuse_other_stages(containerfile)
    return containerfile


def platform_arguments() -> dict[str, str]:
    """Return the predefined ARGs of this machine's platform."""
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
        raise source.error(entry.line, f"--platform={wanted}: this machine only builds for {own}")


def _refuse_other_stages(containerfile: Containerfile) -> None:
    for stage in containerfile.stages:
        for line, name in _references(stage.entries):
            found = containerfile.find(name)
            if name.isdecimal() and not found:
                raise containerfile.source.error(line, f"there is no stage {name}; the first is 0")
            if found and found.number >= stage.number:
                raise containerfile.source.error(
                    line,
                    f"the stage {name} begins at line {found.begin.line}: a stage can only use "
                    "earlier stages",
                )


def _references(entries: Sequence[Entry]) -> Iterator[tuple[int, str]]:
    """Yield line and name of each stage or image that these instructions read files from."""
    for entry in entries:
        if isinstance(entry, Copy) and entry.stage:
            yield entry.line, entry.stage
        if isinstance(entry, Run):
            yield from ((entry.line, mount.stage) for mount in entry.mounts if mount.stage)
