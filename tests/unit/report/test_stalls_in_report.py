"""The stalls of an experiment in the report, with its chart, its table and its sentence."""

import json
from pathlib import Path
from typing import Any

from reports import reported
from stalled_studies import SHARES, STEP_S, stalled


def written(results: Path) -> tuple[dict[str, Any], str]:
    files = reported(results)
    summary = json.loads(files.json.read_text())
    (experiment,) = (one for one in summary["experiments"] if one["experiment"] == "training")
    return experiment, files.html.read_text()


def test_the_numbers_and_the_sentence(tmp_path: Path) -> None:
    stalled(tmp_path / "site")
    experiment, html = written(tmp_path / "site")
    (point,) = experiment["stalls"]
    assert [*point["shares"]] == [*SHARES]
    sentence = html.split("With 2 nodes a step waits ")[1].split("</li>")[0]
    # The longest wait comes first.
    assert sentence.startswith("20 % (")
    for wait in ("for other nodes", "for the other ranks of its node", "for data to be read"):
        assert wait in sentence
    assert "<summary>Stalls of a step</summary>" in html
    assert 'id="experiment-1-stalls"' in html


def test_a_stall_within_chance_is_not_named(tmp_path: Path) -> None:
    alike = dict.fromkeys(STEP_S, 0.1)
    stalled(tmp_path / "site", alike)
    _, html = written(tmp_path / "site")
    assert "With 2 nodes no stall is significant." in html


def test_why_there_are_none(tmp_path: Path) -> None:
    few = {name: step_s for name, step_s in STEP_S.items() if name != "alone"}
    stalled(tmp_path / "site", few)
    experiment, html = written(tmp_path / "site")
    (point,) = experiment["stalls"]
    assert point["refused"]
    assert "No stalls with 2 nodes: no run with synthetic data on one rank is completed." in html
