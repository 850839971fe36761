"""The two commands: their mistakes are one line, and they leave quietly."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import Argosy
from live_study import FakeStudy, ended_in

COMMAND = (sys.executable, "-m", "argosy.cli")


@pytest.fixture
def project(fake: FakeStudy) -> Path:
    """Two sites; the runs of the second one are of this machine."""
    fake.plan()
    FakeStudy(fake.site.parent / "local").plan()
    return fake.site.parents[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("status",), "SITE: several sites have results here\nhint: name one of cluster, local"),
        (
            ("status", "moon"),
            "results/moon: there are no such results\nhint: there are cluster, local",
        ),
        (
            ("logs", "digits"),
            "digits: 2 runs have this name\nhint: there are "
            "cluster/digits/nodes1-ranks1-repeat1, local/digits/nodes1-ranks1-repeat1",
        ),
        (("logs", "local/", "--rank", "1", "--job"), "give at most one of --rank, --node, --job"),
        (
            ("logs", "local/"),
            "digits/nodes1-ranks1-repeat1: no log: the run has not started",
        ),
        (
            ("records", "local/"),
            "digits/nodes1-ranks1-repeat1: no records: the run has not started",
        ),
    ],
)
def test_a_mistake_is_one_line(
    project: Path, argosy: Argosy, arguments: tuple[str, ...], message: str
) -> None:
    done = argosy(*arguments, folder=project)
    assert (done.status, done.err) == (2, f"error: {message}\n")


def test_without_results_it_says_what_to_do(tmp_path: Path, argosy: Argosy) -> None:
    (tmp_path / "slurm").mkdir()
    done = argosy("status", folder=tmp_path)
    assert done.err == "error: results: there are no results here\nhint: run: snakemake\n"


@pytest.mark.parametrize(
    "arguments", [("status", "local", "--watch"), ("logs", "local/", "--follow")]
)
def test_an_interrupt_ends_it_quietly(project: Path, arguments: tuple[str, ...]) -> None:
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert b"Traceback" not in rest


def test_the_next_program_may_have_seen_enough(project: Path) -> None:
    run = FakeStudy(project / "results" / "local").plan()
    ended_in(run, "local-1.0", "completed")
    (run.path / "logs/local-1.0/job.log").write_text("line\n" * 200_000)
    command = f"{sys.executable} -m argosy.cli logs local/ | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=project, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr, done.returncode) == ("line\n", "", 0)
