"""A process that the kernel killed for memory has a finding, though its run completed."""

import json
from pathlib import Path

import pytest
from study_files import completed

from argosy.report import write_report
from argosy.results import collect


@pytest.mark.parametrize(("nodes", "named"), [([1], "node 1,"), ([0, 2], "node 0, 2,")])
def test_nodes_are_named(tmp_path: Path, nodes: list[int], named: str) -> None:
    site = tmp_path / "site"
    path = completed(site, nodes=4).path / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "killed_for_memory": nodes}))
    collect(site, site / "tables")
    text = " ".join(write_report(site).html.read_text().split())
    said = f"killed for want of memory on {named} though all ranks ended well."
    assert text.count(said) == 2, "a finding and a remark"


def test_nothing_is_said_of_others(tmp_path: Path) -> None:
    completed(tmp_path / "site")
    collect(tmp_path / "site", tmp_path / "site/tables")
    assert "for want of memory" not in write_report(tmp_path / "site").html.read_text()
