"""The cache of build steps: one layer for each, written atomically."""

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainSerializer, ValidationError

from argosy_common.disk import remove_tree
from argosy_common.files import write_text
from argosy_common.units import amount
from argosy_images.builder.recipe import Step
from argosy_images.oci import ImageConfig, StrictModel
from argosy_images.rootfs.archive import digest_of_layer
from argosy_images.rootfs.layers import Change, Layer, take_setuid, walk
from argosy_images.store.store import Store

LARGE = 4 << 30
"""Bytes above which a layer's digest is announced: 1 GiB takes seconds, even if the files are sparse."""


def _written(path: str) -> str:
    """Return a path as text; JSON cannot hold bytes that are not UTF-8, and no path holds a NUL."""
    return re.sub("[\udc80-\udcff]", lambda byte: f"\0{ord(byte[0]) & 0xFF:02x}", path)


def _as_on_disk(text: str) -> str:
    return re.sub("\0([0-9a-f]{2})", lambda byte: chr(0xDC00 + int(byte[1], 16)), text)


ImagePath = Annotated[str, AfterValidator(_as_on_disk), PlainSerializer(_written)]


class CachedBase(StrictModel):
    """Facts of a fetched base besides its files."""

    reference: str
    source: Literal["registry", "archive", "file"]
    config: ImageConfig


class CachedStep(StrictModel):
    """A finished step, in `layer.json` beside its `diff`."""

    instruction: str
    inputs: dict[str, str]
    diff_id: str | None
    """Digest of the layer; None if the step changed no file."""
    removed: tuple[ImagePath, ...] = ()
    opaque: tuple[ImagePath, ...] = ()
    entries: int = 0
    size: int = 0
    setuid: dict[ImagePath, int] = Field(default_factory=dict)
    base: CachedBase | None = None

    @property
    def change(self) -> Change:
        """The layer's removed files, opaque folders, sizes and setuid bits."""
        return Change(self.removed, self.opaque, self.entries, self.size, self.setuid)


def read_step(store: Store, key: str) -> CachedStep | None:
    """Return the finished step with this key, or None, also if its files are gone."""
    folder = store.layer(key)
    try:
        text = (folder / "layer.json").read_text(encoding="utf-8")
        found = CachedStep.model_validate_json(text)
    except (FileNotFoundError, ValidationError, UnicodeDecodeError):
        return None
    return found if found.diff_id is None or (folder / "diff").is_dir() else None


def read_layer(store: Store, key: str) -> Layer:
    """Return the layer of a finished step."""
    cached = read_step(store, key)
    assert cached, key
    return Layer(store.layer(key) / "diff", cached.change)


def read_layers(store: Store, steps: Iterable[Step]) -> list[Layer]:
    """Return the layers of finished steps, without steps that changed no file."""
    found = ((step.key, read_step(store, step.key)) for step in steps)
    return [
        Layer(store.layer(key) / "diff", cached.change)
        for key, cached in found
        if cached and cached.diff_id
    ]


def write_layer(
    store: Store,
    key: str,
    instruction: str,
    inputs: Mapping[str, str],
    make_diff: Callable[[Path], Change],
    *,
    base: CachedBase | None = None,
    say: Callable[[str], None] | None = None,
) -> CachedStep:
    """Add a layer to the cache.

    Args:
        make_diff: makes the layer's folder at the given path.
        say: announces a digest that takes long.
    """
    target = store.layer(key)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=target.parent))
    try:
        change = make_diff(making / "diff")
        change = replace(change, setuid=take_setuid(making / "diff"))
        if say and change.size > LARGE:
            say(_largest_in(making / "diff", change))
        finished = CachedStep(
            instruction=instruction,
            inputs=dict(inputs),
            diff_id=digest_of_layer(making / "diff", change) if change else None,
            base=base,
            **asdict(change),
        )
        # In a shared store, others may read the description of a step, but not its files.
        (making / "diff").chmod(0o700)
        write_text(making / "layer.json", finished.model_dump_json())
        try:
            making.rename(target)
        except OSError:
            # Another image's build finished the same step first: use its layer.
            if existing := read_step(store, key):
                return existing
            # Or it has been damaged, for example by a deleted file.
            remove_tree(target)
            making.rename(target)
    finally:
        remove_tree(making)
    return finished


def _largest_in(diff: Path, change: Change) -> str:
    """Return a message with the largest file of a layer; its digest reads holes too."""
    files = (
        (entry.stat(follow_symlinks=False).st_size, path)
        for path, entry in walk(diff)
        if entry.is_file(follow_symlinks=False)
    )
    size, path = max(files)
    reading = f"reading {amount(change.size)} for the layer's digest"
    return f"{reading}; the largest file is /{path}, {amount(size)}"
