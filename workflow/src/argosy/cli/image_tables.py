"""Tables of `argosy image` in a terminal."""

import os
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from argosy.terminal import Listing, plural, shortened
from argosy_common.errors import plain
from argosy_common.units import amount, duration
from argosy_images import Finding, FrozenImage, Inventory, Trial

_OF_IMAGES = ("image", "digest", "base", "size", "layers", "built, last used")
UNREADABLE = "from another version of Argosy, or damaged"


def of_inventory(inventory: Inventory) -> Iterator[RenderableType]:
    """Yield the table of images, and the size of the step cache."""
    if inventory.images:
        rows = [_cells(inventory, image) for image in inventory.images]
        yield Listing(_OF_IMAGES, rows, right=(3,))
        if packed := [image.packed_size for image in inventory.images if image.packed_size]:
            count = plural(len(packed), "image")
            yield Text(f"packed for nodes that unpack them: {count}, {amount(sum(packed))}")
        yield Text(f"total, shared layers counted once: {amount(inventory.size)}")
    else:
        yield Text("no image has been built or imported yet; see: argosy image build --help")
    yield Text(_cache_line(inventory))


def described(inventory: Inventory) -> dict[str, Any]:
    """Return the images and the cache for JSON: sizes in bytes, times in Unix seconds."""
    return {
        "schema_version": 1,
        "images": [_described(inventory, image) for image in inventory.images],
        "bytes": inventory.size,
        "cache": {
            "layers": len(inventory.layers),
            "bytes": inventory.cache_size,
            "unused_layers": len(inventory.unused),
            "unused_bytes": inventory.unused_size,
        },
    }


def _described(inventory: Inventory, image: FrozenImage) -> dict[str, Any]:
    shared, own = _counts(inventory, image)
    lock = image.lock
    return {
        "name": plain(lock.name) if lock else None,
        "digest": image.digest,
        "base": plain(_base(lock.base.reference)) if lock else None,
        "bytes": image.size,
        "packed_bytes": image.packed_size or None,
        "layers": shared + own,
        "shared_layers": shared,
        "built": image.built,
        "last_used": image.used,
    }


def of_findings(image: str, findings: Iterable[Finding]) -> Iterator[RenderableType]:
    """Yield the steps of an image, and the reasons to run some of them again."""
    rows: list[tuple[str, str, str | Text]] = []
    missing = count = 0
    for finding in findings:
        count += 1
        missing += bool(finding.reasons)
        reasons = Text(plain("; ".join(finding.reasons)), "yellow") if finding.reasons else "cached"
        file = "" if finding.image == image else f"{finding.image}:"
        rows.append((f"{file}{finding.line}", shortened(finding.instruction, 56), reasons))
    yield Listing(("line", "instruction", "why"), rows, right=(0,))
    if missing:
        yield Text(f"\n{missing} of {count} steps of {image} have to run")
    else:
        yield Text(f"\nall {count} steps of {image} are cached")


def of_trials(trials: Iterable[Trial], chosen: str) -> Iterator[RenderableType]:
    """Yield the table of container engines on this host."""
    rows = []
    for trial in trials:
        times = ("", "") if trial.start_s is None else (_ms(trial.start_s), _ms(trial.calls_s or 0))
        rows.append((trial.engine, *times, _verdict(trial, chosen)))
    headings = ("engine", "starts in", f"{Trial.CALLS:,} system calls", "verdict")
    yield Listing(headings, rows, right=(1, 2))


def _verdict(trial: Trial, chosen: str) -> str:
    if trial.engine == chosen:
        fastest = "fastest with isolation"
        return f"chosen: {fastest if trial.isolates else 'no engine with isolation works'}"
    return trial.said or ("" if trial.isolates else "does not isolate")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


def _cells(inventory: Inventory, image: FrozenImage) -> tuple[str, ...]:
    used = ago(time.time() - image.used)
    times = f"{datetime.fromtimestamp(image.built):%Y-%m-%d}, {used}"
    size = amount(image.size)
    digest = image.digest.removeprefix("sha256:")[:12]
    if image.lock is None:
        return ("?", digest, UNREADABLE, size, "", times)
    shared, own = _counts(inventory, image)
    layers = f"{own} own, {shared} shared" if shared else f"{own} own"
    return (image.lock.name, digest, _base(image.lock.base.reference), size, layers, times)


def _base(reference: str) -> str:
    """Return the short form of a base image's reference."""
    return reference.partition("@")[0].removeprefix("docker.io/").removeprefix("library/")


def _counts(inventory: Inventory, image: FrozenImage) -> tuple[int, int]:
    shared = len(inventory.shared(image))
    return shared, len(image.layers) - shared


def _cache_line(inventory: Inventory) -> str:
    layers = plural(len(inventory.layers), "layer")
    line = f"cache of steps: {layers}, {amount(inventory.cache_size)}"
    if unused := inventory.unused:
        line += f"; {amount(inventory.unused_size)} in unused layers ({len(unused)})"
    # Another user's shared store has unreadable layers.
    diffs = (layer.folder / "diff" for layer in inventory.layers)
    if closed := sum(diff.is_dir() and not os.access(diff, os.R_OK) for diff in diffs):
        line += f"; unreadable layers, not counted: {closed}"
    return line


def ago(seconds: float) -> str:
    """Return `just now`, `5m ago` or `3d ago`, rounded down to the largest unit."""
    for unit in (86400, 3600, 60):
        if seconds >= unit:
            return f"{duration(int(seconds // unit * unit))} ago"
    return "just now"
