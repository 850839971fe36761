"""Answers as Slurm's commands print them to Argosy's questions, and stand-ins that print them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from argosy.schedulers.slurm.answers import SEPARATOR
from argosy.schedulers.slurm.queue import FIELDS


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, its first column twice."""
    lines = [SEPARATOR.join([row[0], *row, ""]) for row in (header, *rows)]
    return "".join(f"{line}\n" for line in lines)


def queue(*rows: Sequence[str]) -> str:
    """What squeue answers."""
    return table([field.upper() for field in FIELDS], rows)


def stand_in(folder: Path, program: str, script: str) -> None:
    """Put a program of Slurm's there that is a shell script."""
    folder.mkdir(exist_ok=True)
    path = folder / program
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)


def answering(folder: Path, program: str, answer: str) -> None:
    """Put a program of Slurm's there that prints an answer, whatever it is asked."""
    folder.mkdir(exist_ok=True)
    (folder / f"{program}.answer").write_text(answer)
    stand_in(folder, program, f'cat "{folder}/{program}.answer"')
