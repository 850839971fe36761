"""Run COPY and ADD: copy files of the image's folder, of another stage or of a URL into an image.

Files are opened through `rooted`, since images and stages are untrusted.
"""

import io
import posixpath
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from argosy_common.disk import check_room
from argosy_common.errors import ArgosyError
from argosy_images.builder import archives
from argosy_images.builder.downloads import DownloadError, downloaded
from argosy_images.builder.inputs import is_url
from argosy_images.builder.recipe import Step
from argosy_images.containerfile.instructions import Copy
from argosy_images.rootfs.layers import DEEPEST
from argosy_images.rootfs.rooted import Folder, Names, Root, copy_file


class Copier:
    """Runs one COPY or ADD in the file system `root`.

    Args:
        stage: the source of `--from`.
        aside: a path in the store that does not exist yet, for unpacked archives and downloads.
    """

    def __init__(self, step: Step, root: Root, stage: Root | None, aside: Path) -> None:
        assert isinstance(step.entry, Copy)
        self._step = step
        self._entry = step.entry
        self._root = root
        self._stage = stage
        self._aside = aside
        self._written = step.settings.path(step.text(step.entry.target))

    def run(self) -> None:
        """Copy everything.

        Raises:
            ArgosyError: with the line if a source is missing, or cannot be downloaded or unpacked.
            OSError: if the disk is full, or files of the image are in the way.
        """
        for heredoc in self._entry.heredocs:
            content = io.BytesIO(self._step.content(heredoc).encode())
            self._make(heredoc.name, content, 0o644)
        for word in self._entry.sources:
            source = self._step.text(word)
            if self._entry.unpacks and is_url(source):
                self._download(source)
            elif self._stage is None:
                self._copy_from_context(source)
            else:
                self._copy_from_stage(self._stage, source)

    def _copy_from_context(self, word: str) -> None:
        context = self._step.context
        with Root(context.folder) as root:
            for path in context.find(self._entry, word):
                # A source that is a link means its target; links inside folders stay links.
                try:
                    names = path.resolve().relative_to(context.folder).parts
                except ValueError:
                    # Replaced since the path was checked.
                    raise self._error(f"{word} lies outside of {context.folder}") from None
                wanted = None
                if root.is_folder(names):
                    files = context.files(path)
                    wanted = frozenset(str(each.relative_to(path)) for each in files)
                self._copy(root, names, path.name, wanted)

    def _copy_from_stage(self, stage: Root, word: str) -> None:
        found = stage.find(word)
        if not found:
            raise self._error(f"{word} is not in {self._entry.stage}")
        for names, name in found:
            self._copy(stage, names, name, None)

    def _copy(self, root: Root, names: Names, as_name: str, wanted: frozenset[str] | None) -> None:
        if root.is_folder(names):
            with root.folder(names) as source:
                self._copy_folder(source, wanted)
            return
        with root.folder(names[:-1]) as folder:
            if self._entry.unpacks:
                with folder.read(names[-1]) as content:
                    if archives.is_archive(content):
                        self._unpack(content, names[-1])
                        return
            with self._target(as_name) as (target, name):
                self._copy_file(folder, names[-1], target, name)

    def _copy_folder(self, source: Folder, wanted: frozenset[str] | None) -> None:
        """Copy the folder's content, without the folder itself."""
        place = self._root.resolve(self._written)
        self._root.make_folders(place).close()
        self._fill(source, place, "", wanted)

    def _fill(self, source: Folder, place: Names, path: str, wanted: frozenset[str] | None) -> None:
        if path.count("/") > DEEPEST:
            raise self._error(f"{path}: more than {DEEPEST} folders deep")
        with self._root.folder(place) as target:
            for name in source.names():
                below = f"{path}/{name}" if path else name
                if wanted is not None and below not in wanted:
                    continue
                status = source.status(name)
                if status and stat.S_ISDIR(status.st_mode):
                    with source.open(name) as inner:
                        made = self._folder_in(target, (*place, name), stat.S_IMODE(status.st_mode))
                        self._fill(inner, made, below, wanted)
                else:
                    self._copy_file(source, name, target, name)

    def _folder_in(self, target: Folder, place: Names, mode: int) -> Names:
        """Return the target folder: an existing one, also behind a link, or a new one."""
        there = self._root.resolve("/".join(place))
        if not self._root.is_folder(there):
            target.remove(place[-1])
            check_room(self._root.path, 0)
            target.make_folder(place[-1], mode)
            there = place
        if self._entry.mode is not None:
            with self._root.folder(there) as folder:
                folder.set_mode(self._entry.mode)
        return there

    def _copy_file(self, source: Folder, name: str, target: Folder, as_name: str) -> None:
        status = source.status(name)
        if status and stat.S_ISFIFO(status.st_mode):
            raise self._error(f"{name} is not a file")
        copy_file(source, name, target, as_name)
        if self._entry.mode is not None and status and stat.S_ISREG(status.st_mode):
            target.set_mode_of(as_name, self._entry.mode)

    @contextmanager
    def _target(self, name: str) -> Iterator[tuple[Folder, str]]:
        """Yield the target folder of a file and its name there: COPY's target is a file or a folder."""
        several = len(self._entry.sources) + len(self._entry.heredocs) > 1
        place = self._root.resolve(self._written)
        if self._written.endswith("/") or several or self._root.is_folder(place):
            folder, _, name = name.rpartition("/")
            if not name:
                raise self._error(f"the source has no file name: add one to {self._written}")
            place = (*self._root.resolve("/".join((*place, folder))), name)
        with self._root.make_folders(place[:-1]) as target:
            yield target, place[-1]

    def _make(self, name: str, content: BinaryIO, mode: int) -> None:
        """Write a new file over an existing one, with `mode` unless the instruction has --chmod."""
        with self._target(name) as (target, as_name):
            target.remove(as_name)
            target.write(as_name, content, mode if self._entry.mode is None else self._entry.mode)

    def _download(self, url: str) -> None:
        """Download a source of ADD and verify its checksum."""
        kind, _, wanted = (self._entry.checksum or "").partition(":")
        # As in Docker, the name is the path's last part, without a query such as `?download=1`.
        name = posixpath.basename(unquote(urlsplit(url).path).rstrip("/"))
        try:
            with downloaded(url, self._aside) as (content, digest):
                found = digest if kind == "sha256" else ""
                if found != wanted:
                    raise self._error(
                        f"{url}: its checksum is sha256:{found}, not {self._entry.checksum}"
                    )
                self._make(name, content, 0o600)
        except DownloadError as problem:
            raise self._error(f"{url}: {problem}") from None

    def _unpack(self, archive: BinaryIO, name: str) -> None:
        place = self._root.resolve(self._written)
        try:
            archives.unpack(archive, self._aside, self._root, place)
        except archives.ArchiveError as problem:
            raise self._error(f"{name} cannot be unpacked: {problem}") from None

    def _error(self, message: str) -> ArgosyError:
        source = self._step.context.source
        return source.error(self._entry.line, f"{self._entry.name}: {message}")
