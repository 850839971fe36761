"""Files by which a node and this machine know that a folder of one name is one folder to both."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from argosy.files import write_text
from argosy.probe.looks import NodeLook
from argosy.reading import read_text

PREFIX = ".argosy-look-"
NOT_SEEN = "takes files that the login node does not see: it is another folder there"


@dataclass(frozen=True)
class Marks:
    """The marks of one job.

    Args:
        secret: the job's; it is a part of each file's name, and its content.
        paths: the folders, and whether nodes write into each.
    """

    secret: str
    paths: Mapping[str, bool]

    def leave(self) -> list[str]:
        """Leave a file in each folder, for nodes to read; return the folders that took one."""
        left = []
        for path in filter(os.path.isdir, self.paths):
            with suppress(OSError):
                write_text(Path(path) / f"{PREFIX}{self.secret}", self.secret)
                left.append(path)
        return left

    def checked(self, looks: Sequence[NodeLook], patience_s: float) -> list[NodeLook]:
        """Return the looks, with a problem for each folder where a node's file is not seen here."""
        until = time.monotonic() + patience_s
        return [self._checked(look, until) for look in looks]

    def remove(self, nodes: int) -> None:
        """Remove the files of this machine, and of so many nodes."""
        for path in self.paths:
            for name in (self.secret, *(self._name(number) for number in range(nodes))):
                with suppress(OSError):
                    (Path(path) / f"{PREFIX}{name}").unlink()

    def _name(self, number: int) -> str:
        return f"{self.secret}-{number}"

    def _checked(self, look: NodeLook, until: float) -> NodeLook:
        unseen = [
            path for path in self._written(look) if not self._is_seen(path, look.number, until)
        ]
        if not unseen:
            return look
        return look.model_copy(update={"paths": {**look.paths, **dict.fromkeys(unseen, NOT_SEEN)}})

    def _written(self, look: NodeLook) -> Iterable[str]:
        """Return the folders into which a node says that it wrote."""
        return (
            path for path, writes in self.paths.items() if writes and look.paths.get(path) == ""
        )

    def _is_seen(self, path: str, number: int, until: float) -> bool:
        while True:
            with suppress(OSError):
                if (
                    read_text(Path(path) / f"{PREFIX}{self._name(number)}", Path(path))
                    == self.secret
                ):
                    return True
            if time.monotonic() > until:
                return False
            time.sleep(0.5)
