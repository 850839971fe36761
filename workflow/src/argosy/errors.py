"""The one exception that is meant for the researcher's eyes."""

import errno

FULL = (errno.ENOSPC, errno.EDQUOT)
"""What the system says when a disk is full, or what one may use of it."""


class ArgosyError(Exception):
    """A problem the user can mend. The message is one line: where, what is wrong, what to do.

    The command line prints it without a traceback and exits with 2; the workflow turns it into
    Snakemake's own WorkflowError.
    """


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
    return f"{problem.filename or 'a file'}: {problem.strerror or problem}"
