"""Commands accept a garbled summary.json, or refuse it in one line."""

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from fuzzing import fuzz
from garbled import garbled
from reports import reported
from study_files import sample_study

from argosy.cli.results import badge, compare, figures, summary
from argosy_common.errors import ArgosyError

SUMMARIES, DRAWN = 1000, 0.04


def sampled(site: Path) -> Path:
    sample_study(site)
    reported(site)
    return site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sampled(tmp_path_factory.mktemp("summaries") / "here")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(sampled(tmp_path_factory.mktemp("summaries") / "other"))


def garbled_site(site: Path, folder: Path, chance: random.Random) -> str:
    """Return a site whose summary has a few changed values, mostly numbers."""
    folder.mkdir(exist_ok=True)
    text = garbled((site / "summary.json").read_text(), chance)
    (folder / "summary.json").write_text(text)
    return str(folder)


def refused(command: Callable[[], object]) -> bool:
    try:
        command()
    except ArgosyError as problem:
        assert "\n" not in problem.problem
        return True
    return False


@pytest.mark.thorough
@pytest.mark.slow
def test_garbled_summaries_are_taken_or_refused_in_a_line(
    site: Path, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    there = tmp_path / "there"

    def taken(chance: random.Random) -> bool:
        odd, page = garbled_site(site, there, chance), tmp_path / "page.html"
        commands = [
            partial(summary, odd),
            partial(badge, tmp_path / "badge.svg", odd, "digits-mlp"),
            partial(compare, [other, odd], page),
            partial(compare, [odd, other], page),
        ]
        if chance.random() < DRAWN:
            commands.append(partial(figures, odd, tmp_path / "figures"))
        refusals = [refused(command) for command in commands]
        return not any(refusals)

    fuzz(taken, SUMMARIES)


def test_a_summary_of_nothing_but_depth(site: Path, tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    version = json.loads((site / "summary.json").read_text())["schema_version"]
    deep = f'{{"schema_version": {version}, "runs": {"[" * 100_000}'
    (tmp_path / "odd/summary.json").write_text(deep)
    assert refused(partial(summary, str(tmp_path / "odd")))
