"""Adds an experiment to a project's configuration, and keeps the rest of its text."""

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from argosy.study.config import Source, parse_config
from argosy.study.models import Config
from argosy.yaml_file import parse_yaml
from argosy_common.errors import ArgosyError


def add_experiment(text: str, file: Path, name: str, keys: Mapping[str, Any]) -> tuple[str, str]:
    """Return the experiment's name, and the configuration's text with it.

    An identical experiment is reused. If `name` is taken by another one, the name becomes `name-2`.

    Raises:
        ArgosyError: if the configuration is or would be invalid.
    """
    there = parse_yaml(text, str(file))
    config = parse_config(there, [Source(str(file), there)])
    for number in count(1):
        new = name if number == 1 else f"{name}-{number}"
        content = {**there, "experiments": {**there["experiments"], new: dict(keys)}, "only": new}
        wanted = parse_config(content, [Source(str(file), there), Source("argosy run", content)])
        if new not in config.experiments:
            break
        if wanted.experiments[new] == config.experiments[new]:
            return new, text
    added = _with_lines(text, new, keys)
    if _experiments(added, file) != wanted.experiments:
        line = yaml.safe_dump({new: dict(keys)}, default_flow_style=True, width=10_000).strip()
        raise ArgosyError(
            f"{file}: `experiments` is written in a form that Argosy cannot extend",
            f"add it yourself: {line}",
        )
    return new, added


def _experiments(text: str, file: Path) -> Mapping[str, object] | None:
    try:
        content = parse_yaml(text, str(file))
        return Config.model_validate(content).experiments
    except (ArgosyError, ValueError):
        return None


def _with_lines(text: str, name: str, keys: Mapping[str, Any]) -> str:
    """Return the text with an experiment added after the others."""
    document = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(document, yaml.MappingNode)
    pairs = document.value
    place = next(number for number, (key, _) in enumerate(pairs) if key.value == "experiments")
    others = pairs[place][1]
    if others.flow_style:
        end = others.end_mark.index - 1
        inner = yaml.safe_dump({name: dict(keys)}, default_flow_style=True, width=10_000).strip()
        return f"{text[:end]}, {inner[1:-1]}{text[end:]}"
    lines = text.splitlines(keepends=True)
    following = pairs[place + 1][0].start_mark if place + 1 < len(pairs) else document.end_mark
    end = following.line + (following.column > 0)
    indent = others.start_mark.column
    # Comments above the next key belong to that key.
    while end and _is_of_next_key(lines[end - 1], indent):
        end -= 1
    if not lines[end - 1].endswith("\n"):
        lines[end - 1] += "\n"
    own = yaml.safe_dump({name: dict(keys)}, sort_keys=False, width=1000, allow_unicode=True)
    new = [f"{' ' * indent}{line}" for line in own.splitlines(keepends=True)]
    return "".join([*lines[:end], *new, *lines[end:]])


def _is_of_next_key(line: str, indent: int) -> bool:
    text = line.lstrip()
    return not text or (text.startswith("#") and len(line) - len(text) < indent)
