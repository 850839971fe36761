"""Each answer of Slurm's commands is read alike, whatever is printed around and between its lines."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_answers import queue, table

from argosy.schedulers.slurm import partitions
from argosy.schedulers.slurm.answers import (
    UnreadableError,
    read_accounts,
    read_config,
    read_records,
    read_start,
    read_submitted,
    read_table,
)
from argosy.schedulers.slurm.commands import one_line
from argosy.schedulers.slurm.queue import FIELDS
from argosy.schedulers.slurm.survey_answers import read_nodes

RECORDED = Path(__file__).parent / "recorded/22.05.8"
CHATTER = (
    "", " ", "Welcome to the cluster", "[INFO] 03:04:05 loading slurm/22.05", "\x1b[32mok\x1b[0m",
    "-" * 78, "| disk | 80 % | of | 1 TB |", "+---+---+", "a|b|c|d|e|f|g|h|i|j|k", "||||||||||||",
    "PartitionName=main is full today", "NodeName=n1", "JobId=1", "ClusterName = elsewhere",
    "sbatch: Welcome", "User|Account|", "101|COMPLETED", "key = value = other", "ünïcödé \u2028 line",
    "*** JOB 7 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***", "\r", "\x0b\x0c",
    "Job 12 is yours", "Submitted batch job requests: 3", "your job id is 4711", "12;", "-5", "0", "1.5",
)  # fmt: skip
JOB = ("101", "RUNNING", "None", "0", "n1", "a | b", "0:13", "29:47", "1795836145", "/p/a | b|c")
CONFIG = "Configuration data as of 1795836145\nClusterName             = bed\nMaxJobs = 5\n"


def accounts(text: str) -> object:
    return [row for row in read_accounts(text, "User") if row[0] == "user"]


ANSWERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "squeue": (queue(JOB, JOB), lambda text: read_table(text, len(FIELDS))),
    "sinfo": ((RECORDED / "nodes.txt").read_text(), partitions.read_nodes),
    "sacct": ((RECORDED / "sacct.txt").read_text(), lambda text: read_table(text, 2)),
    "sacctmgr": ((RECORDED / "assoc.txt").read_text(), accounts),
    "partitions": ((RECORDED / "partition.txt").read_text(), partitions.read_partitions),
    "nodes": ((RECORDED / "node.txt").read_text(), read_nodes),
    "config": (CONFIG, lambda text: read_config(text)["ClusterName"]),
    "sbatch": ("101\n", read_submitted),
    "sbatch in words": ("Submitted batch job 101\n", read_submitted),
    "sbatch of a cluster": ("101;bed\n", read_submitted),
    "sbatch of a cluster in words": ("Submitted batch job 101 on cluster bed\n", read_submitted),
    "sbatch --test-only": (
        "sbatch: Job 3 to start at 1795836145 using 8 processors on nodes n[1-2] in partition high\n",
        read_start,
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_chatter_before_between_and_after(name: str) -> None:
    answer, read = ANSWERS[name]
    expected = read(answer)
    assert expected
    draw = random.Random(name)
    for _ in range(300):
        lines = answer.splitlines()
        for _ in range(draw.randrange(1, 12)):
            lines.insert(draw.randint(0, len(lines)), draw.choice(CHATTER))
        ends = draw.choice(["\n", "\r\n"])
        assert read(ends.join(lines) + ends) == expected, lines


@pytest.mark.parametrize(
    ("nodes", "count"),
    [
        *(("n1", 1), ("n1,m2", 2), ("n[1-2]", 2), ("n[1,3]", 2), ("n[08-12,20]-ib,login1", 7)),
        *(("rack[1-2]n[1-4]", 0), ("(null)", 0), ("n[1-2]x3", 2), ("a[1-3],b[7],c.site.org", 5)),
    ],
)
def test_nodes_that_the_test_names_are_counted(nodes: str, count: int) -> None:
    said = f"sbatch: Job 3 to start at 1795836145 using 8 processors on nodes {nodes} in partition high\n"
    assert read_start(said) == (count, "high")


@pytest.mark.parametrize("name", ["squeue", "sinfo", "sacct", "partitions", "nodes"])
def test_a_greeting_without_a_line_break(name: str) -> None:
    answer, read = ANSWERS[name]
    assert read(f"Welcome 7: {answer}") == read(answer)


@pytest.mark.parametrize("name", ["squeue", "sinfo", "sacct", "sacctmgr", "partitions", "config"])
@pytest.mark.parametrize("said", ["", "Welcome\n", "slurm_load_jobs: you have no jobs\n"])
def test_an_answer_that_is_not_there_is_none(name: str, said: str) -> None:
    with pytest.raises(UnreadableError, match=r"Welcome|nothing|you have no jobs"):
        ANSWERS[name][1](said)


def test_no_jobs_are_an_answer() -> None:
    assert read_table(queue(), len(FIELDS)) == []
    assert read_table(table(["JOBID", "STATE"], []), 2) == []


@pytest.mark.parametrize(
    "said",
    [
        *(
            "",
            "Welcome",
            "Welcome 101",
            "101 102",
            "job 101",
            "101 is yours",
            "0",
            "-1",
            "1e3",
            "0x65",
        ),
        *("101\n102", "Submitted batch job", "Submitted batch job x", "101;bed;x y", "/home/101"),
    ],
)
def test_what_is_no_number_of_one_job_is_none(said: str) -> None:
    assert read_submitted(said) is None


def test_records_are_told_from_talk_of_them() -> None:
    text = "PartitionName=main is full\nmotd: PartitionName=short State=UP MaxTime=1:00\n"
    assert [each["PartitionName"] for each in read_records(text, "PartitionName")] == ["short"]


@pytest.mark.parametrize(
    ("errors", "printed", "words"),
    [
        ("Welcome\n[INFO] x\nsbatch: error: Invalid qos\n", "out", "Invalid qos"),
        ("sbatch: error: kestrel: name\n  your project\n", "", "kestrel: name; your project"),
        (
            "slurm_load_jobs error: Invalid job id\n",
            "hello",
            "slurm_load_jobs error: Invalid job id",
        ),
        ("motd\nallocation failure: no\n", "", "allocation failure: no"),
        ("", "--> your project has expired\n", "--> your project has expired"),
        ("welcome\n", "no project\n", "welcome; no project"),
        ("", "", "sbatch failed"),
    ],
)
def test_why_a_command_failed(errors: str, printed: str, words: str) -> None:
    assert one_line("sbatch", errors, printed) == words
