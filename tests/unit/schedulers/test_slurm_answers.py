"""Slurm's answers: read alike whatever is printed around them; reasons for waiting; shortages."""

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
from argosy.schedulers.slurm.partitions import (
    NODE_FIELDS,
    partition_of,
    read_partitions,
)
from argosy.schedulers.slurm.queue import FIELDS, explain
from argosy.schedulers.slurm.refusals import Shortage, Wait, find_shortage
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


WAITS = [
    "Resources", "Priority", "QOSMaxJobsPerUserLimit", "QOSMaxCpuPerUserLimit", "AssocGrpCpuLimit",
    "AssocMaxJobsLimit", "QOSGrpNodeLimit", "AssocGrpCPURunMinutesLimit", "BeginTime", "Dependency",
    "ReqNodeNotAvail", "ReqNodeNotAvail, UnavailableNodes:n[1-9]", "ReqNodeNotAvail,_May_be_reserved",
]  # fmt: skip
STUCK = [
    "PartitionNodeLimit", "PartitionTimeLimit", "JobHeldUser", "JobHeldAdmin", "BadConstraints",
    "DependencyNeverSatisfied", "launch failed requeued held", "launch_failed_requeued_held",
    "job requeued in held state", "QOSMaxWallDurationPerJobLimit", "QOSMaxNodePerJobLimit",
    "AssocMaxCpuPerJobLimit", "AssocGrpCPUMinutesLimit", "AssocGrpBillingMinutes", "InvalidAccount",
]  # fmt: skip


@pytest.mark.parametrize("said", WAITS)
def test_these_resolve_by_themselves(said: str) -> None:
    assert explain(said).meaning
    assert not explain(said).stuck


@pytest.mark.parametrize("said", STUCK)
def test_these_need_somebody(said: str) -> None:
    assert explain(said).meaning
    assert explain(said).stuck


def test_of_an_unknown_word_nothing_is_said() -> None:
    assert explain("NewInSlurm30") == explain("")
    assert explain("").meaning == ""


def test_every_word_of_an_account_s_or_a_qos_s_limit_has_a_meaning() -> None:
    """The names are those of job_reason_string in Slurm 22.05."""
    limits = [
        f"{owner}{limit}"
        for owner in ("QOS", "Assoc")
        for limit in (
            *(f"Grp{what}{how}" for what in TRES for how in ("", "Limit", "Minutes", "RunMinutes")),
            *(f"Max{what}{how}" for what in TRES for how in ("PerJob", "PerNode", "PerUser")),
            *("GrpJobsLimit", "GrpWallLimit", "MaxJobsLimit", "MaxJobsPerUserLimit", "GrpMemLimit"),
        )
    ]
    assert not [word for word in limits if not explain(word).meaning]


TRES = ("Cpu", "Node", "Mem", "Memory", "GRES", "BB", "Billing", "Energy", "License", "Unknown")
OF_USER = [
    *(f"QOSMax{what}PerUser" for what in TRES),
    *(
        "QOSMaxNodePerUserLimit",
        "QOSMaxCpuPerUserLimit",
        "QOSMaxJobsPerUserLimit",
        "AssocMaxJobsLimit",
    ),
]


@pytest.mark.parametrize("said", OF_USER)
def test_a_user_s_limit_is_never_met_by_a_job_alone(said: str) -> None:
    assert not explain(said).stuck and explain(said).meaning.startswith("your other jobs")
    assert explain(said, alone=True).stuck
    assert "exceeds your limit of the" in explain(said, alone=True).meaning


@pytest.mark.parametrize("said", ["QOSGrpNodeLimit", "AssocGrpCpuLimit", "MaxNodePerAccount"])
def test_a_limit_of_others_too_blames_nobody(said: str) -> None:
    assert explain(said, alone=True) == explain(said)
    assert "have reached their limit" in explain(said).meaning


