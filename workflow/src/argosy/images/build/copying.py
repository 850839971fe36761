"""COPY and ADD: files of the image's folder, of another stage or of an address into a file system."""

import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images.build.inputs import is_url
from argosy.images.build.recipe import Step
from argosy.images.containerfile.instructions import Copy
from argosy.images.freeze import inside

DOWNLOAD_TIMEOUT_S = 60
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


class Copier:
    """Carries out one step in the file system `root`; `stage` is where `--from` copies from."""

    def __init__(self, step: Step, root: Path, stage: Path | None) -> None:
        assert isinstance(step.entry, Copy)
        self._step = step
        self._entry = step.entry
        self._root = root
        self._stage = stage
        self._written = step.settings.path(step.text(step.entry.target))
        self._place = inside(root, self._written)

    def run(self) -> None:
        """Copy everything.

        Raises:
            ArgosyError: naming the line, when a source is missing, or cannot be had or unpacked.
        """
        for heredoc in self._entry.heredocs:
            target = self._file_target(heredoc.name)
            target.write_text(self._step.content(heredoc), encoding="utf-8")
            target.chmod(self._entry.mode or 0o644)
        for word in self._entry.sources:
            source = self._step.text(word)
            if self._entry.unpacks and is_url(source):
                self._download(source)
            else:
                for path in self._find(source):
                    self._copy(path)

    def _find(self, source: str) -> list[Path]:
        if self._stage is None:
            return self._step.context.find(self._entry, source)
        # A stage may hold links to absolute paths, which mean itself and not this host.
        folder, _, pattern = source.strip("/").rpartition("/")
        base = inside(self._stage, folder)
        if not pattern:
            return [base]
        if any(character in pattern for character in "*?["):
            found = sorted(base.glob(pattern))
        else:
            exact = inside(self._stage, source)
            found = [exact] if os.path.lexists(exact) else []
        if not found:
            raise self._error(f"{source} is not in {self._entry.stage}")
        return found

    def _copy(self, source: Path) -> None:
        if source.is_dir():
            self._copy_folder(source)
        elif self._entry.unpacks and source.name.endswith(_ARCHIVES):
            self._unpack(source)
        else:
            # A link that is named itself stands for its file; those in folders stay links.
            named = source if self._stage else source.resolve()
            self._copy_file(named, self._file_target(source.name))

    def _copy_folder(self, source: Path) -> None:
        """What is in the folder, not the folder itself."""
        _make_folder(self._place)
        for path in self._members(source):
            target = self._place / path.relative_to(source)
            if path.is_dir() and not path.is_symlink():
                if not target.is_dir():
                    _clear(target)
                    target.mkdir()
                    shutil.copymode(path, target)
                if self._entry.mode is not None:
                    target.chmod(self._entry.mode)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                self._copy_file(path, target)

    def _members(self, source: Path) -> Sequence[Path]:
        if self._stage is None:
            return list(self._step.context.files(source))
        return sorted(source.rglob("*"))

    def _copy_file(self, source: Path, target: Path) -> None:
        _clear(target)
        if stat.S_ISFIFO(source.lstat().st_mode):
            raise self._error(f"{source} is not a file")
        shutil.copy2(source, target, follow_symlinks=False)
        if self._entry.mode is not None and not target.is_symlink():
            target.chmod(self._entry.mode)

    def _file_target(self, name: str) -> Path:
        """Where a file of this name goes: into the target, or to it."""
        several = len(self._entry.sources) + len(self._entry.heredocs) > 1
        if self._written.endswith("/") or several or self._place.is_dir():
            _make_folder(self._place)
            return self._place / name
        _make_folder(self._place.parent)
        return self._place

    def _download(self, url: str) -> None:
        """Fetch what ADD names, and refuse it when it is not what the checksum says."""
        kind, _, wanted = (self._entry.checksum or "").partition(":")
        name = url.rstrip("/").rpartition("/")[2]
        target = self._file_target(name)
        # Imported where it is needed: few images download a file.
        from urllib.request import urlopen

        try:
            with urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as answer:
                content = answer.read()
        except OSError as problem:
            raise self._error(f"{url}: {problem}") from None
        found = hashlib.new(kind, content).hexdigest() if kind == "sha256" else ""
        if found != wanted:
            raise self._error(f"{url}: its checksum is sha256:{found}, not {self._entry.checksum}")
        _clear(target)
        target.write_bytes(content)
        target.chmod(self._entry.mode or 0o600)

    def _unpack(self, source: Path) -> None:
        _make_folder(self._place)
        # tar itself refuses members that lead out of the folder: absolute names lose their slash, `..`
        # is skipped, and symbolic links are made last.
        options = ["--no-same-owner", "--preserve-permissions", "--delay-directory-restore"]
        where = ["--file", str(source), "--directory", str(self._place)]
        done = subprocess.run(
            ["tar", "--extract", *where, *options], capture_output=True, text=True
        )
        if done.returncode != 0:
            problem = (done.stderr.strip().splitlines() or ["tar failed"])[0]
            raise self._error(f"{source.name} cannot be unpacked: {problem}")

    def _error(self, message: str) -> ArgosyError:
        source = self._step.context.source
        return source.error(self._entry.line, f"{self._entry.name}: {message}")


def _make_folder(path: Path) -> None:
    path.mkdir(mode=0o755, parents=True, exist_ok=True)


def _clear(target: Path) -> None:
    """A file in place of whatever was there."""
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
