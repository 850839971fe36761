"""Reads a user's batch script as data: its simple commands, their words, and notes on each line.

Nothing is run. Variables that the script sets are filled in; other variables and command substitutions stay
unexpanded. Loops, conditions, functions and here-documents are left out, with a note.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
EXPORTS = ("export", "declare", "typeset", "readonly")
IN_BLOCK = "if runs need it, write it into the block `environment` of the site's job.sbatch.j2"
_STRUCTURED = (
    f"Argosy does not interpret loops, conditions, functions or here-documents: {IN_BLOCK}"
)
_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?\s*(['\"\\]?)([A-Za-z_]\w*)\1")
_REDIRECTION = re.compile(r"\d{0,9}(?:&>>?|<<<|>\||>>|[<>]&|[<>])")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_WITH_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*|[0-9])(:?)[-=](.*)\}", re.DOTALL)
OF_RANKS = re.compile(
    r"MASTER_ADDR|MASTER_PORT|(?:LOCAL_|NODE_|GROUP_)?RANK|(?:LOCAL_)?WORLD_SIZE|GLOO_SOCKET_IFNAME|"
    r"TP_SOCKET_IFNAME|HOROVOD_GLOO_IFACE|(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES|S(?:LURM|RUN|BATCH)_\w+"
)
"""Variables that Argosy sets for each rank, or that ranks lack."""
_SPECIAL = re.compile(r"\$[0-9?#@*$!-]")
_OPENERS = {"if", "for", "while", "until", "case", "select", "{", "function"}
_CLOSERS = {"fi", "done", "esac", "}"}
_KEYWORDS = {*_OPENERS, *_CLOSERS, "then", "do", "else"}
_BEFORE_COMMANDS = {*_KEYWORDS, "elif", "!"}
_SEPARATORS = ";|&()"
_NOT_KNOWN = re.compile("\ue000([0-9]+)\ue001")
_REDIRECTED = "\ue002"
_MOST_READ_AGAIN = 4_000_000
"""Maximum characters to parse again after unclosed quotes, which takes some seconds; a quote of 500 lines
uses half of them."""


class UnclosedError(Exception):
    """A quote or an expansion continues on the next line."""


@dataclass(frozen=True)
class Note:
    """The result of converting a line of the script or a part of it."""

    line: str
    """Line number, or a range such as `12-18`."""
    text: str
    said: str
    """The resulting key, or the reason for leaving it out and the remedy."""


@dataclass(frozen=True)
class Statement:
    """A simple command; its words contain marks for unknown parts (`Script.restored`)."""

    line: str
    words: tuple[str, ...]
    redirected: tuple[str, ...] = ()
    """Redirections, and commands behind a pipe."""


@dataclass
class Script:
    """A batch script, and notes on its conversion."""

    variables: dict[str, str]
    """Values of variables, including variables set before the script begins."""
    directives: list[tuple[str, str]] = field(default_factory=list)
    """Numbers and texts of lines that begin with #SBATCH."""
    statements: list[Statement] = field(default_factory=list)
    taken: list[Note] = field(default_factory=list)
    left: list[Note] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Variables that were expanded."""
    _open: list[str] = field(default_factory=list)
    _read_again: int = 0

    @classmethod
    def read(cls, text: str, variables: Mapping[str, str]) -> "Script":
        """Read a script's text."""
        script = cls(dict(variables))
        lines = re.sub("[\ue000-\ue002]", "", text).split("\n")
        place = 0
        while place < len(lines):
            place = script._read_from(lines, place)
        return script

    def take(self, line: str, text: str, key: str) -> None:
        """Note the key that results from a part of a line."""
        self.taken.append(Note(line, self.shown(text), key))

    def leave(self, line: str, text: str, reason: str) -> None:
        """Note why a part of a line was left out, and the remedy."""
        self.left.append(Note(line, self.shown(text), reason))

    def note(self, line: str, text: str, key: Callable[[], str]) -> None:
        """Note the key returned by `key`, or the reason in its ValueError."""
        try:
            self.take(line, text, key())
        except ValueError as problem:
            self.leave(line, text, str(problem))

    def restored(self, word: str) -> str:
        """Replace the marks in a word by the script's text."""
        while _NOT_KNOWN.search(word):
            word = _NOT_KNOWN.sub(lambda found: self._open[int(found[1])], word)
        return word

    def shown(self, text: str) -> str:
        """Return at most 60 characters of a text, with $PWD for the project's folder."""
        text = self.restored(text)
        here = self.variables.get("PWD")
        text = text.replace(here, "$PWD") if here else text
        return text if len(text) <= 60 else f"{text[:59]}…"

    def filled(self, word: str, value: Callable[[str], str]) -> str:
        """Replace unknown parts of a word for which `value` returns a value."""

        def of_mark(found: re.Match[str]) -> str:
            expansion = self._open[int(found[1])]
            return value(expansion) or self.filled(default_of(expansion), value) or found[0]

        return _NOT_KNOWN.sub(of_mark, word)

    def shell_word(self, word: str, kept: Callable[[str], str]) -> str:
        """Quote a word for a shell; empty if `kept` returns nothing for an unknown part."""
        if not is_open(word):
            return shlex.quote(word)
        found = [
            kept(self.restored(part)) if is_open(part) else re.sub(r'([\\"$`])', r"\\\1", part)
            for part in re.split("(\ue000[0-9]+\ue001)", word)
            if part
        ]
        return f'"{"".join(found)}"' if all(found) else ""

    def split(self, text: str) -> list[list[str]]:
        """Return the simple commands in the text of `bash -c`; none if it is incomplete."""
        try:
            return [list(each.words) for each in _simple(self._words(text), "")]
        except (UnclosedError, ValueError, RecursionError):
            return []

    def _read_from(self, lines: list[str], place: int) -> int:
        """Read one line and its continuation lines; return the index of the next line."""
        line = lines[place].strip()
        if not line or line.startswith("#"):
            if line.startswith("#SBATCH") and (self.statements or self.left):
                said = "Slurm ignores options below the first command; move it up"
                self.leave(str(place + 1), line, said)
            elif line.startswith("#SBATCH"):
                self.directives.append((str(place + 1), line))
            return place + 1
        end, words = self._command_at(lines, place)
        where = str(place + 1) if end == place + 1 else f"{place + 1}-{end}"
        found = list(_simple(words or [], where))
        for statement in found:
            self._assign(statement.words)
        self.statements += found
        if not found:
            self.leave(where, line, _STRUCTURED if words is None else "starts no command")
        return end

    def _command_at(self, lines: list[str], place: int) -> tuple[int, list[str] | None]:
        """Return the index after the command, and its words; None for structured commands."""
        text, end, blocks, brackets, is_plain = "", place, 0, 0, True
        while end < len(lines):
            text += lines[end]
            end += 1
            if (len(text) - len(text.rstrip("\\"))) % 2:
                text = text[:-1]
                continue
            try:
                words = self._words(text)
            except UnclosedError:
                # Each further line parses the text again.
                self._read_again += len(text)
                if self._read_again > _MOST_READ_AGAIN:
                    return len(lines), None
                text += "\n"
                continue
            except (ValueError, RecursionError):
                return end, None
            if here := _HERE_DOCUMENT.search(text):
                ends = (
                    each + 1 for each in range(end, len(lines)) if lines[each].strip() == here[2]
                )
                end, is_plain = next(ends, len(lines)), False
            opened, bracketed, is_structured = _structure(words)
            blocks += opened
            brackets += 0 if blocks > 0 else bracketed
            is_plain = is_plain and not is_structured
            if blocks <= 0 and brackets <= 0:
                return end, words if is_plain else None
            text, is_plain = "", False
        return end, None

    def _assign(self, words: Sequence[str]) -> None:
        is_export = bool(words) and words[0] in EXPORTS
        pairs = [ASSIGNMENT.fullmatch(word) for word in words[is_export:] if word[:1] != "-"]
        if is_export or all(pairs):
            self.variables |= {pair[1]: pair[2] for pair in pairs if pair}

    def _words(self, text: str) -> list[str]:
        """Split a command line; raises UnclosedError, or ValueError from shlex."""
        lexer = shlex.shlex("".join(self._filled(text)), posix=True, punctuation_chars=_SEPARATORS)
        lexer.whitespace_split, lexer.commenters = True, ""
        return list(lexer)

    def _filled(self, text: str) -> Iterator[str]:
        """Yield the pieces of a text, with known variables expanded and without comments."""
        place, quoted = 0, False
        while place < len(text):
            quoted ^= text[place] == '"'
            piece, place = self._piece(text, place, quoted)
            yield piece
        if quoted:
            raise UnclosedError

    def _piece(self, text: str, place: int, quoted: bool) -> tuple[str, int]:
        """Return the replacement of the text at an index, and the index after it."""
        letter, end = text[place], place + 1
        at_word = not place or text[place - 1] in f"{_SEPARATORS} \t\n"
        found = None if quoted else _REDIRECTION.match(text, place)
        if letter in "$`":
            end = _end_of_expansion(text, place)
            return self._value(text[place:end], quoted), end
        if letter == "\\":
            end = place + 2
            # In double quotes a shell removes this backslash, but shlex keeps it.
            if quoted and text[end - 1 : end] in ("$", "`"):
                return text[end - 1], end
        elif letter == "'" and not quoted:
            end = _after(text, "'", end)
        elif letter == "\n" and not quoted:
            return " ; ", end
        elif letter == "#" and not quoted and at_word:
            end = text.find("\n", place)
            return "", end if end > 0 else len(text)
        elif found and (at_word or not letter.isdigit()):
            # Preceding digits belong to the redirection, unless they end a word.
            return f" {_REDIRECTED}{_escaped(found[0], quoted=False)} ", found.end()
        return text[place:end], end

    def _value(self, expansion: str, quoted: bool) -> str:
        """Return the value of an expansion, or a mark if it is unknown."""
        name = variable_of(expansion)
        found = _WITH_DEFAULT.fullmatch(expansion)
        if name in self.variables and (self.variables[name] or not (found and found[2])):
            self.used.add(name)
            return _escaped(self.variables[name], quoted)
        if found and not OF_RANKS.fullmatch(name):
            return _escaped("".join(self._filled(_unquoted(found[3]))), quoted)
        if expansion == "$":
            return expansion
        self._open.append(expansion)
        return f"\ue000{len(self._open) - 1}\ue001"