NODES = (
    ("cpu", "cpu*", "c1", "128", "256000", "(null)", "amd,fast", "idle", "none"),
    ("cpu", "cpu*", "c2", "128", "256000", "(null)", "amd,fast", "mix", "none"),
    ("cpu", "cpu*", "c3", "128", "512000", "(null)", "amd", "drng", "new cables | and more"),
    ("gpu", "gpu", "g1", "64", "500000", "gpu:a100:4(S:0-1),tmpfs:1T", "intel", "alloc", "none"),
    (
        "gpu",
        "gpu",
        "g2",
        "64",
        "500000",
        "gpu:a100:4(S:0-1),tmpfs:1T",
        "intel",
        "idle*",
        "Not responding",
    ),
    ("debug", "debug", "c1", "128", "256000", "(null)", "amd,fast", "idle~", "none"),
)
SINFO = table(NODE_FIELDS, NODES) + "Some line that is none\n"


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        ({"nodes": "4"}, ("nodes",), "it requests 4 nodes, there are 3 nodes of partition cpu"),
        ({"nodes": "2", "mem": "300G"}, ("mem",), "1 of 3 have it (the largest has 512000M)"),
        ({"nodes": "1", "cpus-per-task": "129"}, ("cpus-per-task",), "the largest has 128 CPUs"),
        ({"nodes": "3", "constraint": "amd&fast"}, ("constraint",), "2 of 3 have it"),
        ({"nodes": "1", "gpus-per-node": "1"}, ("gpus-per-node",), "they have none"),
        ({"partition": "gpu", "gres": "gpu:8"}, ("gres",), "gpu:a100:4"),
        ({"partition": "gpu", "gres": "gpu:v100:1"}, ("gres",), "0 of 2 have it"),
        ({"partition": "gpu", "gres": "gpu:4,tmpfs:2T"}, ("gres",), "0 of 2 have it"),
        ({"mem": "400G", "constraint": "fast"}, ("mem", "constraint"), "0 of 3 nodes"),
    ],
)
def test_one_option_is_to_blame(
    values: dict[str, str], options: tuple[str, ...], words: str
) -> None:
    found = find_shortage({"nodes": "1", **values}, partitions.read_nodes(SINFO))
    assert isinstance(found, Shortage)
    assert found.options == options
    assert words in found.words


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"nodes": "3"},
            "of 3 nodes of partition cpu that suit, 1 accept no jobs now (c3; drng: new",
        ),
        ({"nodes": "1", "mem": "300G"}, "of 1 nodes of partition cpu that suit, 1 accept"),
        ({"nodes": "2", "partition": "gpu", "gres": "gpu:a100:4,tmpfs:100G"}, "(g2; idle*: Not"),
    ],
)
def test_a_job_waits_for_nodes_that_are_away(values: dict[str, str], words: str) -> None:
    found = find_shortage(values, partitions.read_nodes(SINFO))
    assert isinstance(found, Wait)
    assert words in found.words


@pytest.mark.parametrize(
    "values",
    [
        {"nodes": "2", "mem": "0"},
        {"nodes": "1", "partition": "debug"},
        {"nodes": "2", "partition": "nowhere"},
        {"nodes": "1", "constraint": "fast|slow"},
        {"nodes": "1", "partition": "gpu", "gpus": "99"},
    ],
)
def test_nothing_is_said_of_what_cannot_be_told(values: dict[str, str]) -> None:
    assert find_shortage(values, partitions.read_nodes(SINFO)) is None


def test_hidden_gres_blame_nobody() -> None:
    hidden = SINFO.replace("gpu:a100:4(S:0-1),tmpfs:1T", "N/A")
    assert (
        find_shortage({"partition": "gpu", "gres": "gpu:1"}, partitions.read_nodes(hidden)) is None
    )


def test_the_partition_of_a_script() -> None:
    known = read_partitions(
        "PartitionName=cpu Default=YES MaxNodes=16 MaxTime=2-00:00:00 State=UP\n"
        "PartitionName=gpu Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED State=DOWN\n"
    )
    default, named = partition_of({}, known), partition_of({"partition": "gpu"}, known)
    assert default is not None
    assert named is not None
    assert (default.name, default.minutes, default.nodes) == ("cpu", 2880, 16)
    assert (named.state, named.minutes, named.nodes) == ("DOWN", float("inf"), float("inf"))
    assert partition_of({"partition": "cpu,gpu"}, known) is None
