"""The agents' PMI server, with ranks that send MPICH's messages."""

from pathlib import Path
from typing import Any

import pytest
from agent_job import Job

# The messages of MPICH 5.0.2, in their order.
CLIENT = """
import os, socket, subprocess, sys, time
import argosy_steps

def connect():
    host, _, port = os.environ["PMI_PORT"].partition(":")
    return socket.create_connection((host, int(port)), 10).makefile("rw")

def ask(text, answers=1):
    pmi.write(text + "\\n")
    pmi.flush()
    said = "".join(pmi.readline() for _ in range(answers))
    print(f"{text} -> {said!r}", flush=True)
    return said

def meet():
    ask(f"cmd=initack pmiid={rank}", 4)
    assert "pmi_subversion=1 rc=0" in ask("cmd=init pmi_version=1 pmi_subversion=1")
    kvs = ask("cmd=get_my_kvsname").split("kvsname=")[1].split()[0]
    ask("cmd=get_maxes")
    assert "value=(vector,(0,2,2))" in ask(f"cmd=get kvsname={kvs} key=PMI_process_mapping")
    assert "rc=-1" in ask(f"cmd=get kvsname={kvs} key=PMI_hwloc_xmlfile")
    for turn in range(3):
        ask(f"cmd=put kvsname={kvs} key=card-{rank} value=a=b $c of {rank} in {turn}")
        assert ask("cmd=barrier_in") == "cmd=barrier_out rc=0\\n"
        for other in range(4):
            card = ask(f"cmd=get kvsname={kvs} key=card-{other}")
            assert card.endswith(f"value=a=b $c of {other} in {turn}\\n"), card
        ask("cmd=barrier_in")

def finalize():
    ask("cmd=barrier_in")
    ask("cmd=finalize")

rank = int(os.environ["PMI_ID"])
with argosy_steps.Recorder().step(samples=1):
    pass
pmi = connect()
meet()
"""
VARIABLES = {"PMI_PORT": "{pmi}", "PMI_ID": "{rank}"}


def start(job: Any, program: str, **variables: str) -> Job:
    made: Job = job(program, ranks_per_node=2, rank_environment={**VARIABLES, **variables})
    return made.start()


def test_ranks_of_two_nodes_see_each_others_values_after_a_barrier(job: Any) -> None:
    again = "finalize()\npmi.close()\npmi = connect()\nmeet()\nfinalize()"
    done = start(job, CLIENT + again)
    assert done.wait() == [0, 0], done.outputs()
    assert "size=4" in done.outputs()
    # The ranks met without connections to each other.
    assert done.verdict().returncode == 0
    assert '"groups": 1' in (done.attempt_dir / "verdict.json").read_text()


@pytest.mark.parametrize(
    ("program", "cause"),
    [
        (
            "if rank == 3:\n    pmi.write('cmd=abort exitcode=5 message=abort\\n'); pmi.flush()\n"
            "time.sleep(60)",
            "rank 3 (node 1): it called MPI_Abort with exit code 5",
        ),
        (
            "if rank == 3:\n    ask('mcmd=spawn\\nnprocs=1\\nendcmd')\n"
            "    pmi.write('cmd=abort exitcode=9 message=abort\\n'); pmi.flush()\ntime.sleep(60)",
            "rank 3 (node 1): it called MPI_Abort with exit code 9; spawn of MPI is refused",
        ),
        (
            "if rank == 2:\n    sys.exit()\ntime.sleep(60)",
            "rank 2 (node 1): it ended with exit code 0 without MPI_Finalize",
        ),
        (
            "if rank == 2:\n    os.kill(os.getpid(), 9)\nask('cmd=barrier_in')",
            "rank 2 (node 1): killed by signal 9 (SIGKILL)",
        ),
    ],
)
def test_a_rank_that_leaves_the_others_alone_ends_the_job(
    job: Any, program: str, cause: str
) -> None:
    done = start(job, CLIENT + program)
    assert done.wait() == [1, 1], done.outputs()
    assert done.outputs().count(f"stopping: {cause}") == 1
    assert all(each.startswith(cause.partition(": ")[2]) for each in done.failures())


def test_a_rank_that_ends_before_mpi_init_is_told_from_another_mpi(job: Any) -> None:
    early = """
if rank == 3:
    folder = os.path.join(os.environ["ARGOSY_RUN_DIR"], "logs", os.environ["ARGOSY_ATTEMPT"], "ranks")
    while "initack" not in open(os.path.join(folder, "rank-2.log")).read():
        time.sleep(0.1)
    sys.exit()
pmi = connect()
"""
    done = start(job, CLIENT.replace("\npmi = connect()\n", early))
    assert done.wait() == [1, 1], done.outputs()
    cause = "it ended with exit code 0 without MPI_Init, which other ranks called"
    assert {*done.failures()} == {cause}


def test_ranks_of_another_mpi_have_not_measured_anything(job: Any) -> None:
    done = start(job, "import argosy_steps\nprint('rank 0 of 1')")
    assert done.wait() == [1, 1], done.outputs()
    assert all("the image's MPI is not of the MPICH family" in each for each in done.failures())


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            "if not rank:\n    ask('cmd=publish_name service=a port=b')",
            "publish_name of MPI is refused",
        ),
        (
            "if not rank:\n    ask('mcmd=spawn\\nnprocs=1\\ncmd=finalize\\nendcmd')",
            "rank 0: spawn of MPI is refused",
        ),
        (
            "if not rank:\n    first, pmi = pmi, connect()\n    assert ask('cmd=initack pmiid=0') == ''\n"
            "    pmi = first",
            "a program that rank 0 started calls MPI_Init, too",
        ),
        (
            "if not rank:\n    first, pmi = pmi, connect()\n    ask('    38cmd=fullinit;pmirank=0;')\n"
            "    pmi = first",
            "it does not speak PMI-1",
        ),
    ],
)
def test_what_is_not_served_is_a_line_and_the_job_goes_on(
    job: Any, program: str, said: str
) -> None:
    done = start(job, f"{CLIENT}{program}\nfinalize()")
    assert done.wait() == [0, 0], done.outputs()
    assert said in done.output(0)


def test_files_that_killed_ranks_leave_in_shared_memory_are_removed(job: Any) -> None:
    """MPICH 5.0.2 uses these names, as observed with real ranks; files of other jobs stay."""
    leave = """
number = 0x811C9DC5
for byte in os.environ["KVS"].encode():
    number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
for name in (f"mpich_shm_{number:x}_{rank // 2}", f"mpich_vci_{number:x}_{rank // 2}"):
    open("/dev/shm/" + name, "w").close()
print("left", f"mpich_shm_{number:x}_{rank // 2}", flush=True)
if rank == 1:
    os.kill(os.getpid(), 9)
time.sleep(60)
"""
    other = Path("/dev/shm/mpich_shm_argosytest_0")
    other.touch()
    try:
        program = CLIENT.replace('    ask("cmd=get_maxes")\n', '    os.environ["KVS"] = kvs\n')
        done = start(job, program + leave)
        assert done.wait() == [1, 1], done.outputs()
        left = {line.split()[-1] for line in done.outputs().splitlines() if "left mpich" in line}
        assert left and not [name for name in left if Path("/dev/shm", name).exists()]
        assert other.exists()
    finally:
        other.unlink()
