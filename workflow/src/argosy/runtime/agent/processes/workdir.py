"""Where ranks start: in a folder to which they can write."""

from __future__ import annotations

import os
from typing import Iterator, Sequence

from ..settings import Settings


def workdir(settings: Settings) -> str | None:
    """Return the folder in which a rank starts; None: where its agent did.

    In a container that is the run's `output`: the image is read-only. An image's own WORKDIR counts where
    it can be written to, or holds what the command names by a relative path.
    """
    if not settings.in_container:
        return None
    here = os.getcwd()
    if here != "/" and (os.access(here, os.W_OK) or _is_named(settings.run.command, here)):
        return None
    return settings.output if os.path.isdir(settings.output) else None


def _is_named(command: Sequence[str], folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, path)) for path in _relative_paths(command))


def _relative_paths(command: Sequence[str]) -> Iterator[str]:
    """Yield what may be relative paths in a command, also in the text of `bash -c`."""
    before = ""
    for word in " ".join(command).split():
        if before == "-m":
            module = word.replace(".", "/")
            yield from (module, f"{module}.py")
        elif not word.startswith(("/", "-")):
            yield word
        before = word
