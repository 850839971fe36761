"""Reads conda's environment.yml for an image.

Its content becomes a file in the image. Errors give positions, not values: an address may hold a password.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from argosy.yaml_file import parse_yaml
from argosy_common.errors import ArgosyError

_DEFAULT_CHANNEL = "conda-forge"
_HINTS = {
    "prefix": "remove it: the image has its own prefix",
    "variables": "write them in `environment` of the experiment",
}
_KEYS = ("name", "channels", "dependencies")
_CHANNEL = re.compile(r"(?:https?://[\w.-]+(?::\d+)?/)?\w[\w.-]*(?:/\w[\w.-]*)*/?", re.ASCII)
_PACKAGE = re.compile(
    r"(?:\w[\w.-]*(?:/[\w.-]+)*::)?(?P<name>\w[\w.-]*)(?![^\s=<>!~\[])[^/\\]*", re.ASCII
)
_SELECTOR = re.compile(r"#\s*\[.*\b(?:win|linux|osx|unix|py)[0-9]*\b.*\]")


class CondaEnvironment(NamedTuple):
    """Channels, conda packages, and requirement lines for pip."""

    channels: list[str]
    dependencies: list[str]
    pip: list[str]


def parse_environment(text: str, name: str) -> CondaEnvironment:
    """Parse the environment.yml called `name`.

    Raises:
        ArgosyError: if it is not an environment, or has keys or values that an image cannot have.
    """
    content = parse_yaml(text, name)
    if not (isinstance(content, Mapping) and content.get("dependencies")):
        raise ArgosyError(
            f"{name}: is not a conda environment", "list its packages under dependencies"
        )
    for key in content:
        if key not in _KEYS:
            hint = _HINTS.get(str(key), f"there are {', '.join(_KEYS)}")
            raise _refused(name, key, "Argosy does not support this key", hint)
    for number, line in enumerate(text.splitlines(), 1):
        if _SELECTOR.search(line):
            hint = "remove packages of other systems, and the comment"
            raise _refused(name, f"line {number}", "conda ignores platform selectors", hint)
    channels = [
        channel
        for number, each in enumerate(_items(content, "channels", name))
        if (channel := _channel(each, name, f"channels.{number}")) != "nodefaults"
    ]
    dependencies, pip = _packages(_items(content, "dependencies", name), name)
    return CondaEnvironment(channels or [_DEFAULT_CHANNEL], dependencies, pip)


def _packages(items: list[Any], name: str) -> tuple[list[str], list[str]]:
    """Return conda packages and pip requirements; add pip to the packages if there are requirements."""
    found: dict[str, str] = {}
    pip: list[str] = []
    for number, each in enumerate(items):
        key = f"dependencies.{number}"
        if isinstance(each, Mapping) and [*each] == ["pip"]:
            pip += [
                _text(line, name, f"{key}.pip.{place}")
                for place, line in enumerate(_items(each, "pip", name))
            ]
        elif package := _PACKAGE.fullmatch(_text(each, name, key)):
            found[each] = package["name"]
        else:
            hint = "write a package such as numpy=2.1, or pip: [PACKAGE]"
            raise _refused(name, key, "is not a conda package", hint)
    wanted = [*found] if not pip or "pip" in found.values() else [*found, "pip"]
    return wanted, pip


def _channel(value: Any, name: str, key: str) -> str:
    """Accept a channel's name, or its address without a login."""
    channel = _text(value, name, key)
    if channel == "defaults":
        hint = (
            f"write {_DEFAULT_CHANNEL}, or the full addresses of channels that your licence covers"
        )
        raise _refused(name, key, "the defaults channels need their own licence", hint)
    if "@" in channel or "?" in channel or "/t/" in f"/{channel}":
        hint = "write the address of a channel or mirror that needs no login"
        raise _refused(name, key, "an image must not hold a login or token", hint)
    if not _CHANNEL.fullmatch(channel):
        raise _refused(name, key, "is not a channel", "write its name, or https://HOST/CHANNEL")
    return channel


def _items(content: Mapping[str, Any], key: str, name: str) -> list[Any]:
    found = content.get(key) or []
    if not isinstance(found, list):
        raise _refused(name, key, "is not a list", "write a list: [VALUE]")
    return found


def _text(value: Any, name: str, key: str) -> str:
    if isinstance(value, str) and value.isprintable() and value.strip():
        return value.strip()
    what = "is not a line of text"
    hint = "write pip and its packages with pip: [PACKAGE], and numbers in quotes"
    raise _refused(name, key, what, hint)


def _refused(name: str, key: object, what: str, hint: str) -> ArgosyError:
    return ArgosyError(f"{name}: {key}: {what}", hint)
