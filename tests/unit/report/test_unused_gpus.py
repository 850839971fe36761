"""Who asked for GPUs and measured processors is told so."""

import html
from pathlib import Path

import pytest
from reports import reported, reported_text
from study_files import completed

BEGIN = "Its runs requested 1 GPU per rank"


def findings(results: Path, *, asked: int = 1, gpus: int = 0, utilisation: float = 0.8) -> str:
    for repeat in (1, 2):
        run = completed(results, repeat=repeat, resources={"gpus_per_rank": asked})
        run.telemetry(0, gpus, utilisation=utilisation)
    return html.unescape(reported_text(results))


def test_a_node_without_gpus(tmp_path: Path) -> None:
    page = findings(tmp_path / "site")
    assert f"{BEGIN}, but telemetry found none on their nodes" in page
    assert "they may have computed on processors" in page


def test_gpus_that_rest(tmp_path: Path) -> None:
    page = findings(tmp_path / "site", gpus=1, utilisation=0.004)
    assert f"{BEGIN}, which were busy for 0.4 % of the time" in page


@pytest.mark.parametrize(("asked", "gpus", "utilisation"), [(1, 1, 0.8), (0, 0, 0.8), (0, 1, 0.0)])
def test_where_all_is_well_nothing_is_said(
    tmp_path: Path, asked: int, gpus: int, utilisation: float
) -> None:
    page = findings(tmp_path / "site", asked=asked, gpus=gpus, utilisation=utilisation)
    assert "Its runs requested" not in page


def test_without_telemetry_nothing_is_known(tmp_path: Path) -> None:
    results = tmp_path / "site"
    completed(results, resources={"gpus_per_rank": 1})
    assert "Its runs requested" not in reported(results).html.read_text()
