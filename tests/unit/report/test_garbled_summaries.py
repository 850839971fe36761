"""A summary.json in which anything may stand: each command takes it, or refuses it in a line."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from garbled import garbled
from study_files import sample_study

from argosy.cli.results import badge, compare, figures, summary
from argosy.report import write_report
from argosy.results import collect
from argosy_common.errors import ArgosyError

SUMMARIES, DRAWN = 1000, 40


def reported(site: Path) -> Path:
    sample_study(site)
    collect(site, site / "tables")
    write_report(site)
    return site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reported(tmp_path_factory.mktemp("summaries") / "here")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(reported(tmp_path_factory.mktemp("summaries") / "other"))


def garbled_site(site: Path, folder: Path, chance: random.Random) -> str:
    """A site whose summary has a few of its values exchanged, mostly numbers."""
    folder.mkdir(exist_ok=True)
    text = garbled((site / "summary.json").read_text(), chance)
    (folder / "summary.json").write_text(text)
    return str(folder)


def refused(command: Callable[..., object], *arguments: object) -> bool:
    try:
        command(*arguments)
    except ArgosyError:
        return True
    return False


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_garbled_summaries_are_taken_or_refused_in_a_line(
    site: Path, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chance, there = random.Random(4), tmp_path / "there"
    taken = 0
    for number in range(SUMMARIES):
        odd = garbled_site(site, there, chance)
        page = tmp_path / "page.html"
        results = [
            refused(summary, odd),
            refused(badge, tmp_path / "badge.svg", odd, "digits-mlp"),
            refused(compare, [other, odd], page),
            refused(compare, [odd, other], page),
            number < DRAWN and refused(figures, odd, tmp_path / "figures"),
        ]
        taken += not any(results)
    assert taken > SUMMARIES / 20
    shutil.rmtree(there)


def test_a_summary_of_nothing_but_depth(site: Path, tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    version = json.loads((site / "summary.json").read_text())["schema_version"]
    deep = f'{{"schema_version": {version}, "runs": {"[" * 100_000}'
    (tmp_path / "odd/summary.json").write_text(deep)
    assert refused(summary, str(tmp_path / "odd"))
