"""Reads a user's batch script as data: its options, and its simple commands with their words.

Nothing is run. Variables that the script sets are filled in; other variables, and what a command would
print, stay as they are written. Loops, conditions, functions and here-documents are left out, and named.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
EXPORTS = ("export", "declare", "typeset", "readonly")
_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?\s*(['\"\\]?)([A-Za-z_]\w*)\1")
_REDIRECTION = re.compile(r"\d*(?:&>>?|<<<|>\||>>|[<>]&|[<>])")
_NAME = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\}|[0-9?#@*$!-])")
_OPENERS = {"if", "for", "while", "until", "case", "select", "{", "function"}
_CLOSERS = {"fi", "done", "esac", "}"}
_SEPARATORS = ";|&()"
_NOT_KNOWN = re.compile("\ue000([0-9]+)\ue001")
_REDIRECTED = "\ue002"


class UnclosedError(Exception):
    """A quote or an expansion goes on in the next line."""


@dataclass(frozen=True)
class Note:
    """A line of the script or a part of it, and what became of it."""

    line: str
    """Its number, or `12-18`."""
    text: str
    said: str
    """The key that it became, or why it was left out and what to do."""


@dataclass(frozen=True)
class Directive:
    """An option in a line that begins with #SBATCH; `value` is empty for an option without one."""

    line: str
    name: str
    value: str


@dataclass(frozen=True)
class Statement:
    """A simple command; what is not known of a word is in it as `Script.restored` shows."""

    line: str
    words: tuple[str, ...]
    redirected: tuple[str, ...] = ()
    """Files of its output, and the commands that would read it."""


def is_open(word: str) -> bool:
    """Return whether a word has variables that the script does not set, or a command's output."""
    return "\ue000" in word


