"""The README's commands, as they stand there, in the order in which they stand there."""

import re
import shlex
from pathlib import Path

import pytest
from workspace import Workspace

pytestmark = pytest.mark.container

# Running it is what runs this test.
NOT_AGAIN = "make test"


def commands(readme: Path) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", readme.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_every_command_works(workspace: Workspace) -> None:
    config = workspace.path / "config/config.yaml"
    config.write_text(config.read_text().replace("repeats: 3", "repeats: 1"))
    found = commands(workspace.path / "README.md")
    assert found[:2] == ["make demo", NOT_AGAIN]
    for command in found:
        if command != NOT_AGAIN:
            status, output = workspace.run(*shlex.split(command))
            assert status == 0, f"{command}\n{output}"


def test_every_file_that_it_links_to_is_there(project: Path) -> None:
    for page in [project / "README.md", *(project / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"
