"""A study's files without the names of users, hosts and folders, for readers anywhere.

What runs left, the configuration and the sites' folders are copied with other names in them; tables and
report are made anew from the copies. Programs stay as they are, since results are of them by their digests.
"""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from argosy.bundle.contents import Contents, Member
from argosy.bundle.names import Names
from argosy.errors import ArgosyError
from argosy.report import Rates, write_report
from argosy.results import collect
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.models import RunFolderError
from argosy.site.costs import read_costs

COPIED = ("config/", "slurm/", "results/")
MADE_ANEW = ("report.html", "summary.json", "summary.csv")
_NAMED_BY_US = 4
"""Parts of a path: results, site, experiment, run."""
_LOOKED_AT = 8192
_SHORTEST_IN_BINARY = 6
_NUMBERS = ".steps"
"""Of files that hold numbers alone (docs/run-folder.md)."""
_MOST_NAMED = 3


def redacted(
    project: Path, sites: Sequence[str], contents: Contents, work: Path, say: Callable[[str], None]
) -> Contents:
    """Return the contents with other names in them, those that are copied below `work`.

    Binary files that hold one of the names are left out.

    Raises:
        ArgosyError: when fewer runs can be read afterwards: a name was one of the records' own words.
    """
    names = Names.of_study(project, sites, _kept(contents))
    pattern = names.pattern()
    left_out = list(contents.left_out)
    members: list[Member] = []
    top = work / "redacted"
    for member in contents.members:
        if _is_made_anew(member.name):
            continue
        if not member.name.startswith(COPIED):
            members.append(member)
            continue
        copied = top / _renamed(member.name, pattern, names)
        copied.parent.mkdir(parents=True, exist_ok=True)
        if _copy(member, copied, pattern, names):
            members.append(_member(top, copied, executable=member.executable))
        else:
            left_out.append(member.name)
    for site in sites:
        members += _reported(project, top, site)
    _say_where_names_stay(members, top, pattern, say)
    return Contents(top, sorted(members, key=lambda each: each.name), left_out)


def _kept(contents: Contents) -> set[str]:
    """Return names that folders of the bundle have: those of sites, experiments and images."""
    return {
        part for member in contents.members for part in member.name.split("/")[:_NAMED_BY_US][:-1]
    }


def _renamed(name: str, pattern: re.Pattern[bytes], names: Names) -> str:
    """Return a file's name with other names in it, below the run's folder or the site's."""
    parts = name.split("/")
    below = "/".join(parts[_NAMED_BY_US:])
    return "/".join([*parts[:_NAMED_BY_US], *([_replaced(below, pattern, names)] if below else [])])


def _replaced(text: str, pattern: re.Pattern[bytes], names: Names) -> str:
    return os.fsdecode(pattern.sub(names.stand_in, os.fsencode(text)))


def _is_made_anew(name: str) -> bool:
    parts = name.split("/")
    return (
        parts[0] == "results" and len(parts) > 2 and (parts[2] in {"tables", "figures", *MADE_ANEW})
    )


def _copy(member: Member, target: Path, pattern: re.Pattern[bytes], names: Names) -> bool:
    """Copy a file with other names in it; whether that could be done."""
    with member.open() as source, target.open("wb") as copy:
        is_binary = _is_binary(source)
        for line in source:
            if not is_binary:
                copy.write(pattern.sub(names.stand_in, line))
            elif not member.name.endswith(_NUMBERS) and _is_named(line, pattern, is_binary=True):
                break
            else:
                copy.write(line)
        else:
            shutil.copymode(member.path, target)
            return True
    target.unlink()
    return False


def _is_binary(file: BufferedReader) -> bool:
    return b"\0" in file.peek(_LOOKED_AT)[:_LOOKED_AT]


def _is_named(line: bytes, pattern: re.Pattern[bytes], *, is_binary: bool) -> bool:
    """Return whether a line holds a name; numbers look like a short one by chance."""
    shortest = _SHORTEST_IN_BINARY if is_binary else 0
    return any(
        match.lastgroup in ("name", "host") and len(match[0]) >= shortest
        for match in pattern.finditer(line)
    )


def _reported(project: Path, top: Path, site: str) -> list[Member]:
    """Make tables and report of the copies; their files."""
    folder = top / "results" / site
    folder.mkdir(parents=True, exist_ok=True)
    costs = top / "slurm" / site / "costs.yaml"
    rates = Rates(**read_costs(costs).model_dump()) if costs.is_file() else Rates()
    collect(folder, folder / "tables")
    written = write_report(folder, rates)
    lost = _readable(project / "results" / site) - _readable(folder)
    if lost:
        raise ArgosyError(
            f"results/{site}/{min(lost)}: cannot be read with other names in it: one is a word of its own",
            "bundle it as it is, without --redact",
        )
    made = [*(folder / "tables").rglob("*"), *(written.html.with_name(name) for name in MADE_ANEW)]
    return [_member(top, path) for path in made if path.is_file()]


def _readable(results: Path) -> set[str]:
    """Return the runs whose files can be read, each with its state."""
    found: set[str] = set()
    for path in results.glob("*/*/run.json"):
        run = RunFolder(path.parent)
        with suppress(RunFolderError):
            state = run.result.state if run.result else "without a result"
            found.add(f"{run.spec.experiment}/{run.spec.run_id} ({state})")
    return found


def _member(top: Path, path: Path, *, executable: bool = False) -> Member:
    return Member(path.relative_to(top).as_posix(), path, top, path.stat().st_size, executable)


def _say_where_names_stay(
    members: Sequence[Member], top: Path, pattern: re.Pattern[bytes], say: Callable[[str], None]
) -> None:
    """Tell which of the files that are not copied name somebody: their digests are what was measured."""
    named = [
        member.name for member in members if member.top != top and _holds_name(member, pattern)
    ]
    if named:
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        say(
            f"programs stay as they are, and these hold names: {', '.join(named[:_MOST_NAMED])}{more}"
        )


def _holds_name(member: Member, pattern: re.Pattern[bytes]) -> bool:
    with member.open() as file:
        is_binary = _is_binary(file)
        return any(_is_named(line, pattern, is_binary=is_binary) for line in file)
