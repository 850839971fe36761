"""Slurm's commands: how they are called, and what their failures mean."""

import os
import re
import subprocess
from pathlib import Path

from argosy.schedulers.base import NotNowError, SchedulerError

TIMEOUT_S = 100.0
"""A command that takes longer got no answer. Without munge Slurm tries for some 50 s before it says so."""

QUESTION_TIMEOUT_S = 20.0
"""Of commands that change nothing, at first: they can be asked again, with more patience."""

LONGEST_QUESTION_S = 300.0
"""An overloaded slurmctld may take minutes for an answer, and it has to come some day."""

OF_OUTER_JOB = re.compile(r"S(?:LURM|BATCH|RUN|ALLOC|QUEUE|ACCT|CANCEL|CONTROL|INFO)_")
"""Variables by which an outer job, or a habit of the user, would change what a command does."""

MOST_SHOWN = 200
"""Signs of a quotation."""

KEPT = frozenset({"SLURM_CONF", "SLURM_JWT"})

NO_ANSWER = re.compile(
    r"unable to contact slurm controller|socket timed out|connection refused|"
    r"communication connection failure|unexpected message received|zero bytes were transmitted|"
    r"transport endpoint|backup controller|unable to establish (?:controller|connection)|"
    r"resource temporarily unavailable|slurmctld.*(?:not responding|down)|connection timed out",
    re.IGNORECASE,
)
"""slurmctld is away or overloaded: nothing is known, and nothing is wrong with the job."""


class SlurmError(SchedulerError):
    """A command failed; the text is what Slurm said, in one line, `printed` is its standard output."""

    printed = ""


class NoAnswerError(SlurmError, NotNowError):
    """slurmctld did not answer: what was asked may or may not have been done."""


class LateError(NoAnswerError):
    """The command was given up before it came to an end."""


class MissingError(SlurmError):
    """The command is not on this machine."""


class Patience:
    """How long an answer may take: after each that did not come, the next one gets twice as long.

    So whoever asks is told soon when there is no answer, and a slow one is nevertheless heard in the end.
    """

    def __init__(self) -> None:
        self.limit_s = QUESTION_TIMEOUT_S

    def ask(self, program: str, *arguments: str, with_errors: bool = False) -> str:
        """`call` of a command that changes nothing."""
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
    """Run a command of Slurm's and return its standard output, `with_errors` standard error as well.

    Raises:
        NoAnswerError: when slurmctld did not answer.
        MissingError: when there is no such command.
        SlurmError: when Slurm refused.
    """
    try:
        done = subprocess.run(
            [program, *arguments],
            cwd=cwd,
            env=environment(),
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


def environment() -> dict[str, str]:
    """Return this process's variables without those of an outer job; times are asked for as unix time."""
    mine = {k: v for k, v in os.environ.items() if k in KEPT or not OF_OUTER_JOB.match(k)}
    return {**mine, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


def one_line(program: str, errors: str, printed: str = "") -> str:
    """Return why a command failed: what it said itself, or else all that was printed.

    Its own lines begin with its name, or are of the few that Slurm begins otherwise. What a site prints
    before them is left out; what follows may belong to them.
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
    """Return what was printed as a quotation in one line, its beginning and end if it is long."""
    line = " / ".join(filter(None, (each.strip() for each in text.splitlines())))
    short = (
        line
        if len(line) <= MOST_SHOWN
        else f"{line[: MOST_SHOWN // 2]} … {line[-MOST_SHOWN // 2 :]}"
    )
    return f"`{short}`" if short else "nothing"
