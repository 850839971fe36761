"""The project's pages: all of Markdown that a checkout has, those of packages included."""

from pathlib import Path

FOLDERS = ("benchmarks", "config", "docs", "launchers", "workflow")


def pages_of(project: Path) -> list[Path]:
    """Return the paths of all pages."""
    found = (page for folder in FOLDERS for page in (project / folder).rglob("*.md"))
    return [*sorted(project.glob("*.md")), *sorted(found)]
