"""Which site's folder is of the cluster that this machine belongs to."""

from pathlib import Path

from argosy.errors import ArgosyError
from argosy.probe.probing import SCHEDULER
from argosy.schedulers import find_batch_system
from argosy.site.models import read_site


def find_here(project: Path) -> str:
    """Return the name of the folder whose `cluster_name` is this cluster's, or which is called so.

    Raises:
        ArgosyError: when there is none, or there are several.
    """
    surveyor = find_batch_system(SCHEDULER).make_surveyor()
    cluster = surveyor.cluster_name() if surveyor else ""
    folders = [path.parent for path in sorted((project / "slurm").glob("*/site.yaml"))]
    named = {folder.name: _cluster_name(folder) for folder in folders}
    found = [name for name, known in named.items() if known and known == cluster]
    # A folder that says nothing may be called as the cluster is.
    found = found or [
        name for name, known in named.items() if not known and name.lower() == cluster.lower()
    ]
    if len(found) > 1:
        raise ArgosyError(
            f"slurm/: {', '.join(found)} all say cluster_name: {cluster}", "leave it in one of them"
        )
    if not found:
        raise ArgosyError(
            f"slurm/: no folder is of this cluster, which is called {cluster or 'nothing'}",
            f"argosy site probe {cluster or 'NAME'} writes one",
        )
    return found[0]


def _cluster_name(folder: Path) -> str:
    """Return what a site's file says; nothing of one that cannot be read, or is still to be filled in."""
    try:
        return read_site(folder).cluster_name or ""
    except ArgosyError:
        return ""
