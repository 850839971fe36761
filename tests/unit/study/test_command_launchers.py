"""Launchers in a command, with the wrappers found in batch scripts."""

import shlex

import pytest

from argosy.study.command_launchers import refuse_launchers


def refused(command: str, *, ranks: int = 2, variables: tuple[str, ...] = ()) -> str:
    """Return the error for a command; "" if it is accepted."""
    try:
        refuse_launchers(shlex.split(command), variables, ranks, "torch")
    except ValueError as problem:
        return str(problem)
    return ""


@pytest.mark.parametrize(
    "command",
    [
        "srun python3 x.py",
        "/usr/bin/srun --mpi=pmix python3 x.py",
        "env X=1 srun python3 x.py",
        "env -u HOME -i X=1 srun python3 x.py",
        "time srun python3 x.py",
        "timeout -s USR1 --kill-after 5 60 srun python3 x.py",
        "nice -n 5 nohup stdbuf -oL numactl --cpunodebind 0 srun python3 x.py",
        "taskset -c 0-3 srun python3 x.py",
        "bash -c 'srun python3 x.py'",
        "/bin/bash -euo pipefail -c 'srun python3 x.py'",
        "bash -lc 'module load x && cd y; X=1 exec srun python3 x.py'",
        "sh -c 'cd x\nsrun python3 x.py 2>&1 | tee log'",
        "bash -c '(srun python3 x.py) >log 2>&1'",
        "bash -c 'if true; then srun python3 x.py; fi'",
        "bash -c 'eval srun python3 x.py'",
        "bash -c 'wait & srun python3 x.py'",
        "env X=1 bash -c \"bash -c 'srun python3 x.py'\"",
        "bash -c 'for i in 1 2; do srun python3 x.py $i; done'",
        "bash -c 'echo $(srun hostname)'",
        f"{'eval ' * 1500}srun python3 x.py",
    ],
)
def test_a_launcher_of_ranks_is_refused(command: str) -> None:
    said = refused(command, ranks=1)
    assert said.startswith("command: srun: the command is started on every node already")
    assert "remove srun and its options" in said


@pytest.mark.parametrize("name", ["mpirun", "mpiexec", "horovodrun", "ibrun", "aprun", "orterun"])
def test_each_launcher_of_ranks_is_known(name: str) -> None:
    assert f"remove {name} and its options" in refused(f"{name} -np 4 python3 x.py")


@pytest.mark.parametrize("name", ["sbatch", "salloc"])
def test_a_job_within_the_job_is_refused(name: str) -> None:
    assert f"command: {name}: the command runs in a job that Argosy submits" in refused(
        f"{name} x.sh"
    )


@pytest.mark.parametrize(
    "command",
    [
        "python3 /workloads/srun.py",
        "python3 x.py srun",
        "timeout 60 python3 srun",
        "bash -c 'echo srun; python3 x.py --launcher srun'",
        "bash -c 'command -v python3 && python3 x.py'",
        "bash -c 'echo \"; srun x\"'",
        "bash -c 'mpirun --version; python3 x.py'",
        "bash /workloads/run.sh",
        "bash -c 'which mpirun'",
        "bash -c 'echo it'\"'\"'s'",
        "env",
        "env X=1",
        "bash",
        "timeout",
    ],
)
def test_other_commands_are_taken(command: str) -> None:
    assert refused(command) == ""


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc-per-node 2 x.py",
        "torchrun --nnodes 2 --master-addr $MASTER_ADDR x.py",
        "python3 -m torch.distributed.run x.py",
        "python -u -m torch.distributed.launch --nproc_per_node=2 x.py",
        "accelerate launch x.py",
        "deepspeed x.py",
        "bash -c 'cd x; torchrun --standalone x.py --lr $LR'",
    ],
)
def test_workers_that_would_not_find_those_of_other_ranks_are_refused(command: str) -> None:
    said = refused(command)
    assert "without the addresses of the others" in said
    assert "launcher: torch" in said
    assert refused(command, ranks=1) == ""


@pytest.mark.parametrize(
    "command",
    [
        "bash -c 'torchrun --nnodes $WORLD_SIZE --master-addr $MASTER_ADDR x.py'",
        "bash -c 'exec torchrun --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT x.py'",
        "torchrun --nnodes=2 --rdzv_endpoint=10.0.0.1:29500 x.py",
        "bash -c 'accelerate launch --main_process_ip $MASTER_ADDR x.py'",
        "env PET_NNODES=2 torchrun x.py",
    ],
)
def test_torchrun_inside_works_and_stays(command: str) -> None:
    assert refused(command) == ""


def test_torchrun_may_be_told_by_variables() -> None:
    assert refused("torchrun x.py", variables=("PET_RDZV_ENDPOINT",)) == ""
