"""A native program has the same variables as in a container: its ranks', and no launcher's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import argosy

PROGRAM = Path(argosy.__file__).parent / "runtime" / "native-node.sh"
OF_LAUNCHERS = (
    *("SLURM_NTASKS", "SLURM_PROCID", "SLURM_JOB_ID", "SLURM_NODEID", "SLURMD_NODENAME"),
    *("SBATCH_PARTITION", "SRUN_DEBUG", "SALLOC_QOS"),
    *(
        "PMI_RANK",
        "PMI2_FD",
        "PMIX_RANK",
        "PMI_CRAY",
        "OMPI_COMM_WORLD_RANK",
        "PRTE_X",
        "MPI_LOCALRANKID",
    ),
    *(
        "MV2_COMM_WORLD_RANK",
        "HYDI_CONTROL_FD",
        "PALS_RANKID",
        "FLUX_TASK_RANK",
        "PBS_NODEFILE",
        "LSB_JOBID",
    ),
    *("HOROVOD_RANK", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "MASTER_ADDR", "NODE_RANK"),
)
OF_THE_USER = {
    "LD_LIBRARY_PATH": "/opt/lib",
    "LOADEDMODULES": "cuda/12",
    "OMP_PLACES": "cores",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "MASTER_THESIS": "draft",
    "GROUP_NAME": "wx",
    "TMPDIR": "/tmp",
}


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a node's program."""
    (folder / "logs").mkdir()
    done = subprocess.run(
        ["bash", PROGRAM, folder / "logs", sys.executable, "env", "--null"],
        env={"PATH": os.environ["PATH"], "ARGOSY_NODE": "0", **variables},
        cwd=folder / "logs",
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    pairs = (each.partition("=") for each in done.stdout.split("\0") if each)
    return {name: value for name, _, value in pairs}


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("/added:/own/bin:/bin:/added", "/own/bin:/bin:/added"),
        ("/module/bin:/added:/bin", "/module/bin:/bin"),
        ("/bin", "/bin"),
    ],
)
def test_programs_have_the_users_path_and_not_the_drivers(
    tmp_path: Path, path: str, left: str
) -> None:
    assert environment(tmp_path, PATH=path, ARGOSY_COMMANDS="/added")["PATH"] == left


def test_nothing_of_a_scheduler_or_launcher_is_left_and_all_of_the_user(tmp_path: Path) -> None:
    found = environment(tmp_path, **dict.fromkeys(OF_LAUNCHERS, "7"), **OF_THE_USER)
    assert not found.keys() & set(OF_LAUNCHERS)
    assert found.items() >= OF_THE_USER.items()


@pytest.mark.parametrize("there", [True, False])
def test_programs_start_in_the_project(tmp_path: Path, there: bool) -> None:
    """Clusters start the job in the run's folder, the site `local` in the project."""
    project = tmp_path / "my project"
    project.mkdir()
    if there:
        (project / "containers/workloads").mkdir(parents=True)
    found = environment(tmp_path, ARGOSY_WORKLOADS=f"{project}/containers/workloads")
    assert found["PWD"] == str(project)
