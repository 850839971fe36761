"""Gives instructions their meaning; what cannot be honoured is refused here, by line."""

import re
from collections.abc import Callable, Mapping, Sequence

from argosy.images.containerfile.expansion import ExpansionError, split_words
from argosy.images.containerfile.instructions import (
    Arg,
    Copy,
    Entry,
    From,
    Ignored,
    Program,
    Run,
    Setting,
    Words,
    read_mount,
)
from argosy.images.containerfile.text import Instruction, Source

_ALIAS = re.compile(r"[a-z][a-z0-9_.-]*")
_RESERVED = ("scratch", "context")
_CHMOD = re.compile(r"0?[0-7]{3,4}")
_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}")
_HOST_NETWORK = ("default", "host")


def read_instruction(source: Source, raw: Instruction) -> Entry:
    """Return the meaning of an instruction.

    Raises:
        ArgosyError: naming the line, when it is none or cannot be honoured.
    """
    reader = _READERS.get(raw.name)
    if reader is None:
        known = ", ".join(sorted(_READERS))
        raise source.error(raw.line, f"{raw.name} is not supported; there are {known}")
    if not raw.value:
        raise source.error(raw.line, f"{raw.name} needs something behind it")
    return reader(source, raw)


def _entry(raw: Instruction) -> tuple[int, str, str]:
    return raw.line, raw.text, raw.escape


def _from(source: Source, raw: Instruction) -> From:
    flags = _flags(source, raw, "platform")
    words = raw.value.split()
    if len(words) == 1:
        return From(*_entry(raw), words[0], None, flags.get("platform"))
    if len(words) != 3 or words[1].upper() != "AS":
        raise source.error(raw.line, "FROM is written `FROM image` or `FROM image AS name`")
    alias = words[2].lower()
    if not _ALIAS.fullmatch(alias) or alias in _RESERVED:
        raise source.error(
            raw.line,
            f"{words[2]} cannot be a stage's name: it begins with a letter, has letters, digits and "
            f"_ . - and is none of {', '.join(_RESERVED)}",
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
        # The old form: one name, and all behind it is the value.
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
    # Owners are not kept, so --chown asks for nothing that could be done; --link asks for speed.
    own = {"COPY": ("from",), "ADD": ("checksum",)}[raw.name]
    flags = _flags(source, raw, "chmod", "chown", "link", *own)
    # Quotes do not hold words together here; that is what the list is for.
    words = raw.value.split() if raw.json is None else raw.json
    in_place = {heredoc.word for heredoc in raw.heredocs}
    if len(words) < 2 or words[-1] in in_place:
        raise source.error(raw.line, f"{raw.name} needs a source and a target")
    mode, stage, checksum = flags.get("chmod"), flags.get("from"), flags.get("checksum")
    if mode is not None and not _CHMOD.fullmatch(mode):
        raise source.error(raw.line, f"--chmod={mode}: an octal number such as 755 is supported")
    if stage is not None and "$" in stage:
        raise source.error(raw.line, f"--from={stage}: variables mean nothing here")
    if checksum is not None and not _CHECKSUM.fullmatch(checksum):
        raise source.error(raw.line, f"--checksum={checksum}: it is sha256: and 64 digits")
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
    return Ignored(*_entry(raw), "nobody asks after the health of a batch job; it is left out")


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
