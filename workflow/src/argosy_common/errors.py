"""The one exception that is meant for the researcher's eyes."""

import difflib
import errno
import re
from collections.abc import Sequence
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk or an exhausted quota."""
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Error numbers of missing write permission."""


class ArgosyError(Exception):
    """A problem that the user can fix: place and problem in one line, and the remedy, `hint`.

    The command line prints both without a traceback and exits with 2; the workflow turns it into
    Snakemake's own WorkflowError. It may quote programs and files' names: what would colour a terminal is
    left out, and a line break is shown as one.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        self.problem, self.hint = _one_line(message), _one_line(hint)
        super().__init__(f"{self.problem}; {self.hint}" if hint else self.problem)

    @property
    def lines(self) -> str:
        """The problem, followed by a line with the hint if there is one."""
        return f"{self.problem}\nhint: {self.hint}" if self.hint else self.problem

    def at(self, place: str, who: str = "") -> "ArgosyError":
        """Return the same problem with its place, a file or an option, and perhaps the run that met it."""
        of = f" ({who})" if who else ""
        return ArgosyError(f"{place}: {self.problem}{of}", self.hint)


def _one_line(text: str) -> str:
    return plain(text).strip().replace("\n", "\\n")


MOST_NAMES = 8
"""Most names in a message, which then counts the others."""


def some(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Join names with commas; of more than `most`, list the first and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def choices(names: Sequence[str], wrong: str = "") -> str:
    """Return the hint for a name that is none of `names`: the nearest of them, or all."""
    if close := difflib.get_close_matches(wrong, names, n=2):
        return f"did you mean {' or '.join(close)}?"
    return f"there are {some(names)}" if names else "there are none yet"


def plain(text: str) -> str:
    """Return foreign text without characters that act on a terminal or page; keep lines and tabs.

    That is codes for terminals (ECMA-48), other control characters, and marks that turn the direction in
    which text is read. What is half of a character, as in the name of a file that is not UTF-8, is U+FFFD.
    """
    if text.isprintable():
        return text
    return _HALF.sub("\ufffd", _CONTROL.sub("", _TERMINAL.sub("", text)))


_TERMINAL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])"
)
# Direction marks, separators of lines and annotations, and invisible tags.
_UNSEEN = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\U000e0000-\U000e007f"
_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSEEN}]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
# An escape is of a colour, or it goes.
_NOT_SHOWN = re.compile(rf"\x1b(?!\[[0-9;:]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f{_UNSEEN}]")
_LONGEST_CODE = 4096
_CUT_OFF = re.compile(
    rf"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]{{0,{_LONGEST_CODE}}}\x1b?|[ -/]*)\Z"
)
_HALF = re.compile("[\ud800-\udfff]")


def plain_texts(value: Any) -> Any:
    """Return a value of JSON, or of a table, whose texts are `plain`."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [plain_texts(each) for each in value]
    if isinstance(value, dict):
        return {plain_texts(key): plain_texts(each) for key, each in value.items()}
    return value


def coloured(text: str) -> tuple[str, str]:
    """Return a program's output for a terminal, and the rest to hold back: an unfinished code at its end.

    Its colours stay (SGR of ECMA-48), and that it goes back to the begin of a line, as progress bars do.
    """
    rest = _CUT_OFF.search(text)
    whole = text[: rest.start()] if rest else text
    kept = _TERMINAL.sub(lambda code: code[0] if _COLOUR.fullmatch(code[0]) else "", whole)
    return _HALF.sub("\ufffd", _NOT_SHOWN.sub("", kept)), rest[0] if rest else ""


def explained(problem: OSError) -> str:
    """Return the meaning of a system error to the user."""
    if problem.errno in FULL:
        # Of a copy the system names the source, which is not the one that is full.
        where = problem.filename2 or problem.filename
        said = f" (at {where})" if where else ""
        return (
            f"{problem.strerror}{said}: free space, for example with `argosy image prune`, and try again; "
            "finished parts are kept"
        )
    if _is_without_temporary_folder(problem):
        return f"{problem.strerror}: let TMPDIR name a folder that can be written to"
    # Of a file that is to take another's place, the system names the new one first, which has no name yet.
    in_the_way = problem.errno in (errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST)
    where = (in_the_way and problem.filename2) or problem.filename or "a file"
    return f"{where}: {problem.strerror or problem}"


def is_of_the_surroundings(problem: OSError) -> bool:
    """Return whether the researcher, or the site, can mend it; else it is a fault of Argosy's."""
    return problem.errno in (*FULL, *READ_ONLY) or _is_without_temporary_folder(problem)


def _is_without_temporary_folder(problem: OSError) -> bool:
    """Return whether Python's tempfile found no folder at all, neither TMPDIR nor /tmp."""
    return problem.errno == errno.ENOENT and "temporary directory" in (problem.strerror or "")
