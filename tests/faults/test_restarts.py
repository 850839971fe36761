"""Restart in place: a run that lost a rank or a node goes on within its job."""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import step_files
from workspace import BIN, Workspace

from argosy.results.tables import fetch, open_tables
from argosy_images.store.store import Store

# How soon a run goes on is measured.
pytestmark = pytest.mark.quiet
RUN = "nodes3-ranks1-repeat1"
COUNT = Path(__file__).parents[1] / "slurm/programs/count.py"


class Study(Workspace):
    """One run of a program that counts and saves."""

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.run_dir("count", RUN)

    def count(self, nodes: Any, restarts: int, steps: int, image: str | None = None) -> None:
        """Configure the run, in a container if there is an image."""
        program = COUNT
        if image:
            program = Path("/workloads", COUNT.name)
            shutil.copy(COUNT, self.path / "containers/workloads")
        python = "python3" if image else sys.executable
        self.configure(
            {
                "count": {
                    **({"image": image} if image else {"runtime": "native"}),
                    "launcher": "plain",
                    "independent": True,
                    "command": f"{python} {program} --steps {steps} --seconds 0.05",
                    "scale": {"nodes": nodes, "repeats": 1},
                    "checkpoints": {"warning": "10s", "restarts": restarts},
                }
            }
        )

    def steps(self, attempt: str) -> int:
        """How many steps rank 0 has recorded in the attempts whose name ends so."""
        files = self.folder.glob(f"records/*{attempt}/rank-0.steps")
        return sum(map(step_files.count, files))

    def until_steps(self, attempt: str, count: int, timeout: float = 30.0) -> None:
        """Wait for steps."""
        deadline = time.monotonic() + timeout
        while self.steps(attempt) < count:
            assert time.monotonic() < deadline, [*self.folder.glob("logs/*/job.log")]
            time.sleep(0.05)

    def kill(self, rank: int, *, agent: bool = False) -> float:
        """Kill a rank, or the agent above it; returns when (monotonic)."""
        attempt = max(self.folder.glob("attempts/*"), key=lambda path: path.stat().st_mtime).name
        wanted = {"ARGOSY_RANK": str(rank), "ARGOSY_ATTEMPT": attempt}
        [found] = [process for process in psutil.process_iter() if is_with(process, wanted)]
        os.kill(found.ppid() if agent else found.pid, signal.SIGKILL)
        return time.monotonic()

    def said(self, name: str) -> dict[str, Any]:
        """Return what the JSON files of the attempts hold, by the ends of the attempts' names."""
        found = {}
        for path in self.folder.glob(f"attempts/*/{name}.json"):
            found[path.parent.name.rpartition(".")[2]] = json.loads(path.read_text())
        return found

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Return rows of the tables."""
        with open_tables(self.path / "results/local/tables") as tables:
            return fetch(tables, query)


def is_with(process: psutil.Process, variables: dict[str, str]) -> bool:
    try:
        return variables.items() <= process.environ().items()
    except psutil.Error:
        return False


@pytest.fixture
def study(project: Path, project_store: Store, tmp_path: Path) -> Study:
    return Study.copy(project, tmp_path / "a project; with $(odd) 'name'", project_store.path)


def test_a_lost_node_and_a_lost_rank_take_seconds(study: Study) -> None:
    study.count("2..3", restarts=2, steps=300)
    snakemake = study.start(BIN / "snakemake")
    study.until_steps(".0", 35)
    killed = study.kill(2, agent=True)
    study.until_steps(".0-1", 1)
    assert time.monotonic() - killed < 15
    study.until_steps(".0-1", 25)
    killed = study.kill(1)
    study.until_steps(".0-2", 1)
    assert time.monotonic() - killed < 10
    output, _ = snakemake.communicate(timeout=120)
    assert snakemake.returncode == 0, output
    verdicts, claims = study.said("verdict"), study.said("claim")
    assert [verdicts[name]["state"] for name in ("0", "0-1", "0-2")] == [
        "failed",
        "failed",
        "completed",
    ]
    assert [claims[name]["run"]["nodes"] for name in ("0", "0-1", "0-2")] == [3, 2, 2]
    assert verdicts["0"]["failure"]["node"] == 2
    assert verdicts["0-1"]["failure"]["rank"] == 1
    summary = json.loads((study.path / "results/local/summary.json").read_text())
    [measured] = summary["runs"]
    assert (measured["restarts"], measured["part_nodes"]) == (2, [3, 2, 2])
    assert "2 of its 3 nodes" in measured["left_out"]
    assert measured["restarts_lost_s"] > 0
    assert len(summary["failures"]) == 2
    steps = [row["step"] for row in study.rows("SELECT step FROM steps WHERE rank = 0")]
    assert sorted(steps) == [*range(300)]


@pytest.mark.container
def test_a_container_that_is_killed_is_a_lost_node(study: Study, torch_digest: str) -> None:
    study.count("2..3", restarts=1, steps=200, image="torch-cpu")
    snakemake = study.start(BIN / "snakemake")
    study.until_steps(".0", 35, timeout=120)
    killed = study.kill(1, agent=True)
    study.until_steps(".0-1", 1)
    assert time.monotonic() - killed < 15
    output, _ = snakemake.communicate(timeout=120)
    assert snakemake.returncode == 0, output
    assert [study.said("claim")[name]["run"]["nodes"] for name in ("0", "0-1")] == [3, 2]
    assert study.said("verdict")["0"]["failure"]["node"] == 1
    steps = [row["step"] for row in study.rows("SELECT step FROM steps WHERE rank = 0")]
    assert sorted(steps) == [*range(200)]
