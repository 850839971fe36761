"""The main job, as a user runs it by the README: image, launch, training, report, and then again."""

import csv
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from workspace import Workspace

from argosy.results.tables import fetch, open_tables

pytestmark = pytest.mark.container
RUNS = ("nodes1-ranks1-repeat1", "nodes2-ranks1-repeat1")
# Running it is what runs this test.
NOT_AGAIN = "make test"
BY_HAND = f"bash results/local/digits/{RUNS[0]}/job.sbatch"
REPORT = ".venv/bin/snakemake figures --report snakemake-report.html"


@dataclass(frozen=True)
class Readme:
    """A workspace in which the README's commands have been run, with one repeat of each point."""

    workspace: Workspace
    printed: dict[str, str]
    """By the commands, in their order."""
    reported: dict[str, Any]
    """The summary of which Snakemake's own report was made."""


@pytest.fixture(scope="module")
def readme(workspace: Workspace) -> Readme:
    """Run all commands of the README but `make test`, in the order in which they stand there."""
    config = workspace.path / "config/config.yaml"
    config.write_text(config.read_text().replace("repeats: 3", "repeats: 1"))
    text = (workspace.path / "README.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    assert commands[:2] == ["make demo", NOT_AGAIN]
    printed, reported = {}, {}
    for command in commands:
        if command != NOT_AGAIN:
            status, printed[command] = workspace.run(*shlex.split(command))
            assert status == 0, f"{command}\n{printed[command]}"
        if command == REPORT:
            reported = json.loads((workspace.path / "results/local/summary.json").read_text())
    return Readme(workspace, printed, reported)


@pytest.fixture(scope="module")
def finished(readme: Readme) -> Workspace:
    """The workspace of the README's commands."""
    return readme.workspace


def test_the_demo_says_where_its_report_is(readme: Readme) -> None:
    report = readme.workspace.path / "results/local/report.html"
    assert f"Report: {report}" in readme.printed["make demo"]
    assert report.is_file()


def metrics(run_dir: Path) -> dict[str, list[Any]]:
    """The metrics of the finished attempt, by name, a value of each rank."""
    attempt = json.loads((run_dir / "result.json").read_text())["attempt"]
    found: dict[str, list[Any]] = {}
    for path in sorted((run_dir / "records" / attempt).glob("rank-*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["kind"] == "metric":
                found.setdefault(record["name"], []).append(record["value"])
    return found


def measured_points(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the points that have numbers.

    A point has one run here, and on a busy machine a short run may never become steady. Such a point has no
    numbers, and the summary has to say why.
    """
    (experiment,) = summary["experiments"]
    for point in experiment["points"]:
        (run,) = [run for run in summary["runs"] if run["nodes"] == point["nodes"]]
        assert (point["throughput_samples_per_s"] is None) == bool(run["left_out"]), run
        assert (point["costs"] is None) == bool(run["left_out"]), run
    return [point for point in experiment["points"] if point["costs"]]


@pytest.mark.parametrize(("run", "ranks"), [(RUNS[0], 1), (RUNS[1], 2)])
def test_it_learns_and_all_ranks_end_with_the_same_weights(
    finished: Workspace, run: str, ranks: int
) -> None:
    found = metrics(finished.run_dir("digits", run))
    assert len(found["test_accuracy"]) == ranks
    assert min(found["test_accuracy"]) >= 0.96
    assert found["weights_identical"] == [True] * ranks
    assert len(set(found["weights_sha256"])) == 1


def test_each_rank_has_a_log_and_the_checkpoint_is_there(finished: Workspace) -> None:
    folder = finished.run_dir("digits", RUNS[1])
    attempt = json.loads((folder / "result.json").read_text())["attempt"]
    assert "test accuracy" in (folder / "logs" / attempt / "ranks/rank-0.log").read_text()
    assert (folder / "logs" / attempt / "ranks/rank-1.log").exists()
    kept = sorted((folder / "checkpoints" / attempt).iterdir())
    assert len(kept) == 2
    for checkpoint in kept:
        assert (checkpoint / "state.pt").stat().st_size > 100_000
        assert (checkpoint / "checkpoint.json").exists()


def test_the_reports_files_agree(finished: Workspace) -> None:
    results = finished.path / "results/local"
    points = measured_points(json.loads((results / "summary.json").read_text()))
    rows = list(csv.DictReader((results / "summary.csv").open()))
    for point in points:
        (row,) = [
            row
            for row in rows
            if row["quantity"] == "throughput" and row["ranks"] == str(point["ranks"])
        ]
        assert float(row["mean"]) == pytest.approx(point["throughput_samples_per_s"]["mean"])
        assert point["phases_s_per_step"]["backward"] > 0
        assert point["test_accuracy_min"] >= 0.96
    html = (results / "report.html").read_text()
    assert "https://" not in html.replace("http://www.w3.org", "").split("<body")[0]
    for run in RUNS:
        assert run in html


def test_what_its_nodes_did_and_used_is_in_the_tables(finished: Workspace) -> None:
    with open_tables(finished.path / "results/local/tables") as tables:
        nodes = fetch(tables, "SELECT run_id, engine FROM nodes ORDER BY run_id, node")
        sampled = fetch(
            tables,
            "SELECT run_id, node, max(cpu_s) AS cpu_s, min(memory_used_bytes) AS memory, "
            "max(agent_cpu_s) / (max(at_s) - min(at_s)) AS cost FROM telemetry "
            "WHERE gpu IS NULL GROUP BY ALL ORDER BY run_id, node",
        )
    assert [row["run_id"] for row in nodes] == [RUNS[0], RUNS[1], RUNS[1]]
    assert {row["engine"] for row in nodes} <= {"runc", "crun"}
    assert [(row["run_id"], row["node"]) for row in sampled] == [
        (RUNS[0], 0), (RUNS[1], 0), (RUNS[1], 1)
    ]  # fmt: skip
    for row in sampled:
        assert row["cpu_s"] > 1
        assert row["memory"] > 1 << 20
        # Runs of some seconds; most of it is what it takes to begin.
        assert row["cost"] < 0.02


def test_again_nothing_runs(finished: Workspace) -> None:
    before = finished.path.joinpath("results/local/report.html").stat().st_mtime_ns
    status, output = finished.run("make", "demo")
    assert status == 0, output
    assert "Nothing to be done" in output
    assert finished.path.joinpath("results/local/report.html").stat().st_mtime_ns == before


def test_snakemakes_own_report_holds_ours(readme: Readme) -> None:
    assert REPORT in readme.printed
    text = (readme.workspace.path / "snakemake-report.html").read_text()
    # There is nothing to draw where a busy machine left one of the two points without numbers.
    drawn = len(measured_points(readme.reported)) == len(RUNS)
    for name in ("report.html", "summary.csv", *["figures/digits-throughput.svg"] * drawn):
        assert f"results/local/{name}" in text


def test_by_hand_the_script_leaves_the_same_files(readme: Readme) -> None:
    folder = readme.workspace.run_dir("digits", RUNS[0])

    def names(attempt: str) -> set[str]:
        return {
            str(path.relative_to(folder)).replace(attempt, "")
            for kind in ("records", "logs")
            for path in (folder / kind / attempt).iterdir()
        }

    # The output goes to the terminal and to job.log, where it always is.
    assert "test accuracy" in readme.printed[BY_HAND]
    by_hand = json.loads((folder / "result.json").read_text())["attempt"]
    assert by_hand.startswith("hand-")
    (by_snakemake,) = [
        path.name for path in (folder / "attempts").iterdir() if path.name != by_hand
    ]
    assert names(by_hand) == names(by_snakemake)


def test_another_price_makes_the_report_alone(finished: Workspace) -> None:
    results = finished.path / "results/local"
    before = {path: path.stat().st_mtime_ns for path in (results / "tables").iterdir()}
    for price in (1.25, 2.5):
        costs = f"price_per_node_hour: {price}\ncurrency: EUR\n"
        (finished.path / "slurm/local/costs.yaml").write_text(costs)
        status, output = finished.snakemake()
        assert status == 0, output
        assert output.count("Writing the report of local") == 1
        assert "Collecting the records" not in output
        assert "Running digits" not in output
        summary = json.loads((results / "summary.json").read_text())
        assert summary["rates"]["price_per_node_hour"] == price
    for point in measured_points(summary):
        assert point["costs"]["price"]["mean"] == pytest.approx(
            2.5 * point["costs"]["charged_node_hours"]["mean"]
        )
    assert {path: path.stat().st_mtime_ns for path in (results / "tables").iterdir()} == before
