"""What a verdict calls doubtful has a finding and a remark, though its run completed."""

import json
from pathlib import Path

from reports import reported, reported_text
from study_files import completed


def test_each_is_said_of_its_run(tmp_path: Path) -> None:
    site = tmp_path / "site"
    path = completed(site, nodes=4).path / "result.json"
    remarks = ["a process was killed", "whether its ranks met is <not> known"]
    path.write_text(json.dumps({**json.loads(path.read_text()), "remarks": remarks}))
    text = reported_text(site)
    said = "A process was killed. Whether its ranks met is &lt;not&gt; known."
    assert text.count(said) == 2, "a finding and a remark"


def test_nothing_is_said_of_others(tmp_path: Path) -> None:
    completed(tmp_path / "site")
    assert "not known" not in reported(tmp_path / "site").html.read_text()
