"""Selects the files of a bundle, and searches them for secrets."""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from pathspec import PathSpec

from argosy.bundle.archive import CHECKSUMS, CRATE, DESCRIPTION, SHOWN_HIDDEN, is_bundle
from argosy.results.hidden_values import SECRET_NAME
from argosy.shipped.files import workloads_folder
from argosy.study.built_images import described_files
from argosy_common.errors import ArgosyError
from argosy_common.reading import NotReadError, descriptor_of, entries

PROJECT_PARTS = (
    *("Snakefile", "Makefile", "pyproject.toml", "requirements.lock", "README.md", "LICENSE"),
    *("config", "containers", "docs", "launchers", "profiles", "slurm", "workflow"),
)
"""Parts of a clone of Argosy to include if they exist: the workflow without its tests."""
MADE_BY_ARGOSY = ("results", "resources", "logs")
"""Folders of a project that Argosy creates."""
_FOLDERS = ("config/", "containers/", "docs/", "launchers/", "profiles/", "slurm/", "workflow/")

STAYING = ("__pycache__/", "*.pyc", "*.egg-info/", "*~", "/results/*/*/*/checkpoints/")
"""Files to exclude: generated ones and checkpoints."""


@dataclass(frozen=True)
class Member:
    """A file of the project that goes into the bundle.

    Args:
        name: its path in the project and in the bundle.
        top: the trusted folder above it.
    """

    name: str
    path: Path
    top: Path
    size: int
    executable: bool

    def open(self) -> BufferedReader:
        """Open the file; raises ArgosyError if it is unreadable or no longer a regular file."""
        try:
            return os.fdopen(descriptor_of(self.path, self.top), "rb")
        except NotReadError as problem:
            why = str(problem.strerror)
        except PermissionError:
            why = "may not be read"
        except OSError as problem:
            why = f"cannot be read ({problem.strerror})"
        raise ArgosyError(f"{self.name}: {why}", f"exclude it: --exclude '/{self.name}'")


@dataclass(frozen=True)
class Contents:
    """The files of a bundle.

    Args:
        members: files, sorted by name.
        left_out: names of links, special files, and files with unprintable names.
    """

    members: list[Member]
    left_out: list[str]


def find_contents(project: Path, sites: Sequence[str], excluded: Sequence[str]) -> Contents:
    """Return the files of a project and of its results on `sites`.

    The user's own repository is included whole, except for files ignored by git, since its programs may
    read any file. Hidden files are excluded, since they hold settings and logins. So are links, which may
    lead anywhere, special files, and files with unprintable names.

    Args:
        sites: folders of results/.
        excluded: patterns of more files to exclude, as in .gitignore.

    Raises:
        ArgosyError: for an invalid pattern or an unreadable file.
    """
    try:
        staying = PathSpec.from_lines("gitignore", [*STAYING, *excluded])
    except (ValueError, re.error) as problem:
        raise ArgosyError(f"--exclude: {problem}") from None
    own, ignored = _own_parts(project)
    of_project = [
        each
        for part in dict.fromkeys(own)
        for each in _walk(project, part)
        if not ignored(each.name)
    ]
    # The project's owner may have linked results, or a site in it, to a larger disk.
    folders = {f"results/{site}": (project / "results" / site).resolve() for site in {*sites}}
    of_sites = [each for name, top in folders.items() for each in _walk_folder(top, top, name)]
    members: list[Member] = []
    left_out: list[str] = []
    for name, path, top, found in (*of_project, *of_sites):
        if staying.match_file(name):
            continue
        if found is None or not name.isprintable():
            left_out.append(name)
            continue
        executable = bool(found.st_mode & stat.S_IXUSR)
        members.append(Member(name, path, top, found.st_size, executable))
    return Contents(sorted(members, key=lambda each: each.name), sorted(left_out))


def _own_parts(project: Path) -> tuple[Sequence[str], Callable[[str], bool]]:
    """Return the parts of a project without results, and a test whether git ignores a file in them."""
    if workloads_folder(project) != project.absolute():
        lists = [name for name in described_files(project) if not name.startswith(_FOLDERS)]
        return [*PROJECT_PARTS, *lists], lambda _: False
    with os.scandir(project) as found:
        names = sorted(each.name for each in found if not _is_made(project / each.name))
    return [name for name in names if not name.startswith(".")], _ignored_by_git(project.absolute())


def _ignored_by_git(project: Path) -> Callable[[str], bool]:
    """Return a test whether git ignores a file, by the `.gitignore` files up to `.git`."""
    top = next((each for each in (project, *project.parents) if (each / ".git").exists()), project)
    above = [each for each in reversed(project.parents) if each.is_relative_to(top)]
    patterns = [pattern for folder in above for pattern in _patterns(folder, top)]
    for name, folders, files in os.walk(project):
        folder = Path(name)
        if folder == project:
            folders[:] = [each for each in folders if not _is_made(project / each)]
        folders[:] = [each for each in folders if not each.startswith(".")]
        inside = f"{folder.relative_to(top)}/"
        # Git does not enter a folder that it ignores.
        if ".gitignore" in files and not PathSpec(patterns).match_file(inside):
            patterns += _patterns(folder, top)
    spec = PathSpec(patterns)
    return lambda name: spec.match_file((project / name).relative_to(top))


