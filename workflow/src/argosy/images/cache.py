"""The cache of build steps: a layer each, there whole or not at all."""

import shutil
import tempfile
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from argosy.files import write_text
from argosy.images import layers
from argosy.images.store import Store


class CachedStep(BaseModel):
    """What is known of a finished step, in `step.json` beside its `layer.tar`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    instruction: str
    diff_id: str | None = None
    """Digest of the layer; None when the step changed no file."""
    reference: str | None = None
    source: Literal["registry", "archive"] | None = None
    environment: dict[str, str] = {}
    """Of FROM: what was asked for, where it came from, and the environment that it sets."""


def read_step(store: Store, key: str) -> CachedStep | None:
    """The finished step with this key, if there is one."""
    entry = store.layer(key) / "step.json"
    if not entry.is_file():
        return None
    return CachedStep.model_validate_json(entry.read_text(encoding="utf-8"))


def restore_step(store: Store, key: str, step: CachedStep, root: Path) -> None:
    """Apply the step's layer to `root`."""
    if step.diff_id:
        layers.unpack(store.layer(key) / "layer.tar", root)


def write_step(
    store: Store, key: str, step: CachedStep, root: Path, change: layers.Change
) -> CachedStep:
    """Pack what the step changed in `root` and put it into the cache; returns it with its digest."""
    target = store.layer(key)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=target.parent))
    try:
        diff_id = layers.pack(root, change, making / "layer.tar") if change else None
        finished = step.model_copy(update={"diff_id": diff_id})
        write_text(making / "step.json", finished.model_dump_json(indent=2))
        try:
            making.replace(target)
        except OSError:
            # Another image's build finished the same step first; its layer is the one that counts.
            existing = read_step(store, key)
            if existing is None:
                raise
            return existing
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return finished
