"""The documentation site: `make docs` builds it from the pages where they stand in the repository."""

import json
from collections.abc import Iterator
from typing import Any

from docutils.nodes import Node
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer import Context
from typer.cli import get_docs_for_click
from typer.main import get_command

from argosy import __version__
from argosy.cli import app as commands
from argosy.schemas import MODELS, schema_of

project = "Argosy"
release = __version__
extensions = ["myst_parser"]
root_doc = "docs/index"
# Links lead where they lead in the repository, so its root is the source folder.
include_patterns = [
    *("*.md", "docs/*.md"),
    *("config/README.md", "benchmarks/README.md", "workflow/rules/README.md"),
]
# Folders that are not even listed: images have a hundred thousand files.
exclude_patterns = [
    ".*",
    "results",
    "resources",
    "logs",
    "site",
    "tests",
    "containers",
    "workflow/src",
]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Argosy"
html_show_copyright = False


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


def setup(app: Sphinx) -> None:
    """Register the directives of reference.md."""
    app.add_directive("commands", CommandsReference)
    app.add_directive("keys", KeysReference)
