"""Reading the YAML files that users write: whatever is wrong with one is told in a line."""

import json
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from argosy.errors import ArgosyError

if TYPE_CHECKING or not yaml.__with_libyaml__:
    from yaml import SafeLoader as _SafeLoader
else:
    # Ten times as fast.
    from yaml import CSafeLoader as _SafeLoader

_MOST_DEPTH = 100


def read_yaml(path: Path) -> Any:
    """Return the value that a YAML file holds.

    Raises:
        ArgosyError: when it cannot be read or is no YAML, or one of its keys stands in it twice.
    """
    try:
        return parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except OSError as problem:
        raise ArgosyError(f"{path}: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        raise ArgosyError(f"{path}: is not UTF-8 text ({problem.reason})") from None


def parse_yaml(text: str, name: str) -> Any:
    """Return the value that YAML stands for, of a file of that name; raises as `read_yaml`."""
    try:
        _check_depth(text)
        value = yaml.load(text, _Loader)
        json.dumps(value, default=str, skipkeys=True)  # what contains itself is found so
    except yaml.YAMLError as problem:
        raise ArgosyError(f"{name}: is not YAML: {' '.join(str(problem).split())}") from None
    except RecursionError:
        raise ArgosyError(f"{name}: nests too deep") from None
    # A day that no month has, or a number of thousands of digits.
    except ValueError as problem:
        raise ArgosyError(f"{name}: holds a value that cannot be read: {problem}") from None
    return value


def _check_depth(text: str) -> None:
    """Raise RecursionError before libyaml's loader would overflow the stack."""
    depth = 0
    for event in yaml.parse(text, _SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_DEPTH:
            raise RecursionError


class _Loader(_SafeLoader):
    """PyYAML's safe loader, which would take the last of two equal keys without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value} stands here twice", key.start_mark
                )
            if isinstance(key.value, Hashable):
                seen.add(key.value)
        return super().construct_mapping(node, deep)
