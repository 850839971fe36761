"""Reads the container of a batch script: its image, and its mounts of host folders."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from argosy.schedulers.slurm.user_script.environment import Environment
from argosy.schedulers.slurm.user_script.job import Job
from argosy.schedulers.slurm.user_script.launch import STARTERS
from argosy.schedulers.slurm.user_script.lines import is_open
from argosy.schedulers.slurm.user_script.options import IMAGES, MOUNTS, Directive
from argosy.shipped.program import is_there
from argosy.study.data import Data, apart, container_path
from argosy.study.image_names import REGISTRY
from argosy.study.values import image_or_source
from argosy_common.host_paths import host_path

_SEPARATORS = {"singularity": ",", "srun": ",", "shifter": ";"}
_NOT_SAID = " (read-only; add write: true if the program writes to it)"


@dataclass
class Container:
    """The container of the launch line; its methods note the result for each part.

    Args:
        job: the script's job.
        environment: the environment so far.
    """

    job: Job
    environment: Environment
    data: dict[str, Data] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    """Mount points of the project's folder in the script's container."""

    @property
    def data_keys(self) -> dict[str, Any]:
        """The key `data` of the experiment."""
        return {
            target: {"from": each.source, "write": True} if each.write else each.source
            for target, each in self.data.items()
        }

    def image(self, asked: str | None, default: str) -> str:
        """Return the experiment's image: the user's choice, or else the script's, or else `default`."""
        options, script = self.job.options, self.job.script
        named = [options[name] for name in IMAGES if name in options]
        if self.job.launch.image:
            named.insert(0, Directive(self.job.statement.line, "", self.job.launch.image))
        for each in named[1:]:
            script.leave(each.line, each.text, "the launch line also names an image")
        found = self._image_of(named[0].value) if named and not asked else ""
        image = found or asked or default
        if found:
            script.take(named[0].line, named[0].value, f"image: {image}")
        elif named:
            said = f"image: is {image}; for this one see docs/images.md, or name another by --image"
            script.leave(named[0].line, named[0].value, said)
        return image

    def read_mounts(self) -> None:
        """Read all mounts into `data` and `own`."""
        for line, text, value, separator in self._mounts():
            for mount in value.split(separator) if separator else [value]:
                if mount:
                    self.job.script.note(line, f"{text}{mount}", partial(self._mount, mount))

    def words(self) -> list[str]:
        """Return the program and its arguments, with the host's path of the project's folder."""
        own = "|".join(map(re.escape, self.own))
        there = rf"(^|=)(?:{own})(?=/|$)"
        folder = str(self.environment.folder)
        words = self.job.launch.program
        return [re.sub(there, lambda m: m[1] + folder, word) for word in words] if own else words

    def _image_of(self, word: str) -> str:
        """Return the image named by a word; empty if Argosy cannot use it."""
        name = word.removeprefix("docker:").removeprefix("//")
        image = REGISTRY + name.replace("#", "/")
        if name.endswith(".sif") and "://" not in name:
            path, folder = self.environment.path(name), self.environment.folder
            image = str(path.relative_to(folder) if path.is_relative_to(folder) else path)
        elif name.startswith((".", "/")) or "://" in name:
            return ""
        try:
            return image_or_source(image) if image.isprintable() and not is_open(image) else ""
        except ValueError:
            return ""

    def _mounts(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield the line, the text before a mount, the mounts and their separator for each option."""
        for name, separator in MOUNTS.items():
            if each := self.job.options.get(name):
                yield each.line, f"--{name}=", each.value, separator
        for line, name, value in self.environment.binds:
            yield line, f"{name}=", value, ","
        for name, option, value in self.job.launch.mounts:
            line = self.job.statement.line
            yield line, f"{name} {option} ", value, _SEPARATORS.get(STARTERS[name], "")

    def _mount(self, mount: str) -> str:
        """Add a mount to `data` or `own`, and return its key. Raises ValueError for unsupported mounts."""
        source, _, rest = mount.partition(":")
        target, _, flags = rest.partition(":")
        target = self.job.script.restored(target or source)
        target = target.rstrip("/") or target
        if not is_open(source) and self.environment.path(source) == self.environment.folder:
            self.own.append(target)
            return "each container shows the project, as /workloads"
        modes = re.split("[,+]", flags)
        try:
            if target in self.data:
                raise ValueError(f"{target} is already in it")
            content = {"from": self._source(source), "write": "rw" in modes}
            data = {container_path(target): Data.model_validate(content)}
            self.data = apart(self.data | data)
        except ValueError as problem:
            raise ValueError(f"`data` refuses it: {problem}") from None
        if "ro" in modes:
            return f"data.{target}"
        return f"data.{target}{', write: true' if 'rw' in modes else _NOT_SAID}"

    def _source(self, word: str) -> str:
        """Return a mount's path on the host, absolute or with a variable; raises ValueError."""
        is_relative = word[:1] not in ("/", "~") and not is_open(word[:1])
        path = self.environment.path(word)
        if is_relative and not is_open(word) and not is_there(path):
            raise ValueError(f"{word} is not a path of the host")
        return host_path(self.job.script.restored(str(path) if is_relative else word))
