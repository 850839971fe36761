"""Derives an experiment's command, launcher and name from a program in the project's folder."""

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
"""Launchers, with the pattern of programs that need them; the first match wins."""
TORCH, TENSORFLOW = OWN_IMAGES = ("torch-cpu", "tensorflow-cpu")
"""Argosy's images for programs without a given image."""
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
        words: the words of the command.
        base: the folder for relative paths in the command.
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
        """Name of the experiment, derived from the program's."""
        stems = [path.stem for path in self._paths]
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", (stems or [""])[0]).strip("-._")[:60]
        try:
            return experiment_name(name or "training")
        except ValueError:
            return f"{name}-run"

    @property
    def command(self) -> list[str]:
        """The words with the paths of the container."""
        first, *others = map(self._in_container, self.words)
        return ["python3" if _PYTHON.fullmatch(first) else first, *others]

    @property
    def environment(self) -> dict[str, str]:
        """Variables that the program needs."""
        return {"PYTHONPATH": "/workloads"} if "-m" in self.words else {}

    @property
    def launcher(self) -> str:
        """Launcher that the program needs; `plain` if none is recognised."""
        for text in self._texts():
            for launcher, pattern in LAUNCHERS.items():
                if re.search(pattern, text, re.MULTILINE):
                    return launcher
        return "flower" if self.words[0] == "flwr" else "plain"

    @property
    def image(self) -> str:
        """Argosy's image with the packages that the program imports."""
        return TENSORFLOW if any(map(_IMPORTS_TENSORFLOW.search, self._texts())) else TORCH

    def _texts(self) -> Iterator[str]:
        """Yield the first bytes of the files in the command, as text."""
        for path in self._paths:
            if path.is_file():
                with path.open("rb") as file:
                    yield file.read(_READ_BYTES).decode("utf-8", "replace")

    @property
    def _paths(self) -> list[Path]:
        """Files and folders in the command, and the module of `python -m`."""
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
        """Return a word's path below /workloads; "" if it is not an existing file or folder there."""
        if not word or word[:1] == "-" or "\0" in word:
            return ""
        folder = os.path.normpath(workloads_folder(self.project))
        path = os.path.normpath(self.base / word)
        is_below = path.startswith(f"{folder}/") and is_there(Path(path))
        return os.path.relpath(path, folder) if is_below else ""


def is_there(path: Path) -> bool:
    """Return whether the file or folder exists; a word may be too long for a file name."""
    try:
        return path.exists()
    except OSError:
        return False
