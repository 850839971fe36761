"""Collect the inputs of a step by readable names, files included.

`Context` is the image's folder: it finds the sources of COPY.
"""

import hashlib
import json
import os
import posixpath
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pathspec import PathSpec, Pattern

from argosy_common.errors import ArgosyError
from argosy_images.builder.hostconfig import INSTALLERS
from argosy_images.builder.settings import Settings
from argosy_images.containerfile.instructions import Copy, Entry, Mount, Run, content_of, expanded
from argosy_images.containerfile.text import Source
from argosy_images.rootfs.rooted import matching

IGNORE_FILES = (".containerignore", ".dockerignore")

_GIT = re.compile(r"git@|git://|ssh://|https?://[^?#]*\.git(#|$)")
"""Sources of ADD that Docker and podman clone."""

VARIABLE = "variable "
"""Prefix of the names of inputs that are variables."""


@dataclass(frozen=True)
class Context:
    """The image's folder, without ignored files."""

    source: Source

    @cached_property
    def folder(self) -> Path:
        """The folder's real path."""
        return self.source.context.resolve()

    @cached_property
    def _ignored(self) -> PathSpec[Pattern]:
        for name in IGNORE_FILES:
            path = self.folder / name
            if path.is_file():
                lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
                try:
                    return PathSpec.from_lines("gitignore", map(_anchored, lines))
                except (ValueError, re.error) as problem:
                    raise ArgosyError(f"{path}: {problem}") from None
        return PathSpec.from_lines("gitignore", ())

    def find(self, entry: Entry, pattern: str) -> list[Path]:
        """Return the files and folders that match a source of COPY."""
        relative = os.path.normpath(pattern.lstrip("/") or ".")
        if relative.split("/")[0] == "..":
            raise self.source.error(entry.line, f"{pattern} lies outside of {self.folder}")
        if relative == ".":
            return [self.folder]
        found = self._matches(entry, self.folder, relative.split("/"))
        kept = [path for path in found if not self._leaves_out(path) or self._holds_some(path)]
        for path in kept:
            self._check(entry, path)
        if not kept:
            why = "is left out by the ignore file" if found else f"is not in {self.folder}"
            raise self.source.error(entry.line, f"{pattern} {why}")
        # Only the content of a folder is copied, so its name does not matter.
        return [path.resolve() if path.is_dir() else path for path in kept]

    def files(self, path: Path) -> Iterator[Path]:
        """Yield all files and folders in a folder that are not ignored, or the file itself."""
        if path.is_symlink() or not path.is_dir():
            yield path
            return
        with os.scandir(path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for each in found:
            below = Path(each.path)
            if each.is_dir(follow_symlinks=False):
                inner = list(self.files(below))
                # Skip a folder whose files are all ignored.
                if inner or not (self._leaves_out(below) or any(below.iterdir())):
                    yield below
                    yield from inner
            elif not self._leaves_out(below):
                yield below

    def left_out(self, folder: Path) -> Callable[[str, list[str]], set[str]] | None:
        """Return an `ignore` function for `copytree`, or None if nothing in the folder is ignored."""
        if not self._ignored.patterns or not folder.is_dir():
            return None
        kept = {*self.files(folder)}
        if kept.issuperset(folder.rglob("*")):
            return None
        return lambda where, names: {name for name in names if Path(where, name) not in kept}

    def _holds_some(self, path: Path) -> bool:
        """Return whether the path is a folder with files that are not ignored."""
        is_folder = path.is_dir() and not path.is_symlink()
        return is_folder and next(self.files(path), None) is not None

    def _leaves_out(self, path: Path) -> bool:
        relative = path.relative_to(self.folder)
        names = [str(each) for each in (relative, *relative.parents) if each.parts]
        left_out = False
        # As in Docker, the last line that matches a file or a parent decides.
        for pattern in self._ignored.patterns:
            if any(pattern.match_file(name) for name in names):
                left_out = bool(pattern.include)
        return left_out

    def _matches(self, entry: Entry, folder: Path, parts: list[str]) -> list[Path]:
        """Return paths that match a pattern of Go's filepath.Match, whose `*` matches no slash."""
        part, *rest = parts
        if not any(character in part for character in "*?["):
            found = [folder / part] if os.path.lexists(folder / part) else []
        else:
            self._check(entry, folder)
            names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
            found = [folder / name for name in matching(names, part)]
        if not rest:
            return found
        return [path for each in found for path in self._matches(entry, each, rest)]

    def _check(self, entry: Entry, path: Path) -> None:
        try:
            inside = path.resolve().is_relative_to(self.folder)
            readable = os.access(path, os.R_OK)
        except (OSError, RuntimeError) as problem:
            raise self.source.error(entry.line, f"{path}: {problem}") from None
        if not inside:
            raise self.source.error(
                entry.line, f"{path.relative_to(self.folder)} lies outside of {self.folder}"
            )
        if not path.exists():
            target = path.readlink()
            raise self.source.error(entry.line, f"{path} links to {target}, which is missing")
        if not readable:
            raise self.source.error(entry.line, f"{path} is not readable")


def _anchored(line: str) -> str:
    """Translate a line of .dockerignore to git's syntax: Docker's patterns are relative to the folder."""
    text = line.strip()
    if not text or text.startswith("#"):
        return ""
    negated, pattern = text.startswith("!"), text.removeprefix("!").strip()
    pattern = os.path.normpath(pattern.lstrip("/"))
    return f"{'!' if negated else ''}/{pattern}" if pattern != "." else ""


def digest_of_file(path: Path) -> str:
    """Hash a file's type, mode and content or link target, without times and owner."""
    status = path.lstat()
    digest = hashlib.sha256(
        f"{stat.S_IFMT(status.st_mode)} {stat.S_IMODE(status.st_mode):o} ".encode()
    )
    if stat.S_ISLNK(status.st_mode):
        digest.update(os.fsencode(path.readlink()))
    elif stat.S_ISREG(status.st_mode):
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


Inputs = dict[str, str]
Keys = Mapping[str, str]
"""Keys of the chains that a step reads from, by the names in the instruction."""


def inputs_of_run(
    context: Context, entry: Run, settings: Settings, uses: Keys
) -> tuple[Inputs, list[Path]]:
    """Return the inputs of RUN, with all variables, and the files that it mounts."""
    command = entry.command
    inputs = {
        "instruction": "RUN",
        "command": command if isinstance(command, str) else json.dumps(command),
        "workdir": settings.config.workdir,
        "user": settings.config.user,
    }
    if isinstance(command, str):
        inputs["shell"] = json.dumps(settings.shell)
    if INSTALLERS.search(entry.told) or any(mount.kind == "cache" for mount in entry.mounts):
        # The layer may contain files from this image's caches: other images must not reuse it.
        inputs["name of the image"] = context.folder.name
    inputs |= {
        f"{VARIABLE}{name}": value
        for name, value in settings.variables.items()
        if not _is_covered(settings, name, entry.told)
    }
    inputs |= _heredocs([(heredoc.name, heredoc.content) for heredoc in entry.heredocs])
    found: list[Path] = []
    for number, mount in enumerate(entry.mounts):
        inputs[f"mount {number}"] = _described(mount)
        if mount.kind == "bind" and not mount.stage:
            source = expanded(context.source, entry, mount.source, settings.variables)
            found += [file for path in context.find(entry, source) for file in context.files(path)]
    return {**inputs, **_digests(context, found, found), **_stages(uses)}, _only_files(found)


def _is_covered(settings: Settings, name: str, told: str) -> bool:
    """Return whether an ARG of a parent stage is an input of that stage, and the command does not name it.

    Steps of early versions did not see ARGs of parent stages; their layers stay valid where they name none.
    """
    value = settings.variables[name]
    is_input = value == settings.arguments.get(name) == settings.covered.get(name)
    return is_input and not re.search(rf"\$\{{?{re.escape(name)}\b", told)


def inputs_of_copy(
    context: Context, entry: Copy, settings: Settings, uses: Keys
) -> tuple[Inputs, list[Path]]:
    """Return the inputs of COPY and ADD, with variables expanded, and the files that it copies."""
    source, variables = context.source, settings.variables
    words = [expanded(source, entry, word, variables) for word in entry.sources]
    target = settings.path(expanded(source, entry, entry.target, variables))
    contents = [(each.name, content_of(source, entry, each, variables)) for each in entry.heredocs]
    inputs = {
        "instruction": entry.name,
        "sources": json.dumps(words),
        "target": target,
        "mode": "as it is" if entry.mode is None else f"{entry.mode:o}",
        **_heredocs(contents),
        **_stages(uses),
    }
    if entry.unpacks and (cloned := next(filter(_GIT.match, words), None)):
        problem = f"ADD {cloned}: git repositories are not supported"
        raise source.error(entry.line, problem, "clone a fixed commit: RUN git clone …")
    remote = [word for word in words if is_url(word)] if entry.unpacks else []
    _check_remote(context, entry, remote)
    if entry.unpacks:
        inputs["archives are known by"] = "their content"
    if remote:
        inputs["checksum"] = entry.checksum or ""
    local = [word for word in words if word not in remote and not entry.stage]
    found = [path for word in local for path in context.find(entry, word)]
    # A pattern may match several files.
    if max(len(words), len(found)) + len(contents) > 1 and not target.endswith("/"):
        raise source.error(
            entry.line, f"{entry.name}: several sources need a target folder: {target}/"
        )
    files = [file for path in found for file in context.files(path)]
    return {**inputs, **_digests(context, files, found)}, _only_files(files)


def is_url(word: str) -> bool:
    """Return whether ADD downloads this source."""
    return word.startswith(("http://", "https://"))


def _check_remote(context: Context, entry: Copy, remote: Sequence[str]) -> None:
    if remote and not entry.checksum:
        raise context.source.error(
            entry.line,
            f"ADD {remote[0]}: add --checksum=sha256:…; the file behind an "
            "address may change, and the cache would not notice",
        )
    if entry.checksum and (len(remote) != 1 or len(entry.sources) != 1):
        raise context.source.error(entry.line, "ADD --checksum supports a single URL")


def _described(mount: Mount) -> str:
    """Return a mount's settings as an input; the content of a cache is none."""
    stage = f" of {mount.stage}" if mount.stage else ""
    writable = "rw" if mount.writable else "ro"
    return f"{mount.kind} {mount.target} {mount.source}{stage} {writable}"


def _heredocs(contents: Sequence[tuple[str, str]]) -> Inputs:
    found: dict[str, list[str]] = {}
    for name, content in contents:
        # An instruction may use a name twice.
        found.setdefault(f"here-document {name}", []).append(content)
    return {name: json.dumps(texts) for name, texts in found.items()}


def _stages(uses: Keys) -> Inputs:
    return {f"stage {name}": key for name, key in uses.items()}


def _digests(context: Context, files: Sequence[Path], named: Sequence[Path]) -> Inputs:
    found = {}
    links = {path for path in named if path.is_symlink()}
    for path in files:
        name = _shown(posixpath.join(*path.relative_to(context.folder).parts))
        # A source that is a link means its target.
        found[f"file {name}"] = digest_of_file(path.resolve() if path in links else path)
    return found


def _shown(name: str) -> str:
    """Return a file's name as text that JSON can hold, if it is not UTF-8."""
    raw = os.fsencode(name)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"{raw.decode(errors='backslashreplace')} (not UTF-8)"


def _only_files(found: Sequence[Path]) -> list[Path]:
    return [path for path in found if path.is_file()]
