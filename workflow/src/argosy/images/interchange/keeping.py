"""Files of an archive that is compressed as a whole, which is decompressed once."""

import os
import tarfile
from pathlib import Path
from typing import IO

from argosy.errors import ArgosyError
from argosy.images.interchange.members import LONGEST_QUOTED, Tar, write
from argosy.images.interchange.progress import Say, Seldom
from argosy.images.interchange.streams import DAMAGE
from argosy.images.store.free_disk import why_no_room
from argosy.units import amount


class Keeper:
    """Makes files of the members of an archive that is compressed as a whole.

    Layers are read in their order, which is seldom that of the archive: to go back in it would be to
    decompress it again.
    """

    def __init__(self, path: Path, packed: IO[bytes], folder: Path, say: Say) -> None:
        self._path = path
        self._packed = packed
        self._folder = folder
        self._say = Seldom(say)
        self._size = os.fstat(packed.fileno()).st_size
        folder.mkdir(mode=0o700)

    def keep(self, tar: Tar, member: tarfile.TarInfo) -> Path:
        """Return the file of the member that was read last.

        Raises:
            ArgosyError: when there is no room for it.
        """
        place = self._folder / str(member.offset)
        member.mode = 0o600
        try:
            if why := why_no_room(self._folder, member.size):
                raise OSError(why)
            write(tar, member, place, self._tell)
        except OSError as problem:
            if isinstance(problem, DAMAGE):
                raise
            name = member.name[:LONGEST_QUOTED]
            raise ArgosyError(f"{self._path}: {name!r}: {problem.strerror or problem}") from None
        return place

    def _tell(self) -> None:
        done = amount(self._packed.tell())
        self._say(f"{self._path}: {done} of {amount(self._size)} decompressed")
