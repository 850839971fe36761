"""Results in three lines of a notebook."""

import sys
from pathlib import Path

import pytest
from study_files import sample_study

from argosy.notebook import read_results
from argosy.report import make_report
from argosy.report.outputs import paper
from argosy.results import collect
from argosy_common.errors import ArgosyError


def test_numbers_and_tables_of_a_study(tmp_path: Path) -> None:
    sample_study(tmp_path)
    collect(tmp_path, tmp_path / "tables")
    make_report(tmp_path / "tables", tmp_path, tmp_path)
    study = read_results(str(tmp_path))
    names = study.tables.sql("SELECT DISTINCT experiment FROM runs ORDER BY experiment").fetchall()
    assert [name for (name,) in names] == sorted(e.experiment for e in study.summary.experiments)
    assert repr(study).startswith("StudyResults(sites=[") and len(repr(study)) < 1000


def test_a_folder_without_a_report_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArgosyError, match="there is no report yet"):
        read_results(tmp_path)


def test_a_folder_of_several_sites_names_them(tmp_path: Path) -> None:
    (tmp_path / "results/local").mkdir(parents=True)
    (tmp_path / "results/local/summary.json").touch()
    with pytest.raises(ArgosyError, match="not a folder of a site's results") as raised:
        read_results(tmp_path / "results")
    assert raised.value.hint == f"there are {tmp_path}/results/local"


def test_figures_without_vl_convert_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(ArgosyError, match="figures need vl-convert") as raised:
        paper.draw({})
    assert raised.value.hint == "pip install 'argosy[figures]'"
