"""Horovod's own warning that some ranks wait for others, in a rank's output.

It is no sign of life, and says which ranks did not submit what (horovod/common/stall_inspector.cc).
"""

from __future__ import annotations

import re
import time

_BEGIN = re.compile(rb"\[[^]]*stall_inspector\.cc:\d+\] One or more tensors were submitted")
_MARK = b"stall_inspector.cc"
_SAME_LINE, _RANK = b"Missing ranks:", re.compile(rb"(\d+)!?: \[(.*)\]")
_LONGEST = 120
# Seconds for which a warning counts: while ranks are missing, Horovod repeats it.
_FRESH = 90.0


class StallWarnings:
    """Reads one rank's output and keeps the newest warning."""

    def __init__(self) -> None:
        self._inside = False
        self._missing: dict[int, str] = {}
        self._at = 0.0

    def take(self, data: bytes, lines: list[bytes], rest: bytes) -> bool:
        """Return whether the program itself has said something.

        Args:
            data: what has come just now.
            lines: the lines that it completes.
            rest: what of it belongs to a line that has not ended.
        """
        if not self._inside and _MARK not in b"".join(lines):
            said = lines
        else:
            said = [line for line in lines if not self._is_of_warning(line.strip())]
        # Horovod writes a warning in pieces; a progress bar, too, ends no line.
        unfinished = rest and not self._inside and not rest.startswith(b"[")
        return bool(said or unfinished or b"\r" in data)

    @property
    def text(self) -> str:
        """Who is missing where, such as `rank 1 has not submitted allreduce.x`; empty: nobody."""
        missing = {rank: self._missing[rank] for rank in self.missing}
        parts = [f"rank {rank} has not submitted {names}" for rank, names in missing.items()]
        return "; ".join(parts[:4])

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks that are missing, as far as was said of late."""
        return tuple(self._missing) if time.monotonic() < self._at + _FRESH else ()

    def _is_of_warning(self, line: bytes) -> bool:
        if _BEGIN.match(line):
            self._inside, self._missing = True, {}
            return True
        found = _RANK.fullmatch(line) if self._inside else None
        if found:
            names = found.group(2).decode("ascii", "replace")
            self._missing[int(found.group(1))] = names[:_LONGEST]
            self._at = time.monotonic()
            return True
        if self._inside and line.startswith(_SAME_LINE):
            return True
        self._inside = False
        return False

    def forget(self) -> None:
        """Whoever was missing has come since."""
        self._missing = {}