@dataclass
class Script:
    """A batch script.

    Args:
        variables: values that are known before the script begins.
    """

    variables: dict[str, str]
    directives: list[Directive] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    left: list[Note] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Variables whose values were filled in."""
    _open: list[str] = field(default_factory=list)
    _began: bool = False

    @classmethod
    def read(cls, text: str, variables: Mapping[str, str]) -> "Script":
        """Read a script's text."""
        script = cls(dict(variables))
        lines = re.sub("[\ue000-\ue002]", "", text).split("\n")
        place = 0
        while place < len(lines):
            place = script._read_from(lines, place)
        return script

    def parts(self, word: str) -> list[str]:
        """Return the known and the unknown parts of a word, in order."""
        return [part for part in re.split("(\ue000[0-9]+\ue001)", word) if part]

    def restored(self, word: str) -> str:
        """Return a word with its unknown parts as they are written."""
        while _NOT_KNOWN.search(word):
            word = _NOT_KNOWN.sub(lambda found: self._open[int(found[1])], word)
        return word

    def shown(self, *words: str) -> str:
        """Return words as a list has room for them, with the project's folder as $PWD."""
        text = " ".join(map(self.restored, words))
        here = self.variables.get("PWD")
        return shortened(text.replace(here, "$PWD") if here else text)

    def _read_from(self, lines: list[str], place: int) -> int:
        """Read one line with those that continue it; return the place of the next one."""
        line = lines[place].strip()
        if not line or line.startswith("#"):
            if line.startswith("#SBATCH"):
                self._read_directives(str(place + 1), line)
            return place + 1
        self._began = True
        end, words = self._command_at(lines, place)
        where = str(place + 1) if end == place + 1 else f"{place + 1}-{end}"
        if words is None:
            self.left.append(Note(where, shortened(line), _why_left(line)))
            return end
        found = list(_simple(words, where))
        for statement in found:
            self._assign(statement.words)
        self.statements += found
        if not found:
            self.left.append(Note(where, shortened(line), "starts no command"))
        return end

    def _read_directives(self, line: str, text: str) -> None:
        if self._began:
            said = "Slurm ignores options below the first command; move it up"
            self.left.append(Note(line, text, said))
            return
        try:
            words = shlex.split(text.removeprefix("#SBATCH"), comments=True)
        except ValueError as problem:
            self.left.append(
                Note(line, text, f"cannot be split into words ({problem}): correct it")
            )
            return
        options, rest = options_of(words)
        self.directives += (Directive(line, *option) for option in options)
        if rest or not options:
            self.left.append(Note(line, text, "has no option that sbatch reads: correct it"))

    def _command_at(self, lines: list[str], place: int) -> tuple[int, list[str] | None]:
        """Return where the command ends, and its words; None for what is not interpreted."""
        text, end, blocks, brackets, is_plain = "", place, 0, 0, True
        while end < len(lines):
            text += lines[end]
            end += 1
            if _is_continued(text):
                text = text[:-1]
                continue
            try:
                words = self._words(text)
            except UnclosedError:
                text += "\n"
                continue
            except ValueError:
                return end, None
            if here := _HERE_DOCUMENT.search(text):
                end, is_plain = _end_of_document(lines, end, here[2]), False
            blocks += _opened_blocks(words)
            brackets += 0 if blocks > 0 else _opened_brackets(words)
            is_plain = is_plain and not _is_structured(words)
            if blocks <= 0 and brackets <= 0:
                return end, words if is_plain else None
            text, is_plain = "", False
        return end, None

    def _assign(self, words: Sequence[str]) -> None:
        is_export = bool(words) and words[0] in EXPORTS
        pairs = [ASSIGNMENT.fullmatch(word) for word in words[is_export:] if word[:1] != "-"]
        if is_export or all(pairs):
            self.variables |= {pair[1]: pair[2] for pair in pairs if pair}

    def split(self, text: str) -> list[str]:
        """Split the text that a shell is given by -c; without words if it is not whole."""
        try:
            return self._words(text)
        except (UnclosedError, ValueError):
            return []

    def _words(self, text: str) -> list[str]:
        """Split a command line; raises UnclosedError, or ValueError where shlex cannot."""
        lexer = shlex.shlex("".join(self._filled(text)), posix=True, punctuation_chars=_SEPARATORS)
        lexer.whitespace_split, lexer.commenters = True, ""
        return list(lexer)

    def _filled(self, text: str) -> Iterator[str]:
        """Yield the pieces of a text, with known variables filled in and no comments."""
        place, quoted = 0, False
        while place < len(text):
            letter, before = text[place], text[place - 1 : place]
            end = place + 1
            at_word = not quoted and (not before or before in f"{_SEPARATORS} \t\n")
            if letter == "\\":
                end = place + 2
            elif letter == "'" and not quoted:
                end = _after(text, "'", place + 1)
            elif letter == '"':
                quoted = not quoted
            elif letter in "$`":
                end = _end_of_expansion(text, place)
                yield self._value(text[place:end], quoted)
                place = end
                continue
            elif letter == "#" and at_word:
                place = text.find("\n", place) if "\n" in text[place:] else len(text)
                continue
            elif (
                not quoted
                and (found := _REDIRECTION.match(text, place))
                and _stands(found, at_word)
            ):
                end = found.end()
                yield f" {_REDIRECTED}{_escaped(found[0], quoted=False)} "
                place = end
                continue
            elif letter == "\n" and not quoted:
                letter = " ; "
            yield letter if end == place + 1 else text[place:end]
            place = end
        if quoted:
            raise UnclosedError

    def _value(self, expansion: str, quoted: bool) -> str:
        """Return the value of a variable, or a mark in the place of what is not known."""
        found = _NAME.fullmatch(expansion)
        name = (found[1] or found[2]) if found else None
        if name and name in self.variables:
            self.used.add(name)
            return _escaped(self.variables[name], quoted)
        if expansion == "$":
            return expansion
        self._open.append(expansion)
        return f"\ue000{len(self._open) - 1}\ue001"


