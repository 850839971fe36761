"""The one exception that is meant for the researcher's eyes."""


class ArgosyError(Exception):
    """A problem the user can mend. The message is one line: where, what is wrong, what to do.

    The command line prints it without a traceback and exits with 2; the workflow turns it into
    Snakemake's own WorkflowError.
    """
