"""A program in a project's folder, as an experiment starts it: its command, launcher and name."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.shipped.files import workloads_folder
from argosy.study.values import experiment_name
from argosy_common.errors import ArgosyError

LAUNCHERS = {
    "horovod": r"\bhorovod\b",
    "ray": r"^\s*(import|from) ray\b",
    "flower": r"\bflwr\b",
    "jax": r"\bjax\.distributed\b",
    "tensorflow": r"\bMultiWorkerMirroredStrategy\b",
    "torch": r"torch\.distributed|\blightning\b|\baccelerate\b",
    "mpi": r"\bmpi4py\b",
}
"""Launchers, and what a program has that needs them; the first that fits is taken."""
TORCH, TENSORFLOW = OWN_IMAGES = ("torch-cpu", "tensorflow-cpu")
"""The images of Argosy for programs whose users name none."""
_IMPORTS_TENSORFLOW = re.compile(
    r"^\s*(?:import|from) (?:horovod\.)?(?:tensorflow|keras)\b", re.MULTILINE
)
_PYTHON = re.compile(r"python[\d.]*")
_OPTION = re.compile(r"(--?[\w-]+=)(.+)")
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Program:
    """A program and its arguments.

    Args:
        project: the folder of the project.
        words: of the command.
        base: the folder where relative paths in the command begin.
    """

    project: Path
    words: Sequence[str]
    base: Path

    @classmethod
    def of_text(cls, project: Path, command: str) -> "Program":
        """Split a command as a shell would. Raises ArgosyError."""
        try:
            words = shlex.split(command)
        except ValueError as problem:
            raise ArgosyError(f"--command: cannot be split into words: {problem}") from None
        if not words:
            raise ArgosyError(
                "--command: is empty", "name the program: 'python train.py --lr 1e-3'"
            )
        return cls(project, words, project)

    @property
    def name(self) -> str:
        """The name of the experiment: that of the program."""
        stems = [path.stem for path in self._paths]
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", (stems or [""])[0]).strip("-._")[:60]
        try:
            return experiment_name(name or "training")
        except ValueError:
            return f"{name}-run"

    @property
    def command(self) -> list[str]:
        """The words as a container has them."""
        first, *others = map(self._in_container, self.words)
        return ["python3" if _PYTHON.fullmatch(first) else first, *others]

    @property
    def environment(self) -> dict[str, str]:
        """The variables that it needs."""
        return {"PYTHONPATH": "/workloads"} if "-m" in self.words else {}

    @property
    def launcher(self) -> str:
        """The launcher that a program of the command needs; `plain` if none is recognised."""
        for text in self._texts():
            for launcher, pattern in LAUNCHERS.items():
                if re.search(pattern, text, re.MULTILINE):
                    return launcher
        return "flower" if self.words[0] == "flwr" else "plain"

    @property
    def image(self) -> str:
        """The image of Argosy that has what the program imports."""
        return TENSORFLOW if any(map(_IMPORTS_TENSORFLOW.search, self._texts())) else TORCH

    def _texts(self) -> Iterator[str]:
        """Yield the beginnings of the files that the command names."""
        for path in self._paths:
            if path.is_file():
                with path.open("rb") as file:
                    yield file.read(_READ_BYTES).decode("utf-8", "replace")

    @property
    def _paths(self) -> list[Path]:
        """The files and folders that the command names, and the module of `python -m`."""
        words = list(self.words)
        if "-m" in words[1:-1]:
            module = words[words.index("-m") + 1].replace(".", "/")
            words += [f"{module}.py", f"{module}/__main__.py"]
        return [self.base / word for word in words if self._inside(word)]

    def _in_container(self, word: str) -> str:
        option = _OPTION.fullmatch(word)
        name, path = option.groups() if option else ("", word)
        inside = self._inside(path)
        return f"{name}/workloads/{inside}" if inside else word

    def _inside(self, word: str) -> str:
        """Return the path of a file or folder in /workloads; empty if a word names none, or the folder."""
        if not word or word[:1] == "-" or "\0" in word:
            return ""
        folder = os.path.normpath(workloads_folder(self.project))
        path = os.path.normpath(self.base / word)
        is_below = path.startswith(f"{folder}/") and is_there(Path(path))
        return os.path.relpath(path, folder) if is_below else ""


def is_there(path: Path) -> bool:
    """Return whether there is such a file or folder; a word of a command may be longer than names are."""
    try:
        return path.exists()
    except OSError:
        return False
