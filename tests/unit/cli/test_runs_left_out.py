"""A study of fewer runs than a site has says how many its report leaves out."""

from pathlib import Path

import pytest
from command_line import Argosy
from study_files import completed


@pytest.mark.parametrize(
    ("planned", "says"), [(1, "2 earlier runs"), (2, "1 earlier run"), (3, "")]
)
def test_tables_of_some_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argosy: Argosy, planned: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    site = Path("results/local")
    runs = [completed(site, experiment=name) for name in ("before", "now", "renamed")]
    Path("runs.txt").write_text("".join(f"{run.path}\n" for run in runs[:planned]))
    done = argosy("tables", "results/local", "--runs", "runs.txt")
    assert done.status == 0
    assert (f"left out: {says} of this site" in done.err) == bool(says)
    assert ("left out" in done.err) == bool(says)
    done = argosy("tables", "results/local")
    assert "left out" not in done.err
