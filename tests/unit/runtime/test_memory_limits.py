"""The cause of a kill: the job's memory limit, or the node's memory."""

from pathlib import Path

import pytest

from argosy.runtime.agent.processes.memory_limits import (
    NODE,
    UNKNOWN,
    MemoryKills,
    kills_in_job,
    memory_kills,
    why_killed,
)

GIB = 1 << 30


class Machine:
    """Files of the kernel, as on real nodes."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.sys = folder / "proc", folder / "sys"
        self.write(self.proc / "vmstat", "nr_free_pages 5\noom_kill 3\n")

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def version_2(self, limit: int | str, met: int, killed: int) -> None:
        self.write(self.proc / "self/cgroup", "0::/slurm/job_7/step_0/user/task_0\n")
        job = self.sys / "fs/cgroup/slurm/job_7"
        self.write(job / "memory.max", f"{limit}\n")
        events = f"low 0\nhigh 0\nmax {9 * met}\noom {met}\noom_kill {killed}\noom_group_kill 0\n"
        self.write(job / "memory.events", events)
        task = job / "step_0/user/task_0"
        self.write(task / "memory.max", "max\n")
        self.write(task / "memory.events", events)

    def version_1(self, limit: int, met: int, killed: int) -> None:
        line = "4:cpuset:/slurm/job_7\n3:memory:/slurm/job_7/step_0\n0::/\n"
        self.write(self.proc / "self/cgroup", line)
        job = self.sys / "fs/cgroup/memory/slurm/job_7"
        # Version 1 counts only in the process's own group.
        for folder, size, kills in ((job, limit, 0), (job / "step_0", 1 << 62, killed)):
            self.write(folder / "memory.limit_in_bytes", f"{size}\n")
            self.write(folder / "memory.failcnt", f"{met}\n")
            text = f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"
            self.write(folder / "memory.oom_control", text)

    def node_kills(self, count: int) -> None:
        self.write(self.proc / "vmstat", f"oom_kill {count}\n")

    def look(self) -> MemoryKills:
        return memory_kills(str(self.proc), str(self.sys))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


LIMIT = (
    "the job's memory limit on this node, 2.5 GiB, was reached; raise `resources.memory_per_rank`"
)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("met", "killed", "why"), [(4, 1, LIMIT), (1, 1, NODE), (4, 0, ""), (1, 0, "")]
)
def test_a_job_with_a_limit(
    machine: Machine, version: int, met: int, killed: int, why: str
) -> None:
    count = machine.version_2 if version == 2 else machine.version_1
    limit = 5 * GIB // 2
    count(limit, 1, 0)
    before = machine.look()
    count(limit, met, killed)
    # Another job's kill counts for the node as well.
    machine.node_kills(9)
    assert why_killed(before, machine.look()) == why


def test_a_job_without_a_limit(machine: Machine) -> None:
    machine.version_2("max", 0, 0)
    before = machine.look()
    machine.version_2("max", 0, 1)
    assert why_killed(before, machine.look()) == NODE


def test_where_no_group_can_be_seen_both_are_named(machine: Machine) -> None:
    before = machine.look()
    assert why_killed(before, machine.look()) == ""
    machine.node_kills(4)
    assert why_killed(before, machine.look()) == UNKNOWN
    assert "resources.memory_per_rank" in UNKNOWN


@pytest.mark.parametrize("version", [1, 2])
def test_kills_of_the_job_are_counted(machine: Machine, version: int) -> None:
    count = machine.version_2 if version == 2 else machine.version_1
    count(GIB, 1, 2)
    before = machine.look()
    assert kills_in_job(before, machine.look()) == 0
    count(GIB, 2, 5)
    machine.node_kills(20)
    assert kills_in_job(before, machine.look()) == 3


def test_kills_of_others_are_not(machine: Machine) -> None:
    """Of the node, of a group without a limit, and of a user's sessions on a login node."""
    before = machine.look()
    machine.node_kills(20)
    assert kills_in_job(before, machine.look()) == 0
    machine.version_2("max", 0, 0)
    before = machine.look()
    machine.version_2("max", 0, 5)
    assert kills_in_job(before, machine.look()) == 0
    found = []
    for killed in (0, 5):
        machine.version_2(GIB, 1, killed)
        machine.write(machine.proc / "self/cgroup", "0::/user.slice/user-7.slice/session-3.scope\n")
        of_user = machine.sys / "fs/cgroup/user.slice/user-7.slice"
        machine.write(of_user / "memory.max", f"{GIB}\n")
        machine.write(of_user / "memory.events", f"oom 1\noom_kill {killed}\n")
        found.append(machine.look())
    assert kills_in_job(*found) == 0


def test_this_machine_can_be_read() -> None:
    assert why_killed(memory_kills(), memory_kills()) == ""