def _patterns(folder: Path, top: Path) -> list[Any]:
    """Return the patterns of a folder's `.gitignore`, rewritten relative to `top`."""
    listed = folder / ".gitignore"
    text = listed.read_text(encoding="utf-8", errors="replace") if listed.is_file() else ""
    inside = "" if folder == top else f"{_literal(folder.relative_to(top).as_posix())}/"
    try:
        return [
            *PathSpec.from_lines(
                "gitignore", [_below(inside, line) for line in text.splitlines()]
            ).patterns
        ]
    except (ValueError, re.error) as problem:
        raise ArgosyError(f"{listed}: {problem}") from None


def _below(folder: str, line: str) -> str:
    """Rewrite a line of a folder's `.gitignore` for the top folder."""
    if not folder or not line.strip() or line.startswith("#"):
        return line
    negated, pattern = ("!", line[1:]) if line.startswith("!") else ("", line)
    is_of_folder = "/" in pattern.rstrip().rstrip("/")
    return f"{negated}/{folder}{'' if is_of_folder else '**/'}{pattern.lstrip('/')}"


def _literal(path: str) -> str:
    return re.sub(r"([*?\[\\])", r"\\\1", path)


def _is_made(path: Path) -> bool:
    """Return whether a file is generated: by Argosy, a bundle or its parts, or a virtual environment."""
    if (
        path.name in (*MADE_BY_ARGOSY, DESCRIPTION, CHECKSUMS, CRATE)
        or (path / "pyvenv.cfg").exists()
    ):
        return True
    return path.suffix == ".zip" and path.is_file() and is_bundle(path)


class _File(NamedTuple):
    """A file below the folder `top`, with its name in the bundle; `status` is None if it is not regular."""

    name: str
    path: Path
    top: Path
    status: os.stat_result | None


def _walk(project: Path, part: str) -> Iterator[_File]:
    """Yield the files of a part of the project, which may be missing."""
    path = project / part
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode):
        yield from _walk_folder(path, project, part)
    else:
        yield _File(part, path, project, found if stat.S_ISREG(found.st_mode) else None)


def _walk_folder(folder: Path, top: Path, name: str) -> Iterator[_File]:
    """Yield the files of a folder, which has this name in the bundle."""
    waiting = [(folder, PurePosixPath(name))]
    while waiting:
        folder, here = waiting.pop()
        try:
            within = list(entries(folder, top))
        except OSError as problem:
            raise ArgosyError(
                f"{here}: cannot be listed ({problem.strerror})", f"--exclude '/{here}/'"
            ) from None
        for entry in within:
            if entry.name.startswith(".") and entry.name not in SHOWN_HIDDEN:
                continue
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append((path, here / entry.name))
                continue
            found = os.lstat(path)
            is_regular = stat.S_ISREG(found.st_mode)
            yield _File(str(here / entry.name), path, top, found if is_regular else None)


FORMS: Mapping[str, bytes] = {
    "a private key": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "an access key of AWS": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a token of GitHub": rb"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})",
    "a token of GitLab": rb"\bglpat-[A-Za-z0-9_-]{20,}",
    "a token of Hugging Face": rb"\bhf_[A-Za-z0-9]{30,}",
    "a token of Slack": rb"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "a JSON web token": rb"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "a login of a registry": rb"\"auth\"\s*:\s*\"[A-Za-z0-9+/=]{8,}\"",
    "an address with a password": rb"\b[a-z][a-z0-9+.-]*://[^\s/:@'\"<>{}$]+:[^\s/:@'\"<>{}$]{3,}@[A-Za-z0-9]",
}
"""Patterns of known secrets by description."""

_SHORTEST = 8
"""Minimum length of a variable's value to search for; shorter values occur in many texts."""
_MOST_NAMED = 5
_OVERLAP = 4096
_CHUNK = 4 << 20


@dataclass(frozen=True)
class Found:
    """A suspected secret, with its file and line."""

    name: str
    line: int
    what: str


def refuse_secrets(members: Sequence[Member]) -> None:
    """Raise ArgosyError with files and lines if a file may contain a secret.

    The search includes the values of variables with names such as HF_TOKEN.
    """
    pattern, titles = _pattern(os.environ)
    found: list[Found] = []
    for member in members:
        found += _secrets_in(member, pattern, titles)
    if not found:
        return
    named = "; ".join(f"{each.name}:{each.line}: {each.what}" for each in found[:_MOST_NAMED])
    more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    raise ArgosyError(
        f"a bundle is shared with others, and these look like secrets: {named}{more}",
        f"remove them, or exclude the file: --exclude '/{found[0].name}'",
    )


def _pattern(environment: Mapping[str, str]) -> tuple[re.Pattern[bytes], list[str]]:
    """Return one pattern with a group for each kind of secret, and the groups' descriptions."""
    forms = dict(FORMS)
    for name, value in sorted(environment.items()):
        if SECRET_NAME.search(name) and len(value) >= _SHORTEST and not Path(value).exists():
            forms[f"the value of the variable {name}"] = re.escape(os.fsencode(value))
    return re.compile(b"|".join(b"(%b)" % form for form in forms.values())), [*forms]


def _secrets_in(
    member: Member, pattern: re.Pattern[bytes], titles: Sequence[str]
) -> Iterator[Found]:
    with member.open() as file:
        lines, before = 1, b""
        while chunk := file.read(_CHUNK):
            text = before + chunk
            for match in pattern.finditer(text):
                # Matches within the overlap were found before.
                if match.end() > len(before):
                    assert match.lastindex
                    line = lines + text.count(b"\n", 0, match.start())
                    yield Found(member.name, line, titles[match.lastindex - 1])
            before = text[-_OVERLAP:]
            lines += text.count(b"\n", 0, len(text) - len(before))
