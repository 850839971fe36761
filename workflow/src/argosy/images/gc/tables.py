"""What the commands of images show in a terminal."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from argosy.errors import plain
from argosy.images.builder.explain import Finding
from argosy.images.engines.choice import CALLS, Trial
from argosy.images.engines.models import ISOLATING_ENGINES
from argosy.images.gc.disk import total
from argosy.images.gc.inventory import FrozenImage, Inventory, diff_ids
from argosy.units import amount, duration

GAP = (0, 2, 0, 0)
NARROW_GAP = (0, 1, 0, 0)
_ANY = 1000
"""Columns of a terminal that is wide enough for anything."""
UNREADABLE = "from another version of Argosy, or damaged"


def of_inventory(inventory: Inventory) -> Iterator[RenderableType]:
    """Yield the frozen images, and what the cache of steps comes to."""
    if inventory.images:
        yield _Images(inventory)
        if packed := [image.packed for image in inventory.images if image.packed]:
            count = f"{len(packed)} {'image' if len(packed) == 1 else 'images'}"
            yield Text(f"packed for nodes that unpack them: {count}, {amount(total(packed))}")
        everything = amount(total(inventory.usages))
        yield Text(f"all together, what is shared counted once: {everything}")
    else:
        yield Text("no image has been built or imported yet; see: argosy image build --help")
    yield Text(_cache_line(inventory))


def of_findings(image: str, findings: Iterable[Finding]) -> Iterator[RenderableType]:
    """Yield the steps of an image, and why some have to run again."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=GAP)
    table.add_column(justify="right", style="dim")
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    missing = count = 0
    for finding in findings:
        count += 1
        missing += bool(finding.reasons)
        said = (
            Text(plain("; ".join(finding.reasons)), "yellow") if finding.reasons else Text("cached")
        )
        file = "" if finding.image == image else f"{finding.image}:"
        table.add_row(f"{file}{finding.line}", Text(plain(_shortened(finding.instruction))), said)
    yield table
    if missing:
        yield Text(f"\n{missing} of {count} steps of {image} have to run")
    else:
        yield Text(f"\nall {count} steps of {image} are cached")


def of_trials(trials: Iterable[Trial], chosen: str) -> Iterator[RenderableType]:
    """Yield what each engine of containers does on this host."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=GAP)
    for heading in ("engine", "starts in", f"{CALLS:,} system calls"):
        table.add_column(heading, no_wrap=True)
    table.add_column("", overflow="fold")
    for trial in trials:
        times = ("", "") if trial.start_s is None else (_ms(trial.start_s), _ms(trial.calls_s or 0))
        said = _said_of(trial, chosen)
        table.add_row(trial.engine, *times, Text(plain(said)))
    yield table


def _said_of(trial: Trial, chosen: str) -> str:
    isolates = trial.engine in ISOLATING_ENGINES
    if trial.engine == chosen:
        return (
            "chosen: the fastest that isolates" if isolates else "chosen: none that isolates works"
        )
    return trial.said or ("" if isolates else "does not isolate")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


@dataclass(frozen=True)
class _Images:
    """The frozen images, a line each where there is room, else two."""

    inventory: Inventory

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = _table(self.inventory, " ")
        fits = Measurement.get(console, options.update(width=_ANY), wide).maximum
        yield wide if fits <= options.max_width else _table(self.inventory, "\n")


def _table(inventory: Inventory, between: str) -> Table:
    """Return the table, with `between` between the two parts of a cell that has two."""
    gap = GAP if between == " " else NARROW_GAP
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=gap)
    table.add_column("image", overflow="fold")
    table.add_column("digest", no_wrap=True)
    table.add_column("base", overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    for heading in ("layers", f"built,{between}last used"):
        table.add_column(heading, no_wrap=True)
    for image in inventory.images:
        table.add_row(*map(Text, _cells(inventory, image, between)))
    return table


def _cells(inventory: Inventory, image: FrozenImage, between: str) -> tuple[str, ...]:
    built = f"{datetime.fromtimestamp(image.built):%Y-%m-%d},"
    times = f"{built}{between}{ago(time.time() - image.used)}"
    size = amount(total([image.usage]))
    digest = image.digest.removeprefix("sha256:")[:12]
    if image.lock is None:
        return ("?", digest, UNREADABLE, size, "", times)
    shared, own = _counts(inventory, image)
    layers = f"{own} own,{between}{shared} shared" if shared else f"{own} own"
    base = image.lock.base.reference.partition("@")[0]
    base = base.removeprefix("docker.io/").removeprefix("library/")
    if between != " ":
        base = base.replace(":", f":{between}")
    return (plain(image.lock.name), digest, plain(base), size, layers, times)


def _counts(inventory: Inventory, image: FrozenImage) -> tuple[int, int]:
    shared = len(inventory.shared(image))
    return shared, len(diff_ids(image.lock)) - shared


def _cache_line(inventory: Inventory) -> str:
    number = len(inventory.layers)
    size = amount(total(layer.usage for layer in inventory.layers))
    line = f"cache of steps: {number} {'layer' if number == 1 else 'layers'}, {size}"
    if unused := inventory.unused:
        line += f"; {amount(inventory.freed_by(unused))} of it in {len(unused)} that no image uses"
    return line


def ago(seconds: float) -> str:
    """`just now`, `5m ago`, `3d ago`: to the largest unit."""
    for unit in (86400, 3600, 60):
        if seconds >= unit:
            return f"{duration(int(seconds // unit * unit))} ago"
    return "just now"


def _shortened(text: str) -> str:
    return text if len(text) <= 70 else text[:69] + "…"
