"""A job's request to its scheduler, combined with the site's options."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from argosy.site.models import Site
from argosy.site.placement import Placement, Request
from argosy.site.values import Options
from argosy_common.errors import ArgosyError

GPU_FIELDS = ("{gpus}", "{gpus_total}", "{memory_per_gpu}")


@dataclass(frozen=True)
class JobRequest:
    """A job at its place on a site.

    `folder` is its working folder, which contains its log and identifies it. `warning`: seconds before the
    time limit at which the script gets a signal; None: no signal. `survives_nodes`: the job continues after
    the loss of a node.
    """

    site: Site
    placement: Placement
    request: Request
    folder: Path
    warning: int | None = None
    survives_nodes: bool = False

    @property
    def fields(self) -> Mapping[str, int]:
        """Values of the fields in braces of a site's options."""
        threads = self.placement.hardware.threads_per_core if self.placement.hardware else 1
        cpus = self.request.cpus * threads
        return {
            "nodes": self.request.nodes,
            "ranks": self.request.nodes * self.request.ranks_per_node,
            "ranks_per_node": self.request.ranks_per_node,
            "cpus": cpus,
            "gpus": self.request.gpus,
            "gpus_total": self.request.nodes * self.request.gpus,
            "memory": self.request.memory,
            "memory_per_cpu": math.ceil(self.request.memory / cpus),
            "memory_per_gpu": math.ceil(self.request.memory / max(1, self.request.gpus)),
            "minutes": math.ceil(self.request.time / 60),
        }

    @property
    def account(self) -> str | None:
        """The account to charge."""
        hardware = self.placement.hardware
        return (hardware and hardware.account) or self.site.account

    def with_options_of_site(self, own: Mapping[str, str | None]) -> dict[str, str | None]:
        """Merge the site's options into Argosy's own: they add, replace or remove options."""
        options = {
            name: value for name, value in own.items() if name not in self.site.unsupported_options
        }
        for level in self.levels:
            _apply(options, level, self.fields)
        return options

    def check_folder(self) -> None:
        """Reject a folder that scripts cannot name or compute nodes do not have.

        Raises:
            ArgosyError: with the remedy.
        """
        if not str(self.folder).isprintable():
            # A line break would end the option's comment, and the rest would run as shell.
            raise ArgosyError(
                f"{str(self.folder)!r}: move the project: its path contains control characters"
            )
        for folder, remedy in self.site.absent_folders.items():
            if self.folder.is_relative_to(folder):
                raise ArgosyError(f"absent_folders: compute nodes have no {folder}: {remedy}")

    @property
    def levels(self) -> list[Options]:
        """Options of the site, the hardware and the queue; a later level overrides an earlier one."""
        levels = [self.site.options]
        if self.placement.hardware:
            levels.append(self.placement.hardware.options)
        if self.placement.queue:
            levels.append(self.placement.queue.options)
        return levels


def _apply(options: dict[str, str | None], level: Options, fields: Mapping[str, int]) -> None:
    for name, value in level.items():
        if value is None:
            options.pop(name, None)
        elif value is True:
            options[name] = None
        elif filled := _fill(str(value), fields):
            options[name] = filled
        else:
            options.pop(name, None)


def _fill(value: str, fields: Mapping[str, int]) -> str:
    """Fill in the value's fields; drop its GPU parts if the run has no GPUs."""
    if not fields["gpus"]:
        parts = value.split(",")
        value = ",".join(part for part in parts if not any(gpu in part for gpu in GPU_FIELDS))
    return value.format_map(fields)