def is_open(word: str) -> bool:
    """Return whether a word has unknown parts: unset variables, or a command's output."""
    return "\ue000" in word


def variable_of(expansion: str) -> str:
    """Return the name of the variable in `$NAME`, `${NAME}` or `${NAME:-default}`; else empty."""
    if found := _WITH_DEFAULT.fullmatch(expansion):
        return found[1]
    found = _VARIABLE.fullmatch(expansion)
    return (found[1] or found[2]) if found else ""


def default_of(expansion: str) -> str:
    """Return the 3 of `${NAME:-3}`; empty without a plain-text default."""
    found = _WITH_DEFAULT.fullmatch(expansion)
    return "" if not found or re.search(r"[$`]", found[3]) else _unquoted(found[3])


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text


def _escaped(value: str, quoted: bool) -> str:
    return re.sub(r'([\\"])' if quoted else r"""([\\'";|&()])""", r"\\\1", value)


def _after(text: str, mark: str, place: int) -> int:
    end = text.find(mark, place)
    if end < 0:
        raise UnclosedError
    return end + 1


def _end_of_expansion(text: str, place: int) -> int:
    """Return the end of `$NAME`, `${…}`, `$(…)` or a text between backquotes."""
    if text[place] == "`":
        return _after(text, "`", place + 1)
    opening = text[place + 1 : place + 2]
    brackets = {"(": "[()]", "{": "[{}]"}.get(opening)
    if not brackets:
        found = _VARIABLE.match(text, place) or _SPECIAL.match(text, place)
        return found.end() if found else place + 1
    depth = 0
    for each in re.compile(brackets).finditer(text, place + 1):
        depth += 1 if each[0] == opening else -1
        if not depth:
            return each.end()
    raise UnclosedError


