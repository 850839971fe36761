"""`snakemake --lint`: clean, but for one suggestion that does not apply."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from argosy.results.tables import COLUMNS

# The rules run in the environment that runs Snakemake, and what they start runs in images that are
# locked by digest: a conda environment for each rule would be a second, unlocked truth.
DOES_NOT_APPLY = "Specify a conda environment or container for each rule.:"


def test_lint_finds_nothing_else(project: Path) -> None:
    snakemake = Path(sys.executable).with_name("snakemake")
    done = subprocess.run([snakemake, "--lint"], cwd=project, capture_output=True, text=True)
    titles = re.findall(r"^    \* (.*)$", done.stderr, flags=re.MULTILINE)
    assert titles, done.stderr
    assert set(titles) == {DOES_NOT_APPLY}, done.stderr


@pytest.mark.parametrize("home", ["/proc/gone", "/proc"])
def test_a_home_folder_that_cannot_be_written_to_is_not_needed(project: Path, home: str) -> None:
    snakemake = Path(sys.executable).with_name("snakemake")
    surroundings = {name: text for name, text in os.environ.items() if name != "XDG_CACHE_HOME"}
    done = subprocess.run(
        [snakemake, "--dry-run"],
        cwd=project,
        env={**surroundings, "HOME": home},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_the_rule_of_the_tables_names_all_of_them(project: Path) -> None:
    rules = (project / "workflow/rules/report.smk").read_text()
    assert set(re.findall(r"/tables/(\w+)\.parquet", rules)) == set(COLUMNS)
