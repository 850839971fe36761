"""What commands print, as whole texts: data on standard output, messages on standard error.

UPDATE_GOLDEN=1 writes the texts anew; look at the difference before it is kept.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from planned_studies import STEP_S, network, training
from study_files import sample_study
from workspace import BIN

from argosy.report import write_report
from argosy.results import collect

GOLDEN = Path(__file__).parent / "output"
UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"

COMMANDS = {
    "help": ("--help",),
    "image-help": ("image", "--help"),
    "image-list-nothing": ("image", "list"),
    "status": ("status", "local"),
    "status-no-such-site": ("status", "nowhere"),
    "logs-ambiguous": ("logs", "digits"),
    "logs": ("logs", "digits-mlp/nodes1-ranks2-repeat1"),
    "tables": ("tables", "results/local"),
    "report": ("report", "results/local"),
    "summary": ("summary", "results/local"),
    "summary-before-report": ("summary", "results/unreported"),
    "compare": ("compare", "results/local", "results/planned"),
    "predict": ("predict", "results/planned", "training", "--nodes", "1,2,4,8"),
    "predict-no-such-experiment": ("predict", "results/planned", "digits"),
    "bundle-secret": ("bundle", "study.zip", "planned"),
    "bundle-no-such-site": ("bundle", "study.zip", "nowhere"),
    "unbundle-no-bundle": ("unbundle", "results/local/summary.csv", "new"),
    "wrong-option": ("report", "--form", "results/local"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two sites' results."""
    folder = tmp_path_factory.mktemp("output")
    sample_study(folder / "results/local")
    network(folder / "results/planned")
    for repeat, factor in ((1, 1.0), (2, 1.02)):
        steps_s = {1: factor * STEP_S, 2: factor * 0.2}
        training(folder / "results/planned", steps_s, repeat=repeat)
    for site in ("local", "planned"):
        collect(folder / "results" / site, folder / "results" / site / "tables")
    shutil.copytree(folder / "results/planned", folder / "results/unreported")
    for site in ("local", "planned"):
        write_report(folder / "results" / site)
    (folder / "Snakefile").write_text("# The rules.\n")
    (folder / "containers/workloads").mkdir(parents=True)
    token = "hf_" + "a1B2" * 9
    (folder / "results/planned/notes.txt").write_text(f"my notes\nexport HF_TOKEN={token}\n")
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_output(name: str, home: Path) -> None:
    done = subprocess.run(
        [BIN / "argosy", *COMMANDS[name]],
        cwd=home,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"},
    )
    said = f"exit {done.returncode}\n--- stdout\n{done.stdout}--- stderr\n{done.stderr}"
    text = "\n".join(line.rstrip() for line in neutral(said, home).splitlines()) + "\n"
    golden = GOLDEN / f"{name}.txt"
    if UPDATE:
        assert os.environ.get("CI") != "true", "in CI the texts are compared"
        GOLDEN.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def neutral(text: str, home: Path) -> str:
    """Without what differs from one machine and second to the next."""
    text = text.replace(str(home), "/project")
    text = re.sub(r"\d\d:\d\d:\d\d", "hh:mm:ss", text)
    return re.sub(r"\([\d.]+ [KMG]iB\) for secrets", "(SIZE) for secrets", text)


def test_every_text_belongs_to_a_command() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(COMMANDS)
