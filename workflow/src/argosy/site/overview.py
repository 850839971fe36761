"""The sites of a project in a few words: hardware, operator and contact."""

import re
from dataclasses import dataclass
from pathlib import Path

from argosy.site.models import Site, read_site
from argosy_common.errors import ArgosyError

_DATE = re.compile(r"\d{4}(?:-\d\d){0,2}")
NO_SITES = ("templates", "mycluster")
"""Folders of slurm/ that describe no cluster."""


@dataclass(frozen=True)
class SiteOverview:
    """A site in words.

    Args:
        operator: who runs it, and where; "" where that is not said.
        nodes: its kinds of nodes.
        devices: the models of its GPUs, in short; "" where it has none.
        lacks: keys that are left for its user to fill in.
        checked: the newest date of what it was written from; "" where none bears one.
        tried: when Argosy last ran there; "": not yet.
        contact: where its users ask.
    """

    name: str
    operator: str
    nodes: str
    devices: str
    interface: str
    lacks: str
    checked: str
    tried: str
    contact: str


def site_names(slurm: Path) -> list[str]:
    """Return the names of the sites in a folder, sorted."""
    names = sorted(path.parent.name for path in slurm.glob("*/site.yaml"))
    return [name for name in names if name not in NO_SITES]


def overview(slurm: Path) -> list[SiteOverview]:
    """Return the sites in a folder, by name; raises ArgosyError for one that cannot be read."""
    return [of_site(slurm, name) for name in site_names(slurm)]


def of_site(slurm: Path, name: str) -> SiteOverview:
    """Return a site in words; raises ArgosyError when its file cannot be read."""
    try:
        site = read_site(slurm / name)
    except ArgosyError as problem:
        raise problem.at(f"slurm/{name}") from None
    dates = [date for each in site.sources for date in _DATE.findall(each.date or "")]
    needs_network = site.scheduler != "local"
    lacks = [
        *(["interface"] if needs_network and not (site.interface or site.host_suffix) else []),
        *(["account"] if site.account_required and not site.account else []),
    ]
    return SiteOverview(
        name=name,
        operator=site.operator or "",
        nodes="; ".join(_nodes(site)),
        devices=_devices(site),
        interface=site.interface or site.host_suffix,
        lacks=", ".join(lacks),
        checked=max(dates, default=""),
        tried=site.tried or "",
        contact=site.contact or "",
    )


def _nodes(site: Site) -> list[str]:
    """Return each kind of node once: its processor's architecture, and its GPUs."""
    kinds: dict[str, None] = {}
    for entry in site.hardware.values():
        plural = "s" if entry.gpus > 1 else ""
        gpus = f", {entry.gpus} GPU{plural}: {entry.gpu}" if entry.gpus else ""
        kinds[f"{entry.architecture}{gpus}"] = None
    return list(kinds)


def _devices(site: Site) -> str:
    """Return the models of GPUs without their memory: `A100, H200`."""
    names = [entry.gpu for entry in site.hardware.values() if entry.gpus and entry.gpu]
    models = [re.search(r"\b[A-Z]+\d\w*", name) for name in names]
    found = [model[0] if model else name for model, name in zip(models, names, strict=True)]
    return ", ".join(dict.fromkeys(found))
