"""What takes long to make and is the same for all reports, kept in the environment that has Argosy."""

import hashlib
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from jinja2 import FileSystemBytecodeCache
from jinja2.bccache import Bucket


def folder_of_kept() -> Path:
    """It may not be there, and where many users share an environment it may not be written."""
    return Path(sysconfig.get_path("data")) / "share" / "argosy"


class KeptTemplates(FileSystemBytecodeCache):
    """Compiled templates, told apart by their texts, the version of Python and `options` of Jinja2."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        digest = hashlib.sha256(repr(sorted(options.items())).encode()).hexdigest()[:16]
        super().__init__(str(folder_of_kept()), f"template-{digest}-%s.bin")

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take a template that is kept; a damaged one is compiled again."""
        with suppress(OSError, EOFError, ValueError, UnpicklingError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template where that is possible."""
        with suppress(OSError):
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)
