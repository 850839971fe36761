"""Memory in use: of the job where it has a limit of its own, else of the node."""

from __future__ import annotations

from .cgroup import limited_group
from .reading import UnreadError, read_text


class Memory:
    """The group is looked for once; a limit that comes later is not noticed."""

    keys = ("memory_used_bytes",)

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self._roots = proc, sys
        self._group: str | None = None
        self._found = False
        self._meminfo = f"{proc}/meminfo"

    @property
    def of(self) -> str:
        """``cgroup`` or ``node``; known once it was read."""
        return "node" if self._group is None else "cgroup"

    def read(self) -> dict[str, float]:
        """Bytes. A control group's hold its file cache too, a node's do not."""
        if not self._found:
            self._group, self._found = limited_group(*self._roots), True
        if self._group is not None:
            return {"memory_used_bytes": int(read_text(f"{self._group}/memory.current"))}
        return {"memory_used_bytes": self._used_on_node()}

    def _used_on_node(self) -> int:
        found = {}
        for line in read_text(self._meminfo).splitlines():
            name, _, value = line.partition(":")
            if name in ("MemTotal", "MemAvailable"):
                found[name] = int(value.split()[0]) << 10
        if len(found) < 2:
            raise UnreadError(f"no MemTotal and MemAvailable in {self._meminfo}")
        return found["MemTotal"] - found["MemAvailable"]
