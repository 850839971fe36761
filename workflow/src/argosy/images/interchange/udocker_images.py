"""Images that a user has pulled or loaded by udocker, in udocker's own folder."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from argosy.errors import ArgosyError

PREFIX = "udocker:"
_NAME = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._/-]*?)(?::([A-Za-z0-9_][A-Za-z0-9._-]*))?")
_MOST_TOLD = 10


def tag_folder(text: str, variables: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of `udocker:NAME[:TAG]`, as `udocker images` names it.

    Raises:
        ArgosyError: when it is not there, saying what is.
    """
    repos = Path(variables.get("UDOCKER_DIR") or Path.home() / ".udocker") / "repos"
    found = _NAME.fullmatch(text.removeprefix(PREFIX))
    if not found or ".." in text:
        raise ArgosyError(
            f"{text!r}: an image of udocker is written {PREFIX}NAME or {PREFIX}NAME:TAG"
        )
    name, tag = found[1], found[2] or "latest"
    for place in (repos / name / tag, repos / "library" / name / tag):
        if (place / "TAG").is_file():
            return place
    there = sorted(
        f"{path.parent.parent.relative_to(repos)}:{path.parent.name}" for path in repos.rglob("TAG")
    )
    told = ", ".join(there[:_MOST_TOLD]) or "no image"
    raise ArgosyError(
        f"{text}: {repos} has no such image; it has {told}",
        "let UDOCKER_DIR name the folder that udocker uses, or pull it: "
        f"argosy image import docker://{name}:{tag} NAME",
    )
