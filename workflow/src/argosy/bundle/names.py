"""The names of users, hosts and folders that a study's files hold, and what stands for each elsewhere."""

import getpass
import os
import pwd
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.errors import ArgosyError
from argosy.reading import open_regular, read_object
from argosy.run_folder.folder import RunFolder
from argosy.yaml_file import read_yaml

_SHORTEST = 2
"""Characters of a name; a shorter one is in every text."""
_NOBODYS = {"localhost", "root", "nobody", "home", "users", "tmp", "local", "none", "null", "true"}
_STUDY_FOLDERS = {
    "project": "/project",
    "store": "/store",
    "runtime": "/argosy",
    "python": "/python",
}
"""What study.json knows, and what it is called elsewhere."""
_ADDRESS = rb"(?<![\d.])(?!127\.|0\.)(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"
_MAIL = rb"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_HOST_LINE = re.compile(rb'"host": ?"([^"\\]+)"')
_HEADER_BYTES = 64 << 10
_NUMBERED = re.compile(r"(?!(?:cpu|gpu|rank|step|epoch|repeat)\d)[A-Za-z-]{2,}\d")
"""How a host is called whose name tells those of others, and is no word of the records."""


@dataclass(frozen=True)
class Names:
    """What is replaced: by a name, what stands for it, and names that are like those of hosts."""

    stand_ins: Mapping[bytes, bytes]
    like_hosts: frozenset[bytes] = frozenset()
    """Patterns: a cluster has more nodes than runs ran on, and files may name them."""

    @classmethod
    def of_study(cls, project: Path, sites: Sequence[str], kept: Iterable[str]) -> "Names":
        """Find the names of whoever bundles, of the hosts that runs ran on and of the project's folders.

        Args:
            project: the project's folder.
            sites: folders of results/.
            kept: names that stay, as those of sites and experiments.
        """
        found: dict[str, str] = {}
        for site in sites:
            found |= _folders(project / "results" / site)
        found |= {str(project.absolute()): "/project", str(Path.home()): "/home/user"}
        hosts = sorted(set(_hosts(project, sites)), key=_by_number)
        found |= {host: f"host-{place}" for place, host in enumerate(hosts, 1)}
        found |= dict.fromkeys(_accounts(project, sites), "account")
        found |= dict.fromkeys(_users(), "user")
        staying = {*kept, *_NOBODYS}
        stand_ins = {
            os.fsencode(name): stand_in.encode()
            for name, stand_in in found.items()
            if name not in staying and len(name) >= _SHORTEST and not name.isdigit()
        }
        named = [host for host in hosts if os.fsencode(host) in stand_ins]
        return cls(stand_ins, frozenset(_like(host) for host in named if _NUMBERED.match(host)))

    def pattern(self) -> re.Pattern[bytes]:
        """Return a pattern of all names, whole words alone, with addresses of hosts and of mail."""
        # A longer name may hold a shorter one.
        names = sorted(self.stand_ins, key=len, reverse=True)
        words = b"|".join(map(re.escape, names))
        return re.compile(
            rb"(?P<mail>%b)|(?<![A-Za-z0-9_])(?:(?P<name>%b)|(?P<host>%b))(?![A-Za-z0-9_])|(?P<address>%b)"
            % (_MAIL, words or rb"(?!)", b"|".join(sorted(self.like_hosts)) or rb"(?!)", _ADDRESS)
        )

    def stand_in(self, match: re.Match[bytes]) -> bytes:
        """Return what stands for a match of `pattern`."""
        if match.lastgroup == "name":
            return self.stand_ins[match[0]]
        if match.lastgroup == "host":
            return b"another-host"
        return b"address@example.org" if match.lastgroup == "mail" else b"192.0.2.1"


def _users() -> Iterator[str]:
    yield getpass.getuser()
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return
    yield entry.pw_name
    # The full name, where the site keeps one.
    yield entry.pw_gecos.partition(",")[0].strip()


def _folders(results: Path) -> dict[str, str]:
    """Return the folders that a site's scripts were written for, from its study.json."""
    try:
        study = read_object(results / "study.json", results)
    except (OSError, ValueError):
        return {}
    return {
        path: stand_in
        for key, stand_in in _STUDY_FOLDERS.items()
        if isinstance(path := study.get(key), str) and path.startswith("/")
    }


def _like(host: str) -> bytes:
    """Return a pattern of the names that differ from a host's in their numbers alone."""
    return re.sub(rb"\d+", rb"\\d+", re.escape(os.fsencode(host)))


def _hosts(project: Path, sites: Sequence[str]) -> Iterator[str]:
    """Yield the hosts of all runs and of looks at nodes, by full and short name, and this one."""
    named = {socket.gethostname(), socket.getfqdn()}
    for site in sites:
        for folder in (project / "resources/probe" / site, project / "logs" / site / "doctor"):
            for path in folder.glob("*/[0-9]*.json"):
                with suppress(OSError, ValueError, KeyError):
                    named.add(str(read_object(path, folder)["node"]))
        for path in (project / "results" / site).glob("*/*/run.json"):
            named.update(_hosts_of(RunFolder(path.parent)))
    for name in named:
        short, _, domain = name.partition(".")
        yield from (name, short)
        if "." in domain:
            yield domain


def _hosts_of(run: RunFolder) -> Iterator[str]:
    for attempt in run.attempts:
        if verdict := run.verdict(attempt):
            yield from (host for host in verdict.hosts if host)
        yield from (node.host for node in run.nodes(attempt))
        for path in run.records(attempt).glob("*.jsonl"):
            try:
                with open_regular(path, run.site) as file:
                    begin = file.read(_HEADER_BYTES)
            except OSError:
                continue
            yield from (os.fsdecode(name) for name in _HOST_LINE.findall(begin))


def _accounts(project: Path, sites: Sequence[str]) -> Iterator[str]:
    """Yield the accounts that pay for jobs, from sites' files."""
    for site in sites:
        for path in (project / "slurm" / site).glob("*.yaml"):
            try:
                yield from _values_of("account", read_yaml(path))
            except ArgosyError:
                continue


def _values_of(key: str, value: Any) -> Iterator[str]:
    """Yield the texts of a key, wherever it stands."""
    if isinstance(value, dict):
        if isinstance(found := value.get(key), str):
            yield found
        for within in value.values():
            yield from _values_of(key, within)
    elif isinstance(value, list):
        for within in value:
            yield from _values_of(key, within)


def _by_number(name: str) -> list[tuple[str, int]]:
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]
