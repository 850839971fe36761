"""Garbled results of strangers have a report, too."""

import random
import shutil
from pathlib import Path

import pytest
from fuzzing import fuzz
from garbled import ESCAPE, HARMFUL, some_garbled
from reports import reported, reported_json
from study_files import plan, sample_study

from argosy.report.numbers import moment

STUDIES = 25


@pytest.mark.thorough
@pytest.mark.slow
def test_whatever_stands_in_records_there_is_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    site = Path("results/local")
    sample_study(site)
    files = sorted([*site.rglob("*.json*"), *site.rglob("*.steps")])

    def is_reported(chance: random.Random) -> bool:
        if chance.random() < 0.5:
            shutil.rmtree(site / "tables", ignore_errors=True)
        shutil.rmtree(site / "history", ignore_errors=True)
        with some_garbled(files, chance):
            report = reported(site)
        page = report.html.read_text()
        assert HARMFUL not in page and ESCAPE[0] not in page and ESCAPE[-1] not in page
        assert "root:x:0" not in page
        assert ESCAPE[0] not in report.csv.read_text()
        return True

    fuzz(is_reported, STUDIES, least=1)


@pytest.mark.parametrize("unix", [1e308, -1e308, 1e12, -1e12])
def test_a_time_that_no_calendar_has_is_none(unix: float) -> None:
    assert moment(unix) == moment(None)


@pytest.mark.parametrize(
    "image", ["7", "1e308", '"name"', '["name"]', '{"name": 7}', '{"name": []}']
)
def test_an_image_that_is_none_is_not_named(tmp_path: Path, image: str) -> None:
    site = tmp_path / "results/local"
    sample_study(site)
    for path in site.rglob("provenance.json"):
        path.write_text(f'{{"schema_version": 2, "image": {image}}}')
    assert "<summary>no container," in reported(site).html.read_text()


@pytest.mark.parametrize("name", [r"a\*b", r"a\[b", r"a\b", "a*b", "a?[b]c"])
def test_a_folder_of_an_odd_name_ends_no_report(tmp_path: Path, name: str) -> None:
    """Its runs are read or reported as problems; other runs are always read."""
    site = tmp_path / "local"
    for experiment in ("digits", name):
        run = plan(site, experiment)
        run.execute()
        run.steps()
    summary = reported_json(site)
    measured = [one["experiment"] for one in summary["runs"] if one["samples_per_s"]]
    problems = [one["experiment"] for one in summary["problems"]]
    assert "digits" in measured
    assert sorted([*measured, *problems]) == sorted(["digits", name])
