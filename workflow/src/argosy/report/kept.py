"""What takes long to make and is the same for all reports, kept in the environment that has Argosy."""

import sysconfig
from contextlib import suppress
from pathlib import Path

from jinja2 import FileSystemBytecodeCache
from jinja2.bccache import Bucket


def folder_of_kept() -> Path:
    """It may not be there, and where many users share an environment it may not be written."""
    return Path(sysconfig.get_path("data")) / "share" / "argosy"


class KeptTemplates(FileSystemBytecodeCache):
    """Compiled templates, told apart by their texts and by the versions of Python and Jinja2."""

    def __init__(self) -> None:
        super().__init__(str(folder_of_kept()), "template-%s.bin")

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template where that is possible."""
        with suppress(OSError):
            folder_of_kept().mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)
