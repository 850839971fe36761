"""What a Containerfile comes to: steps, each with a key that says what went into it.

A step's key is a digest of its parent's key, its instruction and its inputs: file contents and modes
count, time stamps do not. Nothing is run here.
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from argosy.images.container import DEFAULT_PATH
from argosy.images.containerfile import (
    Containerfile,
    Instruction,
    command,
    expand,
    pairs,
    read_containerfile,
    words,
)
from argosy.images.copying import Copy, copied_files, inputs_digest, read_copy

CACHE_FORMAT = "argosy-layer-1"
"""Part of every key; changed when layers made by an older Argosy must not be used any more."""


@dataclass(frozen=True)
class Settings:
    """What earlier instructions have set for later ones."""

    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"

    @property
    def variables(self) -> dict[str, str]:
        """What `$NAME` means in an instruction; ENV wins over ARG."""
        return {"PATH": DEFAULT_PATH, **self.arguments, **self.environment}


@dataclass(frozen=True)
class Step:
    """An instruction with all that decides its outcome: the settings before it, and its key."""

    instruction: Instruction
    settings: Settings
    key: str


def plan(containerfile: Containerfile) -> list[Step]:
    """The steps of a build with their keys; nothing is run.

    Raises:
        ArgosyError: naming file and line, when COPY's sources are missing or leave the folder.
    """
    settings = Settings()
    key = hashlib.sha256(f"{CACHE_FORMAT} {platform.machine()}".encode()).hexdigest()
    steps = []
    for instruction in containerfile.instructions:
        settings = _apply(settings, instruction)
        key = _key(key, containerfile, instruction, settings)
        steps.append(Step(instruction, settings, key))
    return steps


def image_inputs(folder: Path) -> list[str]:
    """The Containerfile of `containers/<name>/` and every file that it copies into the image.

    Raises:
        ArgosyError: naming file and line, when it cannot be built.
    """
    containerfile = read_containerfile(folder / "Containerfile")
    copied = [
        path
        for step in plan(containerfile)
        if step.instruction.name == "COPY"
        for path in copied_files(copy_of(containerfile, step))
    ]
    return [str(path) for path in (containerfile.path, *copied)]


def copy_of(containerfile: Containerfile, step: Step) -> Copy:
    """The checked arguments of a COPY step."""
    arguments = words(step.instruction.value, step.settings.variables)
    return read_copy(containerfile, step.instruction, arguments)


def _apply(settings: Settings, instruction: Instruction) -> Settings:
    """The settings after an instruction."""
    variables = settings.variables
    match instruction.name:
        case "ENV":
            added = pairs(instruction, variables)
            return replace(settings, environment={**settings.environment, **added})
        case "ARG":
            name, equals, default = instruction.value.partition("=")
            if not equals:
                # Without a default it only declares a name, such as a proxy's, that the host may set.
                return settings
            value = expand(default, variables)
            return replace(settings, arguments={**settings.arguments, name: value})
        case "LABEL":
            return replace(settings, labels={**settings.labels, **pairs(instruction, variables)})
        case "WORKDIR":
            folder = Path(settings.workdir) / expand(instruction.value, variables)
            return replace(settings, workdir=str(folder))
        case _:
            return settings


def _key(parent: str, file: Containerfile, instruction: Instruction, settings: Settings) -> str:
    inputs: list[object] = [parent, instruction.name]
    match instruction.name:
        case "RUN":
            inputs += [command(instruction), settings.variables, settings.workdir]
        case "COPY":
            copy = read_copy(file, instruction, words(instruction.value, settings.variables))
            inputs += [copy.target, settings.workdir, inputs_digest(copy)]
        case "WORKDIR":
            inputs += [settings.workdir]
        case _:
            inputs += [expand(instruction.value, settings.variables)]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
