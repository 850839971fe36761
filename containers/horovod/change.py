"""A change of Horovod's source, and why it is made."""

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """The one place of a file that holds `old` gets `new` instead."""

    file: str
    old: str
    new: str

    def apply(self, source: Path) -> None:
        """Make it; a file that does not hold `old` once ends the program."""
        path = source / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            sys.exit(f"{path}: {self.old!r} is there {text.count(self.old)} times, not once")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


class Change:
    """Edits that are made for one reason."""

    def __init__(self, why: str, *edits: Edit) -> None:
        self.why = why
        self.edits = edits

    def files(self) -> list[str]:
        """Return each file once, in order."""
        return list(dict.fromkeys(edit.file for edit in self.edits))
