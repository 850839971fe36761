"""Reads a batch script's job: its options, its launch line and its sizes."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from argosy.schedulers.slurm.user_script.launch import Launch, read_launch
from argosy.schedulers.slurm.user_script.lines import Script, Statement
from argosy.schedulers.slurm.user_script.options import IMAGES, Directive, job_options
from argosy.schedulers.slurm.user_script.sizes import Sizes, sizes_of
from argosy.study.shell_words import PLACEHOLDERS
from argosy_common.errors import ArgosyError
from argosy_common.reading import read_text

_MOST_BYTES = 1 << 18


@dataclass(frozen=True)
class Job:
    """A batch script, its options of sbatch, and its parsed launch line."""

    script: Script
    options: dict[str, Directive]
    statement: Statement
    launch: Launch

    @classmethod
    def read(cls, path: Path, project: Path) -> "Job":
        """Read a batch script. Raises ArgosyError if it is unreadable, or no line starts a program."""
        if job := cls.of_text(_text_of(path), project):
            return job
        raise ArgosyError(
            f"{path}: no line starts a program, for example by srun, mpirun, torchrun or python",
            "name the program yourself: argosy init --command 'python train.py'",
        )

    @classmethod
    def of_text(cls, text: str, project: Path) -> "Job | None":
        """Read the text of a batch script; None if no line starts a program."""
        known = {"SLURM_SUBMIT_DIR": str(project), "PWD": str(project), **PLACEHOLDERS}
        known |= {name: os.environ[name] for name in ("HOME", "USER") if name in os.environ}
        script = Script.read(text, known)
        starts = [(each, read_launch(each.words, script.split)) for each in script.statements]
        launches = [(each, launch) for each, launch in starts if launch]
        if not launches:
            return None
        by_launcher = [each for each in launches if each[1].starters]
        return cls(script, job_options(script), *(by_launcher or launches[-1:])[0])

    @cached_property
    def sizes(self) -> Sizes:
        """The sizes of the job."""
        return sizes_of(self.options, self.launch)

    @property
    def has_container(self) -> bool:
        """Whether the script names an image."""
        return bool(self.launch.image) or not self.options.keys().isdisjoint(IMAGES)

    def leave(self, text: str, reason: str) -> None:
        """Note why a part of the launch line was left out."""
        self.script.leave(self.statement.line, text, reason)


def _text_of(path: Path) -> str:
    try:
        real = path.resolve()
        text = read_text(real, real.parent, _MOST_BYTES).replace("\r\n", "\n")
    except (OSError, ValueError) as problem:
        said = getattr(problem, "strerror", "") or f"cannot be read: {problem}"
        raise ArgosyError(f"{path}: {said}", "name a batch script") from None
    if "\0" in text:
        raise ArgosyError(f"{path}: contains a NUL byte, so it is not text", "name a batch script")
    return text