def _structure(words: list[str]) -> tuple[int, int, bool]:
    """Count the blocks and brackets that words open, and return whether they have any structure."""
    starts = list(_starts(words))
    marks = "".join(filter(_is_separator, words))
    blocks = sum((each in _OPENERS) - (each in _CLOSERS) for each in starts)
    if "function" in starts:
        # In `function name {` and `function name() {`, only the brace counts.
        blocks += ("{" in words and "{" not in starts) - 1
    is_more = not _KEYWORDS.isdisjoint(starts) or "(" in marks or ")" in marks
    return blocks, marks.count("(") - marks.count(")"), is_more


def _starts(words: list[str]) -> Iterator[str]:
    """Yield the words that begin a command."""
    begins = True
    for word in words:
        if begins:
            yield word
        begins = _is_separator(word) or (begins and word in _BEFORE_COMMANDS)


def _is_separator(word: str) -> bool:
    return bool(word) and set(word) <= set(_SEPARATORS)


def _simple(words: list[str], line: str) -> Iterator[Statement]:
    """Yield simple commands; redirections and commands behind a pipe are apart from their words."""
    command: list[str] = []
    output: list[str] = []
    goes_on = False
    for word in [*words, ";"]:
        if _is_separator(word):
            goes_on = word.startswith("|") and word != "||"
            if goes_on:
                output.append("|")
            elif command:
                yield Statement(line, tuple(command), tuple(output))
            if not goes_on:
                command, output = [], []
        elif goes_on or word.startswith(_REDIRECTED) or (output and output[-1][-1] in "<>&"):
            output.append(word.removeprefix(_REDIRECTED))
        else:
            command.append(word)
