"""The arrows between rooms are those that docs/architecture.md shows."""

import ast
import re
from pathlib import Path

import pytest

PREFIX = "argosy"
SHARED = {"errors", "files", "reading", "units", "validation", "__version__"}


def table(project: Path) -> dict[str, set[str]]:
    """Room to what it may import, as the page says."""
    rows = re.findall(r"^\| `(\w+)/` \|.*\|([^|]*)\|$", page(project), flags=re.MULTILINE)
    return {
        room: set(re.findall(r"\w+", allowed)) & {name for name, _ in rows}
        for room, allowed in rows
    }


def page(project: Path) -> str:
    return (project / "docs/architecture.md").read_text()


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith(f"{PREFIX}.")}
    return found


@pytest.mark.parametrize(
    "room",
    ["study", "site", "images", "jobs", "live", "runtime", "results", "analysis", "report", "cli"],
)
def test_no_arrow_but_those_in_the_table(project: Path, room: str) -> None:
    allowed = table(project)[room] | SHARED | {room}
    for path in (project / "workflow/src/argosy" / room).rglob("*.py"):
        assert imported_rooms(path) <= allowed, path


def test_the_table_names_every_room(project: Path) -> None:
    folders = (project / "workflow/src/argosy").iterdir()
    rooms = {path.name for path in folders if path.is_dir() and path.name != "__pycache__"}
    assert set(table(project)) == rooms


BY_PATH = {
    *(
        "write_text",
        "write_bytes",
        "mkdir",
        "touch",
        "chmod",
        "symlink_to",
        "hardlink_to",
        "unlink",
    ),
    *("rename", "replace", "is_dir", "exists", "glob", "rglob", "walk", "read_text", "read_bytes"),
}
"""Calls that follow links, or whose folders may be links."""


def test_copy_and_add_reach_files_of_images_by_rooted_alone(project: Path) -> None:
    text = (project / "workflow/src/argosy/images/build/copying.py").read_text()
    nodes = [*ast.walk(ast.parse(text))]
    assert not {node.attr for node in nodes if isinstance(node, ast.Attribute)} & BY_PATH
    imported = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
    assert not imported & {"os", "shutil", "subprocess", "tempfile"}
