"""Commands of a report use the site's prices, say what the report lacks, and suit a pipe."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Argosy
from planned_studies import STEP_S, network, training


def test_prices_of_the_site_are_the_default(project: Path, argosy: Argosy, tmp_path: Path) -> None:
    (project / "slurm/local/costs.yaml").write_text("price_per_node_hour: 2\ncurrency: EUR\n")
    (tmp_path / "mine.yaml").write_text("price_per_node_hour: 3\ncurrency: CHF\n")

    def currency(*arguments: str, folder: Path) -> str:
        assert argosy("report", *arguments, folder=folder).status == 0
        summary = json.loads((project / "results/local/summary.json").read_text())
        return str(summary["rates"]["currency"])

    assert currency("local", folder=project) == "EUR"
    assert currency("local", "--costs", str(tmp_path / "mine.yaml"), folder=project) == "CHF"
    # Also from elsewhere, and not those of a site of this name there.
    (tmp_path / "slurm/local").mkdir(parents=True)
    (tmp_path / "slurm/local/costs.yaml").write_text("price_per_node_hour: 4\ncurrency: USD\n")
    assert currency("project/results/local", folder=tmp_path) == "EUR"


@pytest.mark.parametrize("command", ["summary", "figures", "compare", "badge"])
def test_a_report_without_the_newest_results_is_said_to_be(
    project: Path, argosy: Argosy, command: str
) -> None:
    shutil.copytree(project / "results/local", project / "results/other")
    more = {"compare": ("results/other",), "badge": ("--experiment", "digits-mlp")}
    words = [
        command,
        *(["b.svg"] if command == "badge" else []),
        "results/local",
        *more.get(command, ()),
    ]
    assert "not in this report" not in argosy(*words, folder=project).err
    [result, *_] = sorted((project / "results/local").glob("*/*/result.json"))
    made = (project / "results/local/summary.json").stat().st_mtime
    os.utime(result, (made + 60, made + 60))
    done = argosy(*words, folder=project)
    assert done.status == 0
    assert "not in this report: 1 run completed after it; to include all: argosy report" in done.err
    argosy("report", "results/local", folder=project)
    os.utime(project / "results/local/summary.json", (made + 90, made + 90))
    assert "not in this report" not in argosy(*words, folder=project).err


def test_no_summary_is_written_without_its_page(project: Path, argosy: Argosy) -> None:
    site = project / "results/local"
    (site / "summary.json").unlink()
    (site / "report.html").unlink()
    (site / "report.html").mkdir()
    assert argosy("report", "local", folder=project).status == 2
    done = argosy("summary", "local", folder=project)
    assert (done.status, done.out) == (2, "")
    assert "there is no report yet" in done.err


def test_predictions_of_results_that_may_only_be_read(tmp_path: Path, argosy: Argosy) -> None:
    site = tmp_path / "results/local"
    network(site)
    for repeat, factor in ((1, 1.0), (2, 1.02)):
        training(site, {1: factor * STEP_S, 2: factor * 0.2}, repeat=repeat)
    words = ("predict", "results/local", "training", "--nodes", "1,2,4")
    expected = argosy(*words, folder=tmp_path)
    assert expected.status == 0 and expected.out
    shutil.rmtree(site / "tables")
    site.chmod(0o500)
    try:
        found = argosy(*words, folder=tmp_path)
    finally:
        site.chmod(0o700)
    assert (found.status, found.out) == (0, expected.out)
    assert "may not be written; using temporary tables" in found.err
    assert not (site / "tables").exists()


@pytest.mark.parametrize(
    "command", [("status",), ("summary",), ("site", "list"), ("compare", "--help")]
)
def test_lines_in_a_pipe_end_without_blanks(project: Path, command: tuple[str, ...]) -> None:
    environment = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-m", "argosy.cli", *command],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout.strip()
    assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []
