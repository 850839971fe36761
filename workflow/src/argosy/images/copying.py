"""COPY: files of the image's own folder into the image."""

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from argosy.images.containerfile import Containerfile, Instruction
from argosy.images.freeze import inside


@dataclass(frozen=True)
class Copy:
    """Sources on this host, and the target as written."""

    sources: tuple[Path, ...]
    target: str


def read_copy(file: Containerfile, instruction: Instruction, arguments: list[str]) -> Copy:
    """Check COPY's arguments.

    Raises:
        ArgosyError: naming file and line, when a source is missing or outside the image's folder.
    """
    if len(arguments) < 2:
        raise file.error(instruction.line, "COPY needs a source and a target")
    *names, target = arguments
    context = file.path.parent.resolve()
    sources = []
    for name in names:
        source = (context / name).resolve()
        if not source.is_relative_to(context):
            raise file.error(instruction.line, f"COPY: {name} lies outside of {context}")
        if not source.exists():
            raise file.error(instruction.line, f"COPY: there is no {name} in {context}")
        sources.append(source)
    if len(sources) > 1 and not target.endswith("/"):
        raise file.error(instruction.line, f"COPY: several sources need a folder: {target}/")
    return Copy(tuple(sources), target)


def copied_files(copy: Copy) -> list[Path]:
    """Every file that a COPY reads."""
    return [path for source in copy.sources for path in _files(source)]


def inputs_digest(copy: Copy) -> str:
    """A digest of names, modes and contents; time stamps do not count."""
    digest = hashlib.sha256()
    for source in copy.sources:
        for path in _files(source):
            name = path.relative_to(source.parent)
            executable = bool(path.stat().st_mode & 0o100)
            digest.update(f"{name}\0{executable}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def copy_into(root: Path, copy: Copy, workdir: str) -> None:
    """Copy the sources to the target, with Docker's rules for folders."""
    target = copy.target if copy.target.startswith("/") else f"{workdir}/{copy.target}"
    place = inside(root, target)
    for source in copy.sources:
        if source.is_dir():
            shutil.copytree(source, place, dirs_exist_ok=True)
        else:
            into_folder = target.endswith("/") or place.is_dir()
            destination = place / source.name if into_folder else place
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, destination)


def _files(source: Path) -> Iterator[Path]:
    if source.is_file():
        yield source
    else:
        yield from sorted(path for path in source.rglob("*") if path.is_file())
