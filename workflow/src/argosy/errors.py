"""The one exception that is meant for the researcher's eyes."""

import errno
import re

FULL = (errno.ENOSPC, errno.EDQUOT)
"""What the system says when a disk is full, or what one may use of it."""
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
"""What it says where one may not write."""


class ArgosyError(Exception):
    """A problem the user can mend. The message is one line: where, what is wrong, what to do.

    The command line prints it without a traceback and exits with 2; the workflow turns it into
    Snakemake's own WorkflowError. It may quote programs: what would colour a terminal is left out.
    """

    def __init__(self, message: str) -> None:
        super().__init__(plain(message))


def plain(text: str) -> str:
    """What a program printed, without its codes for a terminal (ECMA-48) and other control characters."""
    return _CONTROL.sub("", _TERMINAL.sub("", text))


_TERMINAL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def explained(problem: OSError) -> str:
    """What the system's complaint means to the researcher."""
    if problem.errno in FULL:
        # Of a copy the system names the source, which is not the one that is full.
        where = problem.filename2 or problem.filename
        said = f" (at {where})" if where else ""
        return (
            f"{problem.strerror}{said}: make room, for instance by `argosy image prune`, and run it again; "
            "what is finished is kept"
        )
    if _is_without_temporary_folder(problem):
        return f"{problem.strerror}: let TMPDIR name a folder that can be written to"
    return f"{problem.filename or 'a file'}: {problem.strerror or problem}"


def is_of_the_surroundings(problem: OSError) -> bool:
    """Whether the researcher, or the site, can mend it; else it is a fault of Argosy's."""
    return problem.errno in (*FULL, *READ_ONLY) or _is_without_temporary_folder(problem)


def _is_without_temporary_folder(problem: OSError) -> bool:
    """Whether Python's tempfile found no folder at all, neither TMPDIR nor /tmp."""
    return problem.errno == errno.ENOENT and "temporary directory" in (problem.strerror or "")
