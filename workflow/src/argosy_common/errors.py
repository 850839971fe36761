"""The exception for users' mistakes, and text that is safe to print."""

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
    """A problem that the user can fix: a one-line `PLACE: PROBLEM`, and the remedy, `hint`.

    The command line prints both without a traceback and exits with 2; the workflow raises Snakemake's
    WorkflowError. Messages may quote untrusted text: control characters are removed, line breaks escaped.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        self.problem, self.hint = _one_line(message), _one_line(hint)
        super().__init__(f"{self.problem}; {self.hint}" if hint else self.problem)

    @property
    def lines(self) -> str:
        """The problem, and a second line with the hint if there is one."""
        return f"{self.problem}\nhint: {self.hint}" if self.hint else self.problem

    def at(self, place: str, who: str = "") -> "ArgosyError":
        """Return the problem prefixed with its place (a file or option); `who` names the run."""
        of = f" ({who})" if who else ""
        return ArgosyError(f"{place}: {self.problem}{of}", self.hint)


def _one_line(text: str) -> str:
    return plain(text).strip().replace("\n", "\\n")


MOST_NAMES = 8
"""Names listed in a message; the rest are counted."""


def some(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Join names with commas; of more than `most`, list the first and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def choices(names: Sequence[str], wrong: str = "") -> str:
    """Return the hint for an unknown name: the most similar of `names`, or all of them."""
    if close := difflib.get_close_matches(wrong, names, n=2):
        return f"did you mean {' or '.join(close)}?"
    return f"there are {some(names)}" if names else "there are none yet"


def plain(text: str) -> str:
    """Remove terminal codes (ECMA-48), control characters and direction marks from untrusted text.

    Line breaks and tabs stay. Lone surrogates, as in file names that are not UTF-8, become U+FFFD.
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
# Escapes other than colours are removed.
_NOT_SHOWN = re.compile(rf"\x1b(?!\[[0-9;:]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f{_UNSEEN}]")
_LONGEST_CODE = 4096
_CUT_OFF = re.compile(
    rf"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]{{0,{_LONGEST_CODE}}}\x1b?|[ -/]*)\Z"
)
_HALF = re.compile("[\ud800-\udfff]")


def plain_texts(value: Any) -> Any:
    """Apply `plain` to all texts of a JSON value."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [plain_texts(each) for each in value]
    if isinstance(value, dict):
        return {plain_texts(key): plain_texts(each) for key, each in value.items()}
    return value


def coloured(text: str) -> tuple[str, str]:
    """Clean a program's output for a terminal; keep colours (SGR of ECMA-48) and carriage returns.

    Returns:
        The text, and an unfinished code at its end to prepend to the next output.
    """
    rest = _CUT_OFF.search(text)
    whole = text[: rest.start()] if rest else text
    kept = _TERMINAL.sub(lambda code: code[0] if _COLOUR.fullmatch(code[0]) else "", whole)
    return _HALF.sub("\ufffd", _NOT_SHOWN.sub("", kept)), rest[0] if rest else ""


def explained(problem: OSError) -> str:
    """Describe a system error to the user."""
    if problem.errno in FULL:
        # `filename` is the source of a copy; the target's disk is full.
        where = problem.filename2 or problem.filename
        said = f" (at {where})" if where else ""
        return (
            f"{problem.strerror}{said}: free space, for example with `argosy image prune`, and try again; "
            "finished parts are kept"
        )
    if _is_without_temporary_folder(problem):
        return f"{problem.strerror}: set TMPDIR to a writable folder"
    # A rename reports the temporary file first; the user knows the target.
    in_the_way = problem.errno in (errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST)
    where = (in_the_way and problem.filename2) or problem.filename or "a file"
    return f"{where}: {problem.strerror or problem}"


def is_of_the_surroundings(problem: OSError) -> bool:
    """Return whether the user or the site can fix the error; otherwise it is a bug in Argosy."""
    return problem.errno in (*FULL, *READ_ONLY) or _is_without_temporary_folder(problem)


def _is_without_temporary_folder(problem: OSError) -> bool:
    """Return whether Python's tempfile found no usable folder, neither TMPDIR nor /tmp."""
    return problem.errno == errno.ENOENT and "temporary directory" in (problem.strerror or "")
