"""Which files of a project a bundle holds, which stay behind, and which hold what looks like a secret."""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path, PurePosixPath

from pathspec import PathSpec

from argosy.errors import ArgosyError
from argosy.reading import NotReadError, descriptor_of, entries
from argosy.results.hidden_values import SECRET_NAME

PROJECT_PARTS = (
    *("Snakefile", "Makefile", "pyproject.toml", "requirements.lock", "README.md", "LICENSE"),
    *("config", "containers", "docs", "profiles", "slurm", "workflow"),
)
"""What of a project is taken, as far as it is there: what the workflow is made of, and no tests."""

STAYING = ("__pycache__/", "*.pyc", "*.egg-info/", "*~", "/results/*/*/*/checkpoints/")
"""What a machine makes anew, and what only serves to go on with a job."""
SHOWN_HIDDEN = (".dockerignore", ".containerignore")


@dataclass(frozen=True)
class Member:
    """A file of the project that goes into the bundle.

    Args:
        name: its path in the project and in the bundle.
        path: where it lies.
        top: the folder above it that is trusted.
        size: bytes.
        executable: whether its owner may execute it.
    """

    name: str
    path: Path
    top: Path
    size: int
    executable: bool

    def open(self) -> BufferedReader:
        """Open the file for reading; raises ArgosyError for what may not be read or is another kind now."""
        try:
            return os.fdopen(descriptor_of(self.path, self.top), "rb")
        except NotReadError as problem:
            why = str(problem.strerror)
        except PermissionError:
            why = "may not be read"
        except OSError as problem:
            why = f"cannot be read ({problem.strerror})"
        raise ArgosyError(f"{self.name}: {why}", f"leave it behind: --exclude '/{self.name}'")


@dataclass(frozen=True)
class Contents:
    """The files of a bundle, by name, and the names of what was found and stays behind.

    Args:
        members: the files.
        left_out: names of links, of what is no regular file, and of files whose name is no line of text.
    """

    members: list[Member]
    left_out: list[str]


def find_contents(project: Path, sites: Sequence[str], excluded: Sequence[str]) -> Contents:
    """Return the files of a project and of its results on `sites`.

    Hidden files stay behind, since settings and logins lie there, and so does what is no regular file: a
    link may lead anywhere, and programs make files below results/. So does a file whose name is no line of
    text.

    Args:
        project: the project's folder.
        sites: folders of results/.
        excluded: patterns of what stays behind besides, as in .gitignore.

    Raises:
        ArgosyError: for a pattern that is none, and for a file that cannot be read.
    """
    try:
        staying = PathSpec.from_lines("gitignore", [*STAYING, *excluded])
    except ValueError as problem:
        raise ArgosyError(f"--exclude: {problem}") from None
    parts = [*PROJECT_PARTS, *(f"results/{site}" for site in sites)]
    members: list[Member] = []
    left_out: list[str] = []
    for part in parts:
        for name, found in _walk(project, PurePosixPath(part)):
            if staying.match_file(name):
                continue
            if found is None or not name.isprintable():
                left_out.append(name)
                continue
            executable = bool(found.st_mode & stat.S_IXUSR)
            members.append(Member(name, project / name, project, found.st_size, executable))
    return Contents(sorted(members, key=lambda each: each.name), sorted(left_out))


def _walk(project: Path, part: PurePosixPath) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yield the files of a part by their names, each with its status; None for what is no regular file."""
    try:
        found = os.lstat(project / part)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode):
        yield from _walk_folder(project, part)
    else:
        yield str(part), found if stat.S_ISREG(found.st_mode) else None


def _walk_folder(project: Path, top: PurePosixPath) -> Iterator[tuple[str, os.stat_result | None]]:
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            within = list(entries(project / folder, project))
        except OSError as problem:
            raise ArgosyError(
                f"{folder}: cannot be listed ({problem.strerror})", f"--exclude '/{folder}/'"
            ) from None
        for entry in within:
            if entry.name.startswith(".") and entry.name not in SHOWN_HIDDEN:
                continue
            name = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)
                continue
            found = os.lstat(project / name)
            yield str(name), found if stat.S_ISREG(found.st_mode) else None


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
"""What it is, by its name, and the text of it."""

_SHORTEST = 8
"""Characters of a variable's value that is looked for: shorter ones are in many texts."""
_MOST_NAMED = 5
_OVERLAP = 4096
_CHUNK = 4 << 20


@dataclass(frozen=True)
class Found:
    """Something that looks like a secret: in which file and line, and what it is."""

    name: str
    line: int
    what: str


def refuse_secrets(members: Sequence[Member], environment: Mapping[str, str] = os.environ) -> None:
    """Raise ArgosyError, naming files and lines, when a file holds what looks like a secret.

    Args:
        members: all files.
        environment: values of its variables with names such as HF_TOKEN are looked for as well.
    """
    pattern, titles = _pattern(environment)
    found: list[Found] = []
    for member in members:
        found += _secrets_in(member, pattern, titles)
    if not found:
        return
    named = "; ".join(f"{each.name}:{each.line}: {each.what}" for each in found[:_MOST_NAMED])
    more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    raise ArgosyError(
        f"a bundle is handed on, and these look like secrets: {named}{more}",
        f"take them out, or leave the file behind: --exclude '/{found[0].name}'",
    )


def _pattern(environment: Mapping[str, str]) -> tuple[re.Pattern[bytes], list[str]]:
    """Return one pattern of all forms, a group each, and what each group is."""
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
                # What began in the part that was looked at before was found there.
                if match.end() > len(before):
                    assert match.lastindex
                    line = lines + text.count(b"\n", 0, match.start())
                    yield Found(member.name, line, titles[match.lastindex - 1])
            before = text[-_OVERLAP:]
            lines += text.count(b"\n", 0, len(text) - len(before))