def options_of(words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the long names and values of options as sbatch and srun take them, and the words behind."""
    found, place = [], 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        word, following = words[place], words[place + 1 : place + 2]
        place += 1
        if word.startswith("--") or is_open(word[1:2]):
            name, equals, value = word.lstrip("-").partition("=")
        else:
            name, value = SHORT.get(word[1:2], word[1:2]), word[2:]
            equals = value
        if not equals and name not in FLAGS and following and following[0][:1] != "-":
            value = following[0]
            place += 1
        found.append((_SAME.get(name, name), value))
    return found, words[place + (words[place : place + 1] == ["--"]) :]


_SHORT = """
A=account a=array b=begin c=cpus-per-task C=constraint d=dependency D=chdir e=error E=preserve-env
F=nodefile G=gpus H=hold i=input J=job-name k=no-kill K=kill-on-bad-exit l=label L=licenses
m=distribution M=clusters n=ntasks N=nodes o=output O=overcommit p=partition q=qos Q=quiet
s=oversubscribe S=core-spec t=time T=threads u=unbuffered v=verbose w=nodelist W=wait x=exclude
X=disable-status Z=no-allocate
"""
SHORT = dict(pair.split("=") for pair in _SHORT.split())
"""Short options of sbatch and srun."""
_SAME = {"tasks-per-node": "ntasks-per-node"}
_FLAGS = """
contiguous container-mount-home container-readonly container-remap-root container-writable disable-status
exact exclusive get-user-env hold ignore-pbs kill-on-bad-exit label multi-prog nice no-allocate
no-container-entrypoint no-container-mount-home no-container-remap-root no-kill no-requeue overcommit
overlap oversubscribe parsable preserve-env propagate pty quiet reboot requeue spread-job test-only
unbuffered use-min-nodes verbose whole
"""
FLAGS = frozenset(_FLAGS.split())
"""Long options of sbatch and srun that take no value, or only one behind `=`."""


def _escaped(value: str, quoted: bool) -> str:
    return re.sub(r'([\\"])' if quoted else r"""([\\'";|&()])""", r"\\\1", value)


def _stands(found: re.Match[str], at_word: bool) -> bool:
    """Return whether a redirection begins here; digits before it are of a word, or stand alone."""
    return at_word or not found[0][0].isdigit()


def _after(text: str, mark: str, place: int) -> int:
    end = text.find(mark, place)
    if end < 0:
        raise UnclosedError
    return end + 1


def _end_of_expansion(text: str, place: int) -> int:
    """Return where `$NAME`, `${…}`, `$(…)` or a text between backquotes ends."""
    if text[place] == "`":
        return _after(text, "`", place + 1)
    opening = text[place + 1 : place + 2]
    closing = {"(": ")", "{": "}"}.get(opening)
    if not closing:
        found = _NAME.match(text, place)
        return found.end() if found else place + 1
    depth = 0
    for end in range(place + 1, len(text)):
        depth += (text[end] == opening) - (text[end] == closing)
        if not depth:
            return end + 1
    raise UnclosedError


def _is_continued(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _end_of_document(lines: list[str], place: int, mark: str) -> int:
    for end in range(place, len(lines)):
        if lines[end].strip() == mark:
            return end + 1
    return len(lines)


def _starts(words: list[str]) -> Iterator[str]:
    """Yield the words that begin a command."""
    begins = True
    for word in words:
        if begins:
            yield word
        begins = _is_separator(word) or (
            begins and word in {"then", "do", "else", "elif", "!", *_OPENERS, *_CLOSERS}
        )


def _opened_blocks(words: list[str]) -> int:
    """Return how many blocks the words open, less those that they close."""
    starts = list(_starts(words))
    opened = sum((each in _OPENERS) - (each in _CLOSERS) for each in starts)
    if "function" in starts:
        # Of `function name {` and `function name() {` the brace counts.
        opened += ("{" in words and "{" not in starts) - 1
    return opened


def _opened_brackets(words: list[str]) -> int:
    marks = "".join(filter(_is_separator, words))
    return marks.count("(") - marks.count(")")


def _is_structured(words: list[str]) -> bool:
    """Return whether the words are more than simple commands."""
    keywords = {*_OPENERS, *_CLOSERS, "then", "do", "else"}
    is_block = any(each in keywords for each in _starts(words))
    return is_block or any("(" in word or ")" in word for word in filter(_is_separator, words))


def _is_separator(word: str) -> bool:
    return bool(word) and set(word) <= set(_SEPARATORS)


def _simple(words: list[str], line: str) -> Iterator[Statement]:
    """Yield simple commands; their files, and commands that read from them, are beside their words."""
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


def _why_left(line: str) -> str:
    if _HERE_DOCUMENT.search(line):
        return "a here-document is not interpreted: write that file into the project"
    return (
        "loops, conditions, functions, arrays and subshells are not interpreted: "
        "if runs need it, write it into the block `environment` of the site's job.sbatch.j2"
    )


def shortened(text: str) -> str:
    """Return a text of 60 characters at most."""
    return text if len(text) <= 60 else f"{text[:59]}…"
