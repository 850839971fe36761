"""Commands that pages and messages name are there, with the options that they name."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml
from pages import pages_of
from typer.main import get_command

from argosy import __version__
from argosy.cli import app

TOP = get_command(app)
ARGOSY = re.compile(r"\bargosy ((?:[a-z][a-z-]*\b ?)+)([^`\n]*)")
PLACES = (
    "README.md",
    "config",
    "docs",
    "slurm",
    "containers",
    "workflow",
    "profiles",
    "SECURITY.md",
)


def pages(project: Path) -> Iterator[Path]:
    for place in PLACES:
        path = project / place
        files = [path] if path.is_file() else path.rglob("*")
        yield from (
            each for each in files if each.suffix in (".md", ".py", ".yaml", ".smk", ".sh", ".j2")
        )


def commands(project: Path) -> Iterator[tuple[str, str, str]]:
    """Page, words and the rest of what stands in back quotes, or at the begin of a line of an example."""
    for page in pages(project):
        text = page.read_text(errors="replace")
        quoted = re.findall(r"`([^`\n]+)`", text) + re.findall(
            r"^(?:\.venv/bin/)?argosy .+$", text, re.M
        )
        for piece in quoted:
            if found := ARGOSY.fullmatch(piece.removeprefix(".venv/bin/").strip()):
                yield page.name, found[1], found[2]


def found_command(words: str) -> object | None:
    here: object = TOP
    for word in words.split():
        below = getattr(here, "commands", None)
        if below is None:
            return here
        here = below.get(word)
        if here is None:
            return None
    return here


def test_every_command_that_is_named_is_there(project: Path) -> None:
    named = list(commands(project))
    assert len(named) > 30
    unknown = [(page, words) for page, words, _ in named if found_command(words) is None]
    assert not unknown
    hidden = [(page, w) for page, w, _ in named if getattr(found_command(w), "hidden", False)]
    assert not [each for each in hidden if "start" not in each[1]]


def test_every_option_that_is_named_is_there(project: Path) -> None:
    for page, words, rest in commands(project):
        command = found_command(words)
        options = {name for each in getattr(command, "params", ()) for name in each.opts}
        given = re.sub(r"'[^']*'", "", rest.partition(" -- ")[0])
        asked = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", given))
        assert asked <= options | {"--help"}, f"{page}: argosy {words}{rest}"


@pytest.mark.parametrize("words", ["image build", "predict", "render"])
def test_the_check_finds_what_is_there(words: str) -> None:
    assert found_command(words) is not None
    assert found_command("image nothing") is None
    assert isinstance(TOP, typer.core.TyperGroup)


def anchors(page: Path) -> set[str]:
    """Return the headings of a page as links name them: `#order-of-runs`."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w-]", "", each.lower().replace(" ", "-")) for each in headings}


def test_every_file_and_heading_that_pages_link_to_is_there(project: Path) -> None:
    linked = 0
    for page in pages_of(project):
        for target, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", page.read_text()):
            file = page.parent / target if target else page
            assert file.exists(), f"{page}: {target}"
            assert not anchor or anchor in anchors(file), f"{page}: {target}#{anchor}"
            linked += bool(anchor)
    assert linked > 10


def test_pages_and_sections_that_are_named_without_a_link_are_there(project: Path) -> None:
    """As `docs/images.md, *Host requirements*`, in pages, messages and configuration."""
    for page in {*pages(project), *pages_of(project)}:
        text = page.read_text(errors="replace")
        for name, title in re.findall(r"\b((?:docs|config)/[\w-]+\.md)(?:, \*([^*\n]+)\*)?", text):
            assert (project / name).is_file(), f"{page}: {name}"
            section = re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))
            assert not title or section in anchors(project / name), f"{page}: {name}, {title}"


def test_every_target_of_make_that_is_named_is_there(project: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (project / "Makefile").read_text(), re.M))
    for page in pages_of(project):
        named = re.findall(r"(?:`|^)make (?:-\S+ |[A-Z]+=\S+ )*([a-z-]+)", page.read_text(), re.M)
        assert set(named) <= targets, page


def test_every_test_that_pages_name_is_there(project: Path) -> None:
    there = {path.name for path in (project / "tests").rglob("test_*.py")}
    for page in pages(project):
        text = page.read_text(errors="replace")
        for named in re.findall(r"`(tests/[\w/.-]+)`", text):
            assert (project / named).exists(), f"{page}: {named}"
        assert set(re.findall(r"`(test_\w+\.py)`", text)) <= there, page


def test_the_site_is_built_without_a_warning(project: Path, tmp_path: Path) -> None:
    sphinx = (sys.executable, "-m", "sphinx", "--quiet", "--nitpicky", "--fail-on-warning")
    folders = ("-c", project / "docs", "-d", tmp_path / "cache", project, tmp_path / "site")
    done = subprocess.run([*sphinx, *folders], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    reference = re.sub("<[^>]+>", "", (tmp_path / "site/docs/reference.html").read_text())
    assert "argosy image build" in reference and "ranks_per_node" in reference
    for page in ("docs/index", "README", "config/README", "docs/porting", "SECURITY"):
        assert (tmp_path / f"site/{page}.html").is_file()


def test_the_citation_and_the_changes_name_this_version(project: Path) -> None:
    citation = yaml.safe_load((project / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert re.search(
        rf"^## {re.escape(__version__)}$", (project / "CHANGELOG.md").read_text(), re.M
    )
