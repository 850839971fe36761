"""Build, store, exchange and run container images without root.

Other packages use only the names below. A module is loaded on the first use of a name, since each node
imports this package to start a container.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argosy_images.archive.packing import pack_image as pack_image
    from argosy_images.builder.builder import Plan as Plan
    from argosy_images.builder.builder import build_image as build_image
    from argosy_images.builder.history import Finding as Finding
    from argosy_images.builder.recipe import image_inputs as image_inputs
    from argosy_images.engines.choice import Trial as Trial
    from argosy_images.engines.choice import choose_engine as choose_engine
    from argosy_images.engines.nvidia import nvml_module as nvml_module
    from argosy_images.gc.inventory import FrozenImage as FrozenImage
    from argosy_images.gc.inventory import Inventory as Inventory
    from argosy_images.gc.prune import prune as prune
    from argosy_images.interchange.exporting import export_image as export_image
    from argosy_images.interchange.importing import check_taken as check_taken
    from argosy_images.interchange.importing import import_image as import_image
    from argosy_images.interchange.importing import take_image as take_image
    from argosy_images.native import make_environment as make_environment
    from argosy_images.shell import look_inside as look_inside
    from argosy_images.store.lockfile import Digest as Digest
    from argosy_images.store.lockfile import ImageLock as ImageLock
    from argosy_images.store.lockfile import ImageName as ImageName
    from argosy_images.store.sharing import share as share
    from argosy_images.store.store import Store as Store
    from argosy_images.tools import Tools as Tools

MODULES = {
    "archive.packing": "pack_image",
    "builder.builder": "Plan build_image",
    "builder.history": "Finding",
    "builder.recipe": "image_inputs",
    "engines.choice": "Trial choose_engine",
    "engines.nvidia": "nvml_module",
    "gc.inventory": "FrozenImage Inventory",
    "gc.prune": "prune",
    "interchange.exporting": "export_image",
    "interchange.importing": "check_taken import_image take_image",
    "native": "make_environment",
    "shell": "look_inside",
    "store.lockfile": "Digest ImageLock ImageName",
    "store.sharing": "share",
    "store.store": "Store",
    "tools": "Tools",
}
"""Public names by module."""

_MODULE_OF = {name: module for module, names in MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
