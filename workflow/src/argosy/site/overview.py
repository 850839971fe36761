"""Short descriptions of a project's sites: hardware, operator and contact."""

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
    """A site's description, as text; "" for unknown values.

    Args:
        operator: operator and country.
        nodes: kinds of nodes.
        devices: models of its GPUs.
        lacks: keys that the user has to fill in.
        checked: newest date of its sources.
        tried: date of Argosy's last run there.
        contact: address of the help desk.
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
    """Describe all sites in a folder, sorted by name; raises ArgosyError if one is unreadable."""
    return [of_site(slurm, name) for name in site_names(slurm)]


def of_site(slurm: Path, name: str) -> SiteOverview:
    """Describe a site; raises ArgosyError if its file is unreadable."""
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
    """Return architecture and GPUs of each kind of node, without duplicates."""
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
