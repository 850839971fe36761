"""Parts of the documentation site that are made from the program: commands, keys and errors."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils.nodes import Node
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer import Context
from typer.cli import get_docs_for_click
from typer.main import get_command

import argosy
from argosy.cli import app as commands
from argosy.schemas import MODELS, schema_of

SOURCE = Path(argosy.__file__).parents[1]


class CommandsReference(SphinxDirective):
    """All commands with their arguments and options, as their help describes them."""

    def run(self) -> list[Node]:
        """Return the sections of the commands."""
        command = get_command(commands)
        text = get_docs_for_click(obj=command, ctx=Context(command), name="argosy", indent=1)
        return self.parse_text_to_nodes(text, allow_section_headings=True)


class KeysReference(SphinxDirective):
    """The keys of a file that users write, as its JSON Schema describes them."""

    required_arguments = 1

    def run(self) -> list[Node]:
        """Return a table for each part of the file."""
        schema = json.loads(schema_of(MODELS[self.arguments[0]]))
        lines = [*_keys("the file", schema)]
        for name, part in schema["$defs"].items():
            if "properties" in part:
                lines += _keys(name, part)
        return self.parse_text_to_nodes("\n".join(lines))


def _keys(name: str, part: dict[str, Any]) -> Iterator[str]:
    yield from (f"**{name}**", "", "| key | default | meaning |", "|---|---|---|")
    required = part.get("required", ())
    for key, of in part["properties"].items():
        default = "required" if key in required else str(of.get("default", "–"))
        meaning = of.get("description", "").replace("|", "\\|")
        yield f"| `{key}` | {default} | {meaning} |"
    yield ""


class ErrorsReference(SphinxDirective):
    """The errors of the commands, by their first words, each with its hint."""

    def run(self) -> list[Node]:
        """Return a table; `…` stands for a name or number."""
        rows = {found for path in SOURCE.rglob("*.py") for found in _errors(path)}
        lines = ["| error | hint |", "|---|---|"]
        lines += [f"| {error} | {hint} |" for error, hint in sorted(rows, key=_without_names)]
        return self.parse_text_to_nodes("\n".join(lines))


_CHECKS = ("argosy/study", "argosy/site", "argosy/validation.py", "argosy_common")
"""Modules whose ValueErrors say what is wrong with a key of users' files."""


def _errors(path: Path) -> Iterator[tuple[str, str]]:
    names = {"ArgosyError"}
    if path.relative_to(SOURCE).as_posix().startswith(_CHECKS):
        names.add("ValueError")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in names:
            error, hint = ([_text(argument) for argument in node.args] + ["", ""])[:2]
            if any(map(str.isalpha, error)):
                yield error, hint


def _text(node: ast.expr) -> str:
    """Return a literal text as code, with `…` for its values; "" where it is none."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = (str(each.value) if isinstance(each, ast.Constant) else "…" for each in parts)
    text = " ".join("".join(texts).split()).replace("|", "\\|").replace("`", "'")
    return f"`{text}`" if text.strip(" …") else ""


def _without_names(row: tuple[str, str]) -> str:
    return row[0].lstrip("`… :.,").lower()


def setup(app: Sphinx) -> None:
    """Register the directives of reference.md and errors.md."""
    app.add_directive("commands", CommandsReference)
    app.add_directive("keys", KeysReference)
    app.add_directive("errors", ErrorsReference)
