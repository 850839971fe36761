"""Programs for torchrun run as they stand between real nodes, and end with the cause when one is killed."""

import json
import random
import shutil
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import step_files
from cluster import Cluster
from cluster_workspace import ClusterWorkspace
from workspace import BIN

from argosy_images.builder.builder import build_image
from argosy_images.store.store import Store

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.slurm,
    pytest.mark.container,
    pytest.mark.timeout(900),
]

PROGRAMS = Path(__file__).parent / "programs"
LIGHTNING = """FROM localhost/torch-cpu
RUN pip install --no-compile lightning==2.6.6
"""


def scale(nodes: list[int], **more: int) -> dict[str, Any]:
    return {"nodes": nodes, "repeats": 1, **more}


def experiment(program: str, image: str = "torch-cpu", **more: Any) -> dict[str, Any]:
    return {
        "image": image,
        "launcher": "torch",
        "command": f"python3 /workloads/{program}",
        "scale": scale([1, 2, 4]),
        "resources": {"time": "10m", "memory_per_rank": "1G"},
        "throughput": r"([\d.]+) samples/s",
        **more,
    }


@pytest.fixture(scope="module")
def study(
    cluster: Cluster,
    project: Path,
    project_store: Store,
    torch_digest: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> ClusterWorkspace:
    """Both programs, with an image of one's own for Lightning, run to their ends."""
    path = tmp_path_factory.mktemp("torch") / "project"
    done = ClusterWorkspace.copy(project, path, project_store.path, site="testbed", cluster=cluster)
    (path / "containers/lightning").mkdir()
    (path / "containers/lightning/Containerfile").write_text(LIGHTNING)
    for name in ("ddp.py", "ends_at_once.py"):
        shutil.copy(PROGRAMS / name, path / "containers/workloads" / name)
    done.configure(
        {
            "ddp": experiment("ddp.py", scale=scale([1, 2, 4], ranks_per_node=2)),
            "lightning": experiment(
                "launchers/lightning_fit.py", image="lightning", scale=scale([2])
            ),
            "ends-at-once": experiment("ends_at_once.py", scale=scale([2])),
            "alexnet": experiment(
                "torch/benchmark.py --model alexnet --image-size 64 --batch-size 2 --steps 20",
                scale=scale([1, 2]),
                throughput=None,
            ),
        }
    )
    # Built where the world outside can be reached; then all of its steps are known.
    build_image(project_store, path / "containers/lightning", path / "lock", path / "build.log")
    status, output = done.run(*done_by_snakemake())
    assert status == 0, output
    return done


def done_by_snakemake() -> tuple[str | Path, ...]:
    return BIN / "snakemake", "--profile", "slurm/testbed"


@pytest.mark.parametrize(
    ("name", "nodes", "on_each", "said"),
    [
        *(("ddp", nodes, 2, "rank {rank} of {size}: all weights are equal") for nodes in (1, 2, 4)),
        ("lightning", 2, 1, "rank {rank} of {size} has fitted"),
    ],
)
def test_a_program_for_torchrun_runs_as_it_stands(
    study: ClusterWorkspace, name: str, nodes: int, on_each: int, said: str
) -> None:
    run_id = f"nodes{nodes}-ranks{on_each}-repeat1"
    result = study.result(run_id, name)
    assert result["state"] == "completed"
    assert len(set(result["hosts"])) == nodes
    size = on_each * nodes
    for rank in range(size):
        log = study.run_dir(name, run_id) / "logs" / result["attempt"] / f"ranks/rank-{rank}.log"
        assert said.format(rank=rank, size=size) in log.read_text()


def test_a_thread_of_gloo_does_not_abort_a_program_that_ends(study: ClusterWorkspace) -> None:
    result = study.result("nodes2-ranks1-repeat1", "ends-at-once")
    assert result["state"] == "completed"


def test_the_report_has_them(study: ClusterWorkspace) -> None:
    summary = json.loads((study.path / "results/testbed/summary.json").read_text())
    found = {one["experiment"]: one["points"] for one in summary["experiments"]}
    ranks = {name: [point["ranks"] for point in points] for name, points in found.items()}
    assert ranks == {
        "ddp": [2, 4, 8],
        "lightning": [2],
        "ends-at-once": [2],
        "alexnet": [1, 2],
    }
    # Of the other's few steps on a busy machine it may be said that they never became steady.
    by_line = [point for name in ("ddp", "lightning") for point in found[name]]
    assert all(point["runs_samples_per_s"][0] > 0 for point in by_line)
    assert summary["failures"] == []


@pytest.mark.parametrize("nodes", [1, 2])
def test_what_ddp_does_not_hide_of_its_exchange_is_a_phase(
    study: ClusterWorkspace, nodes: int
) -> None:
    run_id = f"nodes{nodes}-ranks1-repeat1"
    attempt = study.result(run_id, "alexnet")["attempt"]
    records = study.run_dir("alexnet", run_id) / "records" / attempt
    steps = [*step_files.all_steps(records / "rank-0.steps")]
    assert len(steps) == 20 + 10
    for step in steps:
        assert set(step.phases) == {"forward", "backward", "communication", "update"}
        assert all(seconds >= 0 for seconds in step.phases.values())


def test_a_killed_rank_or_node_ends_the_run_with_the_cause(
    workspace: ClusterWorkspace, torch_digest: str, moments: int
) -> None:
    """At random moments, of the first steps to a second later."""
    shutil.copy(PROGRAMS / "ddp.py", workspace.path / "containers/workloads/ddp.py")
    endless = experiment("ddp.py --epochs 1000000", scale={"nodes": [2], "repeats": moments})
    workspace.configure({"ddp": endless})
    driver = workspace.drive("--keep-going")
    killed: dict[str, tuple[int, int | None]] = {}
    chance = random.Random(moments)
    while len(killed) < moments:
        workspace.wait_for(
            lambda: bool(running(workspace, killed)) or driver.poll() is not None,
            "a run trains",
            300,
        )
        run_dir = running(workspace, killed)[0]
        time.sleep(chance.random())
        killed[run_dir.name] = kill(workspace, run_dir, chance)
    output = workspace.end(driver)
    assert driver.returncode == 1, output
    found = {
        one["run_id"]: (one["node"], one["rank"], one["cause"]) for one in workspace.failures()
    }
    assert {name: (node, rank) for name, (node, rank, _) in found.items()} == killed, found
    for node, rank, cause in found.values():
        of_agent = f"the agent of node {node} was killed"
        assert cause.startswith(of_agent if rank is None else "killed by signal 9 (SIGKILL)")


def running(workspace: ClusterWorkspace, known: Collection[str]) -> list[Path]:
    """The folders of runs that train, but for those known."""
    logs = (workspace.path / "results/testbed/ddp").glob("*/logs/*/ranks/rank-0.log")
    return [
        path.parents[3]
        for path in logs
        if path.parents[3].name not in known and "epoch 2" in path.read_text()
    ]


def kill(
    workspace: ClusterWorkspace, run_dir: Path, chance: random.Random
) -> tuple[int, int | None]:
    """Kill a rank of a run, or the agent of a node with it: the node, and the rank if it was alone."""
    [attempt] = [path.name for path in (run_dir / "logs").iterdir() if path.is_dir()]
    place = chance.randrange(2)
    status = json.loads((run_dir / f"records/{attempt}/node-{place}.json").read_text())
    node = next(one for one in workspace.slurm.nodes if one.name == status["host"])
    mine = [one for one in node.processes() if of_attempt(one.pid, attempt)]
    ranks, agents = (
        [one for one in mine if program in one.command]
        for program in ("/workloads/ddp.py", "/argosy/agent")
    )
    if chance.random() < 0.5:
        ranks[0].kill()
        return place, place
    # Not what started them: a node's srun that dies ends the job as a cancelled one.
    for one in (*agents, *ranks):
        one.kill()
    return place, None


def of_attempt(pid: int, attempt: str) -> bool:
    with suppress(OSError):
        return f"ARGOSY_ATTEMPT={attempt}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    return False
