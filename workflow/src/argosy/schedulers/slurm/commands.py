"""Calls Slurm's commands and classifies their failures."""

import os
import re
import subprocess
from pathlib import Path

from argosy.schedulers.base import NotNowError, SchedulerError

TIMEOUT_S = 100.0
"""Time limit of a command in seconds. Without munge, Slurm retries for some 50 s."""

QUESTION_TIMEOUT_S = 20.0
"""First time limit of a query, in seconds; repeated queries have longer ones."""

LONGEST_QUESTION_S = 300.0
"""Longest time limit of a query, in seconds: an overloaded slurmctld may take minutes to answer."""

OF_OUTER_JOB = re.compile(r"S(?:LURM|BATCH|RUN|ALLOC|QUEUE|ACCT|CANCEL|CONTROL|INFO)_")
"""Variables of an outer job or the user that would change a command's behaviour."""

MOST_SHOWN = 200
"""Maximum characters of quoted output."""

KEPT = frozenset({"SLURM_CONF", "SLURM_JWT"})

NO_ANSWER = re.compile(
    r"unable to contact slurm controller|socket timed out|connection refused|"
    r"communication connection failure|unexpected message received|zero bytes were transmitted|"
    r"transport endpoint|backup controller|unable to establish (?:controller|connection)|"
    r"resource temporarily unavailable|slurmctld.*(?:not responding|down)|connection timed out",
    re.IGNORECASE,
)
"""Messages of an absent or overloaded slurmctld, which do not concern the job."""


class SlurmError(SchedulerError):
    """A command failed; the text is Slurm's message in one line, `printed` its standard output."""

    printed = ""


class NoAnswerError(SlurmError, NotNowError):
    """slurmctld did not answer: the request may or may not have been carried out."""


class LateError(NoAnswerError):
    """The command exceeded its time limit."""


class MissingError(SlurmError):
    """The command is not on this machine."""


class Patience:
    """The time limit of queries, doubled after each one without an answer.

    So silence is reported soon, and slow answers arrive in the end.
    """

    def __init__(self) -> None:
        self.limit_s = QUESTION_TIMEOUT_S

    def ask(self, program: str, *arguments: str, with_errors: bool = False) -> str:
        """Run a query; see `call`."""
        try:
            return call(program, *arguments, timeout_s=self.limit_s, with_errors=with_errors)
        except LateError:
            self.limit_s = min(LONGEST_QUESTION_S, 2 * self.limit_s)
            raise


def call(
    program: str,
    *arguments: str | Path,
    cwd: Path | None = None,
    timeout_s: float = TIMEOUT_S,
    with_errors: bool = False,
) -> str:
    """Run a Slurm command and return its standard output; `with_errors`: and its standard error.

    Raises:
        NoAnswerError: if slurmctld did not answer.
        MissingError: if the command is not installed.
        SlurmError: if Slurm refused.
    """
    try:
        done = subprocess.run(
            [program, *arguments],
            cwd=cwd,
            env=environment(program),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
    except FileNotFoundError:
        raise MissingError(f"there is no `{program}` on this machine") from None
    except subprocess.TimeoutExpired:
        raise LateError(f"{program}: no answer for {timeout_s:.0f} s") from None
    if done.returncode == 0:
        return done.stdout + (done.stderr if with_errors else "")
    said = one_line(program, done.stderr, done.stdout)
    problem = (NoAnswerError if NO_ANSWER.search(said) else SlurmError)(said)
    problem.printed = done.stdout
    raise problem


def environment(program: str) -> dict[str, str]:
    """Return the variables for a command of Slurm: without an outer job's.

    Queries print times as unix time, in no user's language. A job inherits the variables of sbatch, which
    are therefore the user's.
    """
    mine = {k: v for k, v in os.environ.items() if k in KEPT or not OF_OUTER_JOB.match(k)}
    return mine if program == "sbatch" else {**mine, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


def one_line(program: str, errors: str, printed: str = "") -> str:
    """Return a command's error message in one line; without one, all its output.

    Lines of the message begin with the command's name or another prefix of Slurm. Output before them is
    dropped; later lines may belong to the message.
    """
    own = re.compile(
        rf"{program}: (?:error: |fatal: )?|(?=slurm_\w+|allocation failure|job script )"
    )
    lines = errors.splitlines()
    begin = next((number for number, line in enumerate(lines) if own.match(line)), None)
    lines = [*lines, *printed.splitlines()] if begin is None else lines[begin:]
    said = [
        own.sub("", line, count=1).strip() if own.match(line) else line.strip() for line in lines
    ]
    return "; ".join(filter(None, said)) or f"{program} failed"


def shown(text: str) -> str:
    """Quote output in one line, shortened in the middle."""
    line = " / ".join(filter(None, (each.strip() for each in text.splitlines())))
    short = (
        line
        if len(line) <= MOST_SHOWN
        else f"{line[: MOST_SHOWN // 2]} … {line[-MOST_SHOWN // 2 :]}"
    )
    return f"`{short}`" if short else "nothing"
