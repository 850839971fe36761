"""What Slurm 20.11 to 25.11 answered to Argosy's questions on one cluster and the same jobs is read alike.

`recorded/record.sh` says how the answers were recorded.
"""

from math import inf
from pathlib import Path

import pytest
from slurm_answers import answering

from argosy.schedulers.base import State
from argosy.schedulers.slurm import partitions
from argosy.schedulers.slurm.answers import read_accounts, read_records
from argosy.schedulers.slurm.commands import Patience
from argosy.schedulers.slurm.queue import STATES, Accounting, list_jobs
from argosy.schedulers.slurm.survey_answers import kinds_by_partition, queue_of, read_nodes

RECORDED = Path(__file__).parent / "recorded"
VERSIONS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())


@pytest.fixture(params=VERSIONS)
def answers(request: pytest.FixtureRequest) -> Path:
    folder: Path = RECORDED / request.param
    return folder


def answered(answers: Path, program: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the program print what was recorded, whatever it is asked."""
    answering(folder, program, (answers / f"{program}.txt").read_text())
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_jobs(answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(answers, "squeue", tmp_path, monkeypatch)
    jobs = {job.name: job for job in list_jobs(Patience())}
    held = "job requeued in held state"
    assert {name: (job.job_id, job.state, job.reason) for name, job in jobs.items()} == {
        "completed": ("101", State.COMPLETED, ""),
        "failed": ("102", State.FAILED, "NonZeroExitCode"),
        "cancelled": ("103", State.CANCELLED, ""),
        "running": ("104", State.RUNNING, ""),
        "two words": ("105", State.PENDING, "BeginTime"),
        "requeued": ("106", State.REQUEUED, held),
        "dependent": ("107", State.PENDING, "DependencyNeverSatisfied"),
        "many": ("108", State.PENDING, "Resources"),
    }
    running = jobs["running"]
    assert running.work_dir == Path("/home/user/project/a | b")
    assert running.nodes == "node1"
    assert running.used_s and running.left_s
    assert running.used_s + running.left_s == 1800
    assert running.start
    assert [jobs["requeued"].restarts, jobs["requeued"].start, jobs["many"].nodes] == [1, None, ""]


def test_accounts_of_jobs(answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(answers, "sacct", tmp_path, monkeypatch)
    assert Accounting().states(["101"]) == {
        "101": State.COMPLETED,
        "102": State.FAILED,
        "103": State.CANCELLED,
        "104": State.RUNNING,
        "105": State.PENDING,
        "106": State.PENDING,
    }


def test_accounts_and_limits(answers: Path) -> None:
    assert [
        read_accounts((answers / f"{name}.txt").read_text(), header)
        for name, header in (("assoc", "User"), ("user", "User"), ("qos", "Name"))
    ] == [
        [["user", "grant"], ["user", "project"]],
        [["user", "project"], ["user", "project"]],
        [["normal", ""], ["long", ""]],
    ]


def test_partitions_and_nodes(answers: Path) -> None:
    found = partitions.read_partitions((answers / "partition.txt").read_text())
    assert [(each.name, each.minutes, each.nodes, each.state) for each in found] == [
        ("main", 1440, inf, "UP"),
        ("short", 10, 2, "UP"),
        ("low", 1440, inf, "UP"),
        ("high", 1440, inf, "UP"),
    ]
    assert [each.is_default for each in found] == [True, False, False, False]
    members = partitions.read_nodes((answers / "nodes.txt").read_text())
    assert len(members) == 16
    assert not any(member.away for member in members)
    whole, sliced = {"gpu": 4, "gpu:a100": 4}, {"gpu": 2, "gpu:a100_3g.20gb": 2}
    assert {member.name: member.gres for member in members if member.in_default} == {
        "node1": whole,
        "node2": whole,
        "node3": sliced,
        "node4": sliced,
    }


def test_kinds_of_nodes_and_queues(answers: Path) -> None:
    def read(folder: Path) -> tuple[object, object]:
        kinds = kinds_by_partition(read_nodes((folder / "node.txt").read_text()))
        records = read_records((folder / "partition.txt").read_text(), "PartitionName")
        return kinds, [
            queue_of(record, kinds[record["PartitionName"]], 10, {}) for record in records
        ]

    assert read(answers) == read(RECORDED / VERSIONS[0])


def test_states_of_jobs_that_go_back_to_the_queue() -> None:
    """As `job_state_string` names them in the sources of 20.02 to 26.05; another counts as running."""
    waiting = {"REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "EXPEDITING"}
    assert {name for name, state in STATES.items() if state is State.REQUEUED} == waiting
