"""The list of sites, and the page that shows it."""

import shutil
from pathlib import Path

import pytest

from argosy.site.overview import overview
from argosy_common.errors import ArgosyError

OURS = {"local", "testbed"}


def test_each_published_site_is_in_the_page_as_its_file_says(project: Path) -> None:
    page = (project / "docs/sites.md").read_text()
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    found = [each for each in overview(project / "slurm") if each.name not in OURS]
    assert [*rows] == [each.name for each in found]
    for each in found:
        cells = [cell.strip() for cell in rows[each.name].strip("|").split("|")]
        assert cells[1] == each.operator
        assert cells[2] == each.nodes
        assert cells[4] == (each.lacks or "–")
        assert cells[5] == (each.checked or "no date")
        assert cells[6] == (each.tried or "no")
        assert cells[7] == f"[help]({each.contact})"


def test_there_are_twenty_of_many_kinds(project: Path) -> None:
    found = [each for each in overview(project / "slurm") if each.name not in OURS]
    assert len(found) >= 20
    assert all(each.contact.startswith("https://") and each.operator for each in found)
    nodes = " ".join(each.nodes for each in found)
    assert "aarch64" in nodes
    assert "MI250X" in nodes
    countries = {each.operator.rpartition(", ")[2] for each in found}
    assert len(countries) >= 10


def test_a_file_that_cannot_be_read_is_named(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "slurm/lumi", tmp_path / "lumi")
    (tmp_path / "lumi/site.yaml").write_text("scheduler: [\n")
    with pytest.raises(ArgosyError, match="lumi"):
        overview(tmp_path)
