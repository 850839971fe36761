"""Reads a Containerfile and refuses, by line and before anything runs, what cannot be built.

The grammar is that of `podman build` and `docker build`; dockerfile-parse splits the file into
instructions and knows their lines.
"""

import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, cast

from dockerfile_parse import DockerfileParser
from dockerfile_parse.util import WordSplitter

from argosy.errors import ArgosyError

SUPPORTED = ("FROM", "ARG", "ENV", "RUN", "COPY", "WORKDIR", "LABEL")


@dataclass(frozen=True)
class Instruction:
    """One instruction as written: `value` is what stands behind the name, joined to one line."""

    line: int
    name: str
    value: str

    @property
    def text(self) -> str:
        """The instruction in one line, as it is shown to people."""
        return f"{self.name} {' '.join(self.value.split())}"


@dataclass(frozen=True)
class Containerfile:
    """The instructions of one file, the first of which is FROM."""

    path: Path
    instructions: tuple[Instruction, ...]

    def error(self, line: int, message: str) -> ArgosyError:
        """An error that names the file and line."""
        return ArgosyError(f"{self.path}:{line}: {message}")


def read_containerfile(path: Path) -> Containerfile:
    """Parse `path`.

    Raises:
        ArgosyError: when the file is missing, empty, or holds what Argosy cannot build.
    """
    if not path.is_file():
        raise ArgosyError(f"{path}: there is no Containerfile; make one, or mend the image's name")
    # Its annotation asks for text, its code reads bytes.
    parser = DockerfileParser(fileobj=cast("IO[str]", BytesIO(path.read_bytes())))
    instructions = tuple(
        Instruction(int(entry["startline"]) + 1, str(entry["instruction"]), str(entry["value"]))
        for entry in parser.structure
        if entry["instruction"] != "COMMENT"
    )
    containerfile = Containerfile(path, instructions)
    _refuse_unsupported(containerfile)
    return containerfile


def _refuse_unsupported(containerfile: Containerfile) -> None:
    for instruction in containerfile.instructions:
        if instruction.name not in SUPPORTED:
            raise containerfile.error(
                instruction.line,
                f"{instruction.name} is not supported; there are {', '.join(SUPPORTED)}",
            )
        if instruction.name in ("RUN", "COPY") and instruction.value.startswith("<<"):
            raise containerfile.error(instruction.line, "here-documents are not supported")
        if instruction.name in ("RUN", "COPY") and instruction.value.startswith("--"):
            option = instruction.value.split()[0]
            raise containerfile.error(
                instruction.line, f"{instruction.name} {option} is not supported"
            )
    names = [instruction.name for instruction in containerfile.instructions]
    if names[:1] != ["FROM"]:
        line = containerfile.instructions[0].line if names else 1
        raise containerfile.error(line, "the first instruction must be FROM")
    if names.count("FROM") > 1:
        line = [entry.line for entry in containerfile.instructions if entry.name == "FROM"][1]
        raise containerfile.error(line, "several stages are not supported: one FROM a file")


def expand(value: str, variables: dict[str, str]) -> str:
    """Replace `$NAME` and `${NAME}` and remove quotes, as FROM, ENV, COPY and WORKDIR do."""
    return str(WordSplitter(value, envs=variables).dequote())


def words(value: str, variables: dict[str, str]) -> list[str]:
    """Split `value` into words, honouring quotes, and expand each."""
    split = WordSplitter(value, envs=variables).split(dequote=True)
    return [str(word) for word in split if word]


def pairs(instruction: Instruction, variables: dict[str, str]) -> dict[str, str]:
    """The `NAME=value` pairs of ENV and LABEL; also the old form `ENV NAME value`."""
    first, _, rest = instruction.value.partition(" ")
    if "=" not in first:
        return {first: expand(rest.strip(), variables)}
    split = [word.partition("=") for word in words(instruction.value, variables)]
    return {name: value for name, _, value in split}


def command(instruction: Instruction) -> list[str]:
    """The argument vector of RUN: exec form as given, shell form through /bin/sh."""
    if instruction.value.startswith("["):
        try:
            parsed = json.loads(instruction.value)
        except json.JSONDecodeError:
            parsed = None
        if isinstance(parsed, list) and all(isinstance(word, str) for word in parsed):
            return parsed
    return ["/bin/sh", "-c", instruction.value]
