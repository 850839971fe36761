"""Charts and tables of a report for papers."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from planned_studies import network, training
from reports import reported, reported_summary
from stalled_studies import SHARES, stalled
from study_files import completed, sample_study

from argosy.report.outputs.paper import latex_tables, write_paper
from argosy.report.summary.models import Summary, read_summary

KINDS = ("svg", "pdf", "txt")


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    results = tmp_path_factory.mktemp("paper") / "site"
    sample_study(results)
    return reported_summary(results)


def test_every_chart_and_table_is_written(summary: Summary, tmp_path: Path) -> None:
    written = [path.name for path in write_paper(summary, tmp_path / "new" / "figures")]
    charts = ["throughput", "speed-up", "efficiency"]
    assert written == [
        "summary.csv",
        *(f"digits-mlp-{name}.{kind}" for name in (*charts, "phases") for kind in KINDS),
        "digits-mlp-scaling.tex",
        "digits-mlp-factors.tex",
        *(f"resnet-b-50-{name}.{kind}" for name in charts for kind in KINDS),
        "resnet-b-50-scaling.tex",
    ]
    folder = tmp_path / "new" / "figures"
    assert sorted(path.name for path in folder.iterdir()) == sorted(written)
    for path in folder.glob("*.pdf"):
        assert path.read_bytes().startswith(b"%PDF-")
    for path in folder.glob("*.svg"):
        assert path.read_text().startswith("<svg")
    throughput = (folder / "digits-mlp-throughput.svg").read_text()
    for name in ("mean of the runs", "single runs", "ideal", "fit: Amdahl"):
        assert f">{name}</text>" in throughput, name
    caption = (folder / "digits-mlp-throughput.txt").read_text()
    assert caption.startswith(
        "Throughput, 95 % intervals; dashed: ideal; fit: Amdahl.\n\nLine chart of"
    )
    rows = list(csv.DictReader((folder / "summary.csv").open()))
    assert {row["experiment"] for row in rows} == {"digits-mlp", "resnet <b>50 &"}


def test_the_latex_table(summary: Summary) -> None:
    lines = next(latex_tables(summary.experiments[0])).text.splitlines()
    assert lines[1] == r"\begin{tabular}{rrrrrr}"
    assert lines[3] == r"Nodes & Ranks & Runs & Samples/s & Speed-up & Efficiency \\"
    first, second = lines[5], lines[6]
    assert first.startswith("1 & 2 & 3 & 1,080 [1,050, 1,120] & 1.00 & 1.00 ")
    assert second.startswith("2 & 4 & 3 & ")
    assert second.count("&") == 5
    assert second.endswith(r" \\")


def test_names_that_would_be_the_same_file_are_not(tmp_path: Path) -> None:
    results = tmp_path / "site"
    for name in ("a b", "a+b"):
        completed(results, experiment=name)
    found = reported_summary(results)
    written = write_paper(found, tmp_path / "figures")
    assert len(written) == len(set(written)) == 1 + 2 * (2 * 3 + 1)


@pytest.mark.slow
def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    results = tmp_path / "site"
    completed(results)
    command = [sys.executable, "-m", "argosy.cli"]
    refused = subprocess.run([*command, "figures", results], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "there is no report yet\nhint: run: argosy report" in refused.stderr
    subprocess.run([*command, "report", results], check=True, capture_output=True)
    (results / "figures").mkdir()
    (results / "figures/renamed-scaling.tex").write_text(
        "% Of an experiment that has another name now."
    )
    done = subprocess.run([*command, "figures", results], capture_output=True, text=True)
    assert done.returncode == 0
    files = [Path(line) for line in done.stdout.splitlines()]
    assert all(path.is_file() for path in files)
    assert files[0] == results / "figures" / "summary.csv"
    assert "not of this report, and left there: renamed-scaling.tex\n" in done.stderr
    shutil.rmtree(results / "figures")


def written(results: Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The LaTeX tables of the training by name, and the rows of summary.csv."""
    files = reported(results)
    found = read_summary(json.loads(files.json.read_text()))
    (experiment,) = (each for each in found.experiments if each.experiment == "training")
    tables = {table.name: table.text for table in latex_tables(experiment)}
    for text in tables.values():
        header = next(line for line in text.splitlines() if line.startswith("Nodes & "))
        body = text.split("\\midrule\n")[1].split("\\bottomrule")[0].splitlines()
        assert {line.count("&") for line in body} == {header.count("&")}
        assert f"{{{'r' * (header.count('&') + 1)}}}" in text
    return tables, [
        row for row in csv.DictReader(files.csv.open()) if row["experiment"] == "training"
    ]


def test_predictions_as_tables(tmp_path: Path) -> None:
    network(tmp_path / "site")
    for repeat, factor in ((1, 1.0), (2, 1.01)):
        training(tmp_path / "site", {1: 0.1 * factor, 2: 0.2 * factor}, repeat=repeat)
    tables, rows = written(tmp_path / "site")
    assert [*tables] == ["scaling", "factors", "prediction"]
    lines = tables["prediction"].splitlines()
    assert lines[3].startswith(r"Nodes & Ranks & Samples/s & Measured & Error (\%)")
    assert lines[5].startswith("1 & 1 & 318 [")
    assert " & -- & -- & " in lines[-3], "the most nodes were not measured"
    steps = [row for row in rows if row["quantity"] == "predicted_step"]
    assert [int(row["nodes"]) for row in steps][:3] == [1, 2, 4]
    assert (steps[0]["unit"], float(steps[0]["mean"])) == ("s", pytest.approx(0.1005, rel=0.01))
    errors = [row["nodes"] for row in rows if row["quantity"] == "predicted_step_error"]
    assert errors == ["1", "2"]


def test_stalls_as_tables(tmp_path: Path) -> None:
    stalled(tmp_path / "site")
    tables, rows = written(tmp_path / "site")
    columns = tables["stalls"].splitlines()[3].removesuffix(r" \\").split(" & ")
    assert [column.lower() for column in columns] == ["nodes", "ranks", *SHARES]
    shares = {row["quantity"]: float(row["mean"]) for row in rows if row["unit"] == "1"}
    for part, share in SHARES.items():
        assert shares[f"stall_{part}"] == pytest.approx(share, abs=2e-3)
