"""Split a Containerfile into instructions: continued lines, comments, flags, here-documents."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from argosy_common.errors import ArgosyError
from argosy_images.containerfile.expansion import ExpansionError, split_words


@dataclass(frozen=True)
class Source:
    """A Containerfile; COPY reads files of its folder."""

    path: Path

    @property
    def context(self) -> Path:
        """The folder of the image."""
        return self.path.parent

    def error(self, line: int, message: str, hint: str = "") -> ArgosyError:
        """Return an error with file and line."""
        return ArgosyError(f"{self.path}:{line}: {message}", hint)

    def read(self) -> str:
        """Return the text."""
        try:
            # Keep line endings: here-documents may contain CRLF.
            return self.path.read_bytes().decode("utf-8-sig")
        except FileNotFoundError:
            raise ArgosyError(
                f"{self.path}: there is no Containerfile", "create one, or correct the image's name"
            ) from None
        except UnicodeDecodeError as problem:
            raise ArgosyError(f"{self.path}: not UTF-8 text: {problem.reason}") from None
        except OSError as problem:
            raise ArgosyError(f"{self.path}: {problem.strerror}") from None


_DIRECTIVE = re.compile(r"#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=\s*(.+?)\s*")
_COMMENT = re.compile(r"\s*#")
_SPACES = re.compile(r"[\t\v\f\r ]+")
_HEREDOC = re.compile(r"\d*<<(-?)([^<]+)")
_FLAG_PART = re.compile(
    r"""\\(?P<escaped>.?)|(?P<quote>['"])(?P<inner>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)?|"""
    r"""(?P<plain>[^\s'"\\]+)""",
    re.DOTALL,
)

WITH_HEREDOCS = ("RUN", "COPY", "ADD")
WITH_JSON = ("RUN", "CMD", "ENTRYPOINT", "SHELL", "COPY", "ADD", "VOLUME")


@dataclass(frozen=True)
class Heredoc:
    """A here-document; variables in one with a `quoted` delimiter are not expanded."""

    name: str
    content: str
    quoted: bool
    word: str
    """The redirection as written in the instruction, such as `<<-'EOF'`."""


@dataclass(frozen=True)
class Instruction:
    """One instruction as written.

    Args:
        value: the text after name and flags, joined to one line.
        json: the value as a list of strings if it is in exec form.
    """

    line: int
    name: str
    flags: tuple[tuple[str, str], ...]
    value: str
    json: tuple[str, ...] | None = None
    heredocs: tuple[Heredoc, ...] = ()
    escape: str = "\\"

    @property
    def text(self) -> str:
        """The instruction in one line, for messages."""
        flags = [f"--{name}={value}" if value else f"--{name}" for name, value in self.flags]
        return " ".join([self.name, *flags, *self.value.split()])


def split_instructions(source: Source, text: str) -> list[Instruction]:
    """Return the instructions in `text`, the content of `source`."""
    # Not splitlines(), which also splits at form feeds and the like.
    lines = text.split("\n")
    return list(_instructions(source, lines, _escape(source, lines)))


def _escape(source: Source, lines: list[str]) -> str:
    """Return the escape character; a parser directive at the top of the file may set it."""
    for number, line in enumerate(lines, start=1):
        directive = _DIRECTIVE.fullmatch(line.strip())
        # Parser directives must come first.
        if not directive or directive[1].lower() not in ("escape", "syntax", "check"):
            break
        if directive[1].lower() == "escape":
            if directive[2] not in ("\\", "`"):
                raise source.error(number, f"escape={directive[2]}: must be \\ or `")
            return directive[2]
    return "\\"


def _instructions(source: Source, lines: list[str], escape: str) -> Iterator[Instruction]:
    at = 0
    while at < len(lines):
        if not lines[at].strip() or _COMMENT.match(lines[at]):
            at += 1
            continue
        line = at + 1
        joined, at = _join(lines, at, escape)
        if not joined.strip():
            raise source.error(line, f"nothing follows this {escape}: remove it")
        name, *rest = _SPACES.split(joined.strip(), maxsplit=1)
        name = name.upper()
        flags, value = _flags(rest[0] if rest else "")
        as_json = _json(source, line, value) if name in WITH_JSON else None
        heredocs: list[Heredoc] = []
        if name in WITH_HEREDOCS and as_json is None:
            for word in _heredoc_words(value):
                if found := read_heredoc(word):
                    heredoc, at = _heredoc(source, lines, at, line, found)
                    heredocs.append(heredoc)
        yield Instruction(line, name, flags, value, as_json, tuple(heredocs), escape)


def _join(lines: list[str], at: int, escape: str) -> tuple[str, int]:
    """Join an instruction's continued lines; return the line and the index after it."""
    continued = re.compile(rf"(?<!{re.escape(escape)}){re.escape(escape)}[ \t]*$")
    joined, first = "", True
    while at < len(lines):
        line = lines[at].rstrip("\r")
        at += 1
        # Comments and empty lines between continued lines are skipped.
        if not first and (not line.strip() or _COMMENT.match(line)):
            continue
        joined += continued.sub("", line.lstrip() if first else line)
        first = False
        if not continued.search(line):
            break
    return joined, at


def _flags(rest: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """Split off the flags; return them and the rest. A bare `--` ends the flags."""
    flags = []
    rest = rest.lstrip()
    while rest.startswith("--"):
        word, rest = _flag_word(rest)
        rest = rest.lstrip()
        if word == "--":
            break
        name, _, value = word.removeprefix("--").partition("=")
        flags.append((name, value))
    return tuple(flags), rest.strip()


def _flag_word(rest: str) -> tuple[str, str]:
    """Split off the first word, without its quotes; return it and the rest."""
    word, at = "", 0
    # In flags, the escape character is always a backslash.
    while found := _FLAG_PART.match(rest, at):
        inner = re.sub(r"\\(.)", r"\1", found["inner"] or "", flags=re.DOTALL)
        word += (found["escaped"] or "") + inner + (found["plain"] or "")
        at = found.end()
    return word, rest[at:]


def _json(source: Source, line: int, value: str) -> tuple[str, ...] | None:
    """Parse a JSON list at the start of the value; like BuildKit, ignore the text after it."""
    if not value.startswith("["):
        return None
    try:
        parsed, _ = json.JSONDecoder(parse_constant=_no_constant).raw_decode(value)
    except ValueError:
        return None
    if not all(isinstance(word, str) for word in parsed):
        raise source.error(line, f"{value}: a list may contain only strings in double quotes")
    return tuple(parsed)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def read_heredoc(word: str) -> Heredoc | None:
    """Parse a word such as `<<EOF`; return the here-document without its content, or None."""
    found = _HEREDOC.fullmatch(word)
    if not found:
        return None
    try:
        names = shlex.split(found[2])
    except ValueError:
        return None
    if len(names) != 1 or not names[0]:
        return None
    return Heredoc(names[0], "", names[0] != found[2], word)


def _heredoc_words(value: str) -> list[str]:
    try:
        return split_words(value)
    except ExpansionError:
        # After an unclosed quote there are no here-documents.
        return []


def _heredoc(
    source: Source, lines: list[str], at: int, line: int, begun: Heredoc
) -> tuple[Heredoc, int]:
    """Read the here-document's lines from index `at`; return it and the index after it."""
    strip_tabs = begun.word.lstrip("0123456789").startswith("<<-")
    content = ""
    while at < len(lines):
        text = lines[at].lstrip("\t") if strip_tabs else lines[at]
        at += 1
        if text.rstrip("\r") == begun.name:
            return Heredoc(begun.name, content, begun.quoted, begun.word), at
        content += f"{text}\n"
    raise source.error(
        line, f"the here-document <<{begun.name} does not end: there is no line `{begun.name}`"
    )
