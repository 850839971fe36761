"""Reads users' YAML files; each problem is one line."""

import json
import os
import stat
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from argosy_common.errors import ArgosyError
from argosy_common.units import amount

if TYPE_CHECKING or not yaml.__with_libyaml__:
    from yaml import SafeLoader as _SafeLoader
else:
    # Ten times as fast.
    from yaml import CSafeLoader as _SafeLoader

_MOST_DEPTH = 100
_MOST_VALUES = 1_000_000
_MOST_BYTES = 16 << 20


def read_yaml(path: Path) -> Any:
    """Return the value of a YAML file.

    Raises:
        ArgosyError: if it is unreadable, not YAML, or has a key twice.
    """
    try:
        return parse_yaml(_read_regular(path).decode(), str(path))
    except OSError as problem:
        raise ArgosyError(f"{path}: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        raise ArgosyError(f"{path}: is not UTF-8 text ({problem.reason})") from None


def _read_regular(path: Path) -> bytes:
    """Return the bytes of a regular file; refuse devices and pipes, which might block."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ArgosyError(f"{path}: is not a regular file")
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ArgosyError(f"{path}: is larger than {amount(_MOST_BYTES)}")
    return content


def parse_yaml(text: str, name: str) -> Any:
    """Parse YAML text; `name` is for messages. Raises as `read_yaml`."""
    try:
        _check_size(text, name)
        value = yaml.load(text, _Loader)
        json.dumps(value, default=str, skipkeys=True)  # raises for a value that contains itself
    except yaml.YAMLError as problem:
        raise ArgosyError(f"{name}: is not YAML: {' '.join(str(problem).split())}") from None
    except RecursionError:
        raise ArgosyError(f"{name}: is nested too deeply") from None
    # An impossible date, a number of thousands of digits, or a wrong tag.
    except (ValueError, TypeError, AttributeError, KeyError) as problem:
        raise ArgosyError(f"{name}: contains a value that cannot be read: {problem}") from None
    return value


def _check_size(text: str, name: str) -> None:
    """Refuse deep nesting, which overflows libyaml's stack, and aliases that expand to too many values.

    Raises RecursionError or ArgosyError.
    """
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = [(None, 0)]
    for event in yaml.parse(text, _SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, 1))
        elif isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            size, anchor = 1, getattr(event, "anchor", None)
            if isinstance(event, yaml.CollectionEndEvent):
                anchor, size = opened.pop()
            elif isinstance(event, yaml.AliasEvent):
                size = sizes.get(anchor or "", 1)
            if anchor and not isinstance(event, yaml.AliasEvent):
                sizes[anchor] = size
            opened[-1] = (opened[-1][0], opened[-1][1] + size)
        if len(opened) > _MOST_DEPTH + 1:
            raise RecursionError
        if opened[-1][1] > _MOST_VALUES:
            raise ArgosyError(
                f"{name}: contains more than {_MOST_VALUES:,} values, with aliases expanded"
            )


class _Loader(_SafeLoader):
    """PyYAML's safe loader, but refusing duplicate keys instead of using the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            is_name = isinstance(key.value, Hashable)
            if is_name and key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value} is written twice", key.start_mark
                )
            if is_name:
                seen.add(key.value)
        return super().construct_mapping(node, deep)
