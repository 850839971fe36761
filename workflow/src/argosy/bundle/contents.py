"""Selects the files of a bundle, and searches them for secrets."""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
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
    """A file of the project.

    Args:
        name: its path in the project and in the bundle.
        top: the trusted folder above it.
        status: its status, without following a link.
    """

    name: str
    path: Path
    top: Path
    status: os.stat_result

    @property
    def size(self) -> int:
        return self.status.st_size

    @property
    def executable(self) -> bool:
        return bool(self.status.st_mode & stat.S_IXUSR)

    @property
    def may_be_bundled(self) -> bool:
        """Whether it is a regular file with a printable name."""
        return stat.S_ISREG(self.status.st_mode) and self.name.isprintable()

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
    parts, rules = _own_parts(project.absolute())
    found = [
        each
        for part in dict.fromkeys(parts)
        for each in _walk(project.absolute() / part, project.absolute(), part, rules)
    ]
    for site in {*sites}:
        # The project's owner may have linked results, or a site in it, to a larger disk.
        top = (project / "results" / site).resolve()
        found += _walk(top, top, f"results/{site}")
    found = [each for each in found if not staying.match_file(each.name)]
    return Contents(
        sorted((each for each in found if each.may_be_bundled), key=lambda each: each.name),
        sorted(each.name for each in found if not each.may_be_bundled),
    )


class _Rules(NamedTuple):
    """The patterns of a folder's `.gitignore`: one set matches folders, the other matches files."""

    folder: Path
    for_folders: PathSpec[Any]
    for_files: PathSpec[Any]


def _own_parts(project: Path) -> tuple[Sequence[str], Sequence[_Rules] | None]:
    """Return the parts of a project without results, and git's rules for them, if any apply."""
    if workloads_folder(project) != project:
        lists = [name for name in described_files(project) if not name.startswith(_FOLDERS)]
        parts = [*PROJECT_PARTS, *lists]
        return [part for part in parts if os.path.lexists(project / part)], None
    with os.scandir(project) as found:
        names = sorted(each.name for each in found if not _is_made(project / each.name))
    top = next((each for each in (project, *project.parents) if (each / ".git").exists()), project)
    above = [each for each in (*reversed(project.parents), project) if each.is_relative_to(top)]
    rules = [each for folder in above for each in _rules_of(folder)]
    return [name for name in names if not name.startswith(".")], rules


def _rules_of(folder: Path) -> Iterator[_Rules]:
    """Yield the rules of a folder's `.gitignore`, if it has one."""
    listed = folder / ".gitignore"
    if not listed.is_file():
        return
    lines = listed.read_text(encoding="utf-8", errors="replace").splitlines()
    for_folders = [line.rstrip().rstrip("/") for line in lines]
    for_files = [line for line in lines if not line.rstrip().endswith("/")]
    try:
        found = (PathSpec.from_lines("gitignore", each) for each in (for_folders, for_files))
        yield _Rules(folder, *found)
    except (ValueError, re.error) as problem:
        raise ArgosyError(f"{listed}: {problem}") from None


def _is_ignored(path: Path, is_folder: bool, rules: Sequence[_Rules]) -> bool:
    """Return whether git ignores a path in a folder that it does not ignore: the innermost rule counts."""
    for each in reversed(rules):
        patterns = each.for_folders if is_folder else each.for_files
        ignored: bool | None = patterns.check_file(path.relative_to(each.folder)).include
        if ignored is not None:
            return ignored
    return False


def _is_made(path: Path) -> bool:
    """Return whether a file is generated: by Argosy, a bundle or its parts, or a virtual environment."""
    if (
        path.name in (*MADE_BY_ARGOSY, DESCRIPTION, CHECKSUMS, CRATE)
        or (path / "pyvenv.cfg").exists()
    ):
        return True
    return path.suffix == ".zip" and path.is_file() and is_bundle(path)


def _walk(
    path: Path, top: Path, name: str, rules: Sequence[_Rules] | None = None
) -> Iterator[Member]:
    """Yield the file or the files of the folder `path`, which has this name in the bundle.

    Args:
        rules: git's rules for it; None: also files that git ignores.
    """
    waiting = [(path, name, rules)]
    while waiting:
        path, name, rules = waiting.pop()
        status = os.lstat(path)
        is_folder = stat.S_ISDIR(status.st_mode)
        if rules is not None and _is_ignored(path, is_folder, rules):
            continue
        if not is_folder:
            yield Member(name, path, top, status)
            continue
        rules = None if rules is None else [*rules, *_rules_of(path)]
        try:
            within = [each.name for each in entries(path, top)]
        except OSError as problem:
            raise ArgosyError(
                f"{name}: cannot be listed ({problem.strerror})", f"--exclude '/{name}/'"
            ) from None
        shown = [each for each in within if each[0] != "." or each in SHOWN_HIDDEN]
        waiting += [(path / each, f"{name}/{each}", rules) for each in shown]


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
