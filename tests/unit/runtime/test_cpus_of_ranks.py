"""CPUs of ranks, with real agents, and on machines described by files of the kernel."""

import os
from pathlib import Path

import pytest
from agent_job import RECORD_A_STEP

from argosy.runtime.agent.processes.launch import StartError
from argosy.runtime.agent.processes.placement import Place, domains_of, placed

PROGRAM = f"""{RECORD_A_STEP}
import os, threading
found = []
thread = threading.Thread(target=lambda: found.append(os.sched_getaffinity(0)))
thread.start()
thread.join()
assert found == [os.sched_getaffinity(0)]
print("cpus", *sorted(*found), "threads", os.environ["OMP_NUM_THREADS"], flush=True)
"""


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_of_a_machine_have_cores_of_their_own(job, nodes, ranks):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < nodes * ranks:
        run = job(PROGRAM, nodes=nodes, ranks_per_node=ranks, bind="core", cpus_per_rank=8).start()
        assert run.wait() == [1] * nodes
        cause = f"has {len(cpus)} of the {nodes * ranks} cores that its ranks need: lower"
        assert all(cause in each for each in run.failures())
        assert "] cpus" not in run.outputs()
        return
    run = job(PROGRAM, nodes=nodes, ranks_per_node=ranks, bind="core", cpus_per_rank=1).start()
    assert run.wait() == [0] * nodes
    given = [rank["cpus"] for node in range(nodes) for rank in run.status(node)["ranks"]]
    assert len({*given}) == nodes * ranks
    for rank, text in enumerate(given):
        assert f"[{rank}] cpus {text.replace('-', ' ')} threads 1" in run.outputs()
        assert text in run.output(rank // ranks).split("bound to CPUs ")[1].splitlines()[0]


def test_an_allocation_and_a_variable_of_the_user_are_respected(job):
    last = max(os.sched_getaffinity(0))
    variables = {"OMP_NUM_THREADS": "5"}
    run = job(PROGRAM, nodes=1, bind="numa", cpus_per_rank=4, rank_environment=variables)
    run.wrapper = ["taskset", "-c", str(last)]
    assert run.start().wait() == [0]
    assert f"[0] cpus {last} threads 5" in run.outputs()


def test_ranks_are_not_bound_unless_asked(job):
    run = job(PROGRAM, nodes=1, rank_environment={"OMP_NUM_THREADS": "1"}).start()
    assert run.wait() == [0], run.outputs()
    assert run.status(0)["ranks"][0]["cpus"] is None
    assert "bound to" not in run.outputs()


def machine(sys: Path, *domains: str, threads: int = 1, apart: int = 0) -> Path:
    """Write the kernel's files of a machine; the threads of a core are `apart` CPUs apart."""
    for number, text in enumerate(domains):
        node = sys / f"devices/system/node/node{number}"
        node.mkdir(parents=True)
        (node / "cpulist").write_text(f"{text}\n")
    for cpu in range(apart * threads):
        topology = sys / f"devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        siblings = ",".join(str(cpu % apart + apart * thread) for thread in range(threads))
        (topology / "thread_siblings_list").write_text(f"{siblings}\n")
    return sys


def texts(domains, ranks, bind, most, homes=()):
    places = placed(domains, [*homes, *[-1] * ranks][:ranks], bind, most)
    return [place.text for place in places]


def test_cores_are_whole_and_of_one_domain(tmp_path):
    sys = str(machine(tmp_path, "0-3,8-11", "4-7,12-15", threads=2, apart=8))
    both = domains_of(range(16), sys)
    assert texts(both, 2, "core", 2) == ["0-1+8-9", "4-5+12-13"]
    assert texts(both, 4, "core", 9) == ["0-1+8-9", "2-3+10-11", "4-5+12-13", "6-7+14-15"]
    assert texts(both, 3, "numa", 1) == ["0-3+8-11", "0-3+8-11", "4-7+12-15"]
    assert texts(both, 2, "core", 3) == ["0-2+8-10", "4-6+12-14"]
    assert texts(both, 1, "core", 8) == ["0-15"]
    assert placed(both, [-1] * 2, "core", 3)[0].cores == 3
    # Ranks are near their GPUs while cores are free there.
    assert texts(both, 3, "core", 2, [1, 1, 1]) == ["4-5+12-13", "6-7+14-15", "0-1+8-9"]
    assert texts(both, 2, "numa", 2, [1, 0]) == ["4-7+12-15", "0-3+8-11"]
    # The scheduler granted one thread of some cores, mostly in the second domain.
    some = domains_of([3, 4, 5, 6], sys)
    assert texts(some, 2, "core", 2) == ["4-5", "3+6"]
    assert texts(some, 4, "core", 1) == ["3", "4", "5", "6"]
    with pytest.raises(StartError, match="has 4 of the 5 cores that its ranks need: lower"):
        placed(some, [-1] * 5, "core", 1)


def test_a_kernel_that_tells_nothing_has_a_core_for_each_cpu(tmp_path):
    assert domains_of([5, 3], str(tmp_path)) == {0: [[3], [5]]}
    assert Place((0, 1, 2, 5, 7, 8), 6).text == "0-2+5+7-8"
