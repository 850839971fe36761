"""What this host's pip is told by its files and variables.

pip itself would say it (`pip config list`), in a quarter of a second, as long as a whole small build.
Places and precedence: https://pip.pypa.io/en/stable/topics/configuration/.
"""

import configparser
import os
import sys
from collections.abc import Iterator
from pathlib import Path

SECTIONS = ("global", "download", "wheel", "install")
"""Of those that concern builds; a later one wins."""

_PREFIX = "PIP_"


def pip_settings() -> dict[str, str]:
    """Long option name to value; variables win over files, and later files over earlier ones."""
    found = {key: value for path in _files() for key, value in _settings_in(path)}
    variables = {
        name.removeprefix(_PREFIX).lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith(_PREFIX) and name != "PIP_CONFIG_FILE"
    }
    return found | variables


def _files() -> Iterator[Path]:
    chosen = os.environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return
    for folder in reversed((os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")):
        yield Path(folder) / "pip" / "pip.conf"
    yield Path("/etc/pip.conf")
    if not chosen:
        # pip's own order; a file named by the variable stands in for the user's.
        yield Path.home() / ".pip" / "pip.conf"
        yield (
            Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pip" / "pip.conf"
        )
    yield Path(sys.prefix) / "pip.conf"
    if chosen:
        yield Path(chosen)


def _settings_in(path: Path) -> Iterator[tuple[str, str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError):
        # pip refuses such a file and says so; a build has other things to say.
        return
    for section in SECTIONS:
        if parser.has_section(section):
            yield from ((key.replace("_", "-"), value) for key, value in parser.items(section))
