"""What Slurm says of nodes and partitions of large sites, in its oldest and newest form, is read alike.

test_recorded_answers.py has what each version answered on a small cluster.
"""

from dataclasses import replace

import pytest

from argosy.schedulers.batch_system import NodeKind
from argosy.schedulers.slurm.answers import read_config, read_records
from argosy.schedulers.slurm.survey_answers import (
    in_order,
    is_for_tests,
    kinds_by_partition,
    queue_of,
    read_nodes,
    read_qos,
    refused_account,
    with_ways_in,
)

NODE = {
    "20.11": (
        "NodeName={name} Arch=x86_64 CoresPerSocket=64  CPUAlloc=0 CPUTot=256 CPULoad=0.01 "
        "AvailableFeatures=milan ActiveFeatures=milan Gres={gres} NodeAddr={name} NodeHostName={name} "
        "Version=20.11.9 OS=Linux 4.18.0-305.el8.x86_64 #1 SMP Thu Apr 29 08:54:30 EDT 2021  "
        "RealMemory=515000 AllocMem=0 FreeMem=500000 Sockets=2 Boards=1 CoreSpecCount=8 "
        "CPUSpecList=0-7,128-135 MemSpecLimit=3000 State={state} ThreadsPerCore=2 TmpDisk=0 Weight=1 "
        "Owner=N/A MCS_label=N/A Partitions={partitions}  BootTime=2026-01-01T00:00:00 "
        "SlurmdStartTime=2026-01-01T00:00:00 CfgTRES=cpu=256,mem=515000M,billing=256,gres/gpu=4 AllocTRES= "
        "CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s "
        "Comment=(null)"
    ),
    "25.05": (
        "NodeName={name} Arch=x86_64 CoresPerSocket=64 CPUAlloc=0 CPUEfctv=240 CPUTot=256 CPULoad=0.01 "
        "AvailableFeatures=milan ActiveFeatures=milan Gres={gres} NodeAddr={name} NodeHostName={name} "
        "Version=25.05.2 OS=Linux 6.4.0-150600.23-default #1 SMP PREEMPT_DYNAMIC (f8a9bd2) "
        "RealMemory=515000 AllocMem=0 FreeMem=500000 Sockets=2 Boards=1 CoreSpecCount=8 "
        "CPUSpecList=0-7,128-135 MemSpecLimit=3000 State={state} ThreadsPerCore=2 TmpDisk=0 Weight=1 "
        "Owner=N/A MCS_label=N/A Partitions={partitions} BootTime=2026-01-01T00:00:00 "
        "SlurmdStartTime=2026-01-01T00:00:00 LastBusyTime=2026-01-01T00:00:00 ResumeAfterTime=None "
        "CfgTRES=cpu=240,mem=512000M,billing=240,gres/gpu=4 AllocTRES= "
        "CurrentWatts=0 AveWatts=0 Topology=default:s1 Extra=rack=7 Arch=none "
        "Reason=fans Partitions=none [root@2026-01-01]"
    ),
}
VERSIONS = [*NODE]
OLD_PARTITION = (
    "PartitionName={name} AllowGroups=ALL AllowAccounts={accounts} AllowQos=ALL AllocNodes=ALL "
    "Default={default} QoS={qos} DefaultTime=01:00:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 "
    "Hidden=NO MaxNodes={nodes} MaxTime={time} MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=g[1-8] "
    "PriorityJobFactor=1 PriorityTier={tier} RootOnly=NO ReqResv=NO OverSubscribe=EXCLUSIVE "
    "OverTimeLimit=NONE PreemptMode={mode} State=UP TotalCPUs=2048 TotalNodes=8 SelectTypeParameters=NONE "
    "JobDefaults=(null) DefMemPerCPU=2000 MaxMemPerNode=UNLIMITED"
)
NEW_PARTITION = OLD_PARTITION.replace(
    "MaxCPUsPerNode=UNLIMITED", "MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED"
).replace("ExclusiveUser=NO", "ExclusiveUser=NO ExclusiveTopo=NO") + (
    " TRES=cpu=1920,mem=4096000M,node=8,billing=1920,gres/gpu=32 TRESBillingWeights=cpu=1,gres/gpu=16"
    " ResumeTimeout=GLOBAL SuspendTimeout=GLOBAL SuspendTime=INFINITE PowerDownOnIdle=NO"
)


def node(version: str, **more: str) -> str:
    known = {"name": "g1", "gres": "gpu:a100:4(S:0-7)", "state": "IDLE", "partitions": "gpu"}
    return NODE[version].format(**{**known, **more})


def partition(form: str = NEW_PARTITION, **more: str) -> dict[str, str]:
    known = {
        "name": "gpu",
        "accounts": "ALL",
        "default": "YES",
        "qos": "N/A",
        "nodes": "UNLIMITED",
        "time": "2-00:00:00",
        "tier": "1",
        "mode": "OFF",
    }
    [record] = read_records(form.format(**{**known, **more}), "PartitionName")
    return record


def kinds(*lines: str) -> dict[str, list[NodeKind]]:
    return kinds_by_partition(read_nodes("\n".join(lines)))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_node_is_what_jobs_may_have_of_it(version: str) -> None:
    [kind] = kinds(node(version))["gpu"]
    assert (kind.name, kind.architecture) == ("a100", "x86_64")
    # Of 128 cores and 515000M the system keeps 8 and 3000M.
    assert (kind.cores, kind.threads_per_core, kind.memory) == (120, 2, 512_000)
    assert (kind.gpus, kind.gpu, kind.options) == (4, "a100", {"gres": "gpu:a100:{gpus}"})
    assert kind.usable == 1


@pytest.mark.parametrize(
    ("gres", "found"),
    [
        ("(null)", {"cpu": (0, {})}),
        ("gpu:4", {"gpu": (4, {"gres": "gpu:{gpus}"})}),
        ("gpu:4(S:0-1),tmpfs:1T", {"gpu": (4, {"gres": "gpu:{gpus}"})}),
        (
            "gpu:a100:2(S:0),gpu:a100_3g.20gb:4(S:1)",
            {
                "a100": (2, {"gres": "gpu:a100:{gpus}"}),
                "a100_3g.20gb": (4, {"gres": "gpu:a100_3g.20gb:{gpus}"}),
            },
        ),
        ("shard:8,gpu:mi250x:8", {"mi250x": (8, {"gres": "gpu:mi250x:{gpus}"})}),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_gpus_as_sites_spell_them(
    version: str, gres: str, found: dict[str, tuple[int, dict[str, str]]]
) -> None:
    listed = kinds(node(version, gres=gres))["gpu"]
    assert {each.name: (each.gpus, each.options) for each in listed} == found


def test_nodes_of_a_partition_that_differ_are_one_kind_of_what_the_least_has() -> None:
    large = node("25.05", name="g2", state="IDLE+DRAIN", partitions="gpu,big").replace(
        "RealMemory=515000", "RealMemory=1031000"
    )
    found = kinds(node("25.05", name="g1", partitions="gpu"), large)
    [both], [alone] = found["gpu"], found["big"]
    assert (both.name, both.memory, both.nodes, both.usable) == ("a100", 512_000, ("g1", "g2"), 1)
    assert (alone.name, alone.memory) == ("a100-big", 1_028_000)
    assert both.origin == (
        "scontrol show node: 2 nodes, the smallest values, of which 1 accept no jobs now"
    )


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        *(("IDLE", 1), ("MIXED+PLANNED", 1), ("IDLE+CLOUD+POWERED_DOWN", 1)),
        *(("DOWN*", 0), ("IDLE+DRAIN", 0), ("ALLOCATED+MAINT", 0), ("IDLE+RESERVED", 0)),
        ("DOWN+CLOUD+POWERED_DOWN", 0),
    ],
)
def test_nodes_that_start_for_a_job_take_jobs_now(state: str, usable: int) -> None:
    [kind] = kinds(node("25.05", state=state))["gpu"]
    assert kind.usable == usable


def test_the_same_nodes_in_two_partitions_are_one_kind() -> None:
    found = kinds(
        node("25.05", partitions="gpu,debug"), node("25.05", name="g2", partitions="gpu,debug")
    )
    assert found["gpu"] == found["debug"]


def test_cpus_that_are_cores() -> None:
    """Some sites count cores as CPUs although the processor has two threads a core."""
    line = node("20.11").replace("CPUTot=256", "CPUTot=128").replace("CoreSpecCount=8 ", "")
    [kind] = kinds(line)["gpu"]
    assert (kind.cores, kind.threads_per_core) == (128, 1)


@pytest.mark.parametrize(
    "line", ["", "No nodes in the system", "NodeName=g9 State=UNKNOWN", "slurm_load"]
)
def test_what_is_no_node_is_left_out(line: str) -> None:
    assert read_nodes(line) == []


@pytest.mark.parametrize("form", [OLD_PARTITION, NEW_PARTITION])
def test_a_partition_is_a_queue_with_its_limits(form: str) -> None:
    of_gpu = kinds(node("25.05"))["gpu"]
    queue = queue_of(partition(form), of_gpu, 1, {})
    assert (queue.name, queue.kinds, queue.options) == ("gpu", ("a100",), {"partition": "gpu"})
    assert (queue.nodes, queue.minutes, queue.aside) == (8, 2880, "")
    unlimited = queue_of(partition(form, time="UNLIMITED", nodes="4"), of_gpu, 1, {})
    assert (unlimited.nodes, unlimited.minutes) == (4, None)
    limits = read_qos([["short", "12:00:00", "cpu=64,node=3", "node=2"], ["normal", "", "", ""]])
    by_qos = queue_of(partition(form, qos="short"), of_gpu, 1, limits)
    assert (by_qos.minutes, by_qos.nodes) == (720, 2)
    assert by_qos.origin == "scontrol show partition gpu, QoS short"
    assert queue_of(partition(form, qos="normal"), of_gpu, 1, limits).nodes == 8


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"name": "gpu-devel"}, "by its name it is for tests"),
        ({"time": "00:30:00"}, "its jobs are limited to 30 minutes"),
        ({"mode": "REQUEUE", "tier": "0"}, "its jobs are preemptible (PreemptMode=REQUEUE)"),
        ({"mode": "REQUEUE", "tier": "1"}, ""),
        ({"mode": "GANG", "tier": "0"}, ""),
    ],
)
def test_which_partitions_are_for_those_who_name_them(more: dict[str, str], why: str) -> None:
    assert queue_of(partition(**more), [], 1, {}).aside == why


NAMES_FOR_TESTS = """
dev dev-g gh-dev dev_cpu_il dev-gpu-h100 gpu-dev development devel develbooster debug gpu-debug
debug-scaling cpudebug test gputest testing standard96:test tests acc_interactive express
gpuA100x4-interactive gpuTest TESTGPU GPUtest debug2 dcgp_usr_dbg qdev
"""
OTHER_NAMES = """
latest contest fastest greatest attested device devices video-device expression normal batch
testimony gpuA100x4 main GPU-latest preempt boost_usr_prod regular protest large deviant
"""


@pytest.mark.parametrize(
    "name",
    NAMES_FOR_TESTS.split(),
)
def test_names_of_partitions_for_tests(name: str) -> None:
    assert is_for_tests(name)


@pytest.mark.parametrize(
    "name",
    OTHER_NAMES.split(),
)
def test_names_that_only_look_like_it(name: str) -> None:
    assert not is_for_tests(name)


SHORT = {"time": "01:00:00"}
PREEMPTED = {"mode": "REQUEUE", "tier": "0"}


@pytest.mark.parametrize(
    ("partitions", "gpus_only", "by_name"),
    [
        # Of each: all are aside, and those with the weakest reason are then open.
        ({"genoa": SHORT, "devel": SHORT}, "", {"devel"}),
        ({"genoa": SHORT, "rome": SHORT}, "", set()),
        ({"low": PREEMPTED}, "", set()),
        ({"low": PREEMPTED, "test": {}}, "", {"test"}),
        ({"low": PREEMPTED, "short": SHORT}, "", {"low"}),
        ({"test": SHORT, "debug": {}}, "", set()),
        ({"main": {}, "test": {}, "low": PREEMPTED}, "", {"test", "low"}),
        # Jobs without a GPU have one way only.
        ({"main": {}, "short": SHORT}, "main", set()),
        ({"main": {}, "short": SHORT, "low": PREEMPTED}, "main", {"low"}),
    ],
)
def test_jobs_that_name_no_queue_get_to_each_kind_of_nodes(
    partitions: dict[str, dict[str, str]], gpus_only: str, by_name: set[str]
) -> None:
    [kind] = kinds(node("25.05"))["gpu"]
    queues = [
        replace(queue_of(partition(name=name, **more), [kind], 1, {}), gpus_only=name == gpus_only)
        for name, more in partitions.items()
    ]
    found = with_ways_in(queues, [kind])
    assert {each.name for each in found if each.aside} == by_name
    for each in found:
        assert bool(each.reserve and not each.aside) == ("no better queue" in each.origin)


def test_a_kind_of_nodes_that_only_a_partition_aside_leads_to() -> None:
    [cpu] = kinds(node("25.05", gres="(null)"))["gpu"]
    [gpu] = kinds(node("25.05"))["gpu"]
    main = queue_of(partition(name="main"), [cpu], 1, {})
    both = queue_of(partition(name="gpu-debug"), [gpu], 1, {})
    assert [each.aside for each in with_ways_in([main, both], [cpu, gpu])] == ["", ""]
    wide = queue_of(partition(name="low", **PREEMPTED), [cpu, gpu], 1, {})
    found = {each.name: each.aside for each in with_ways_in([main, both, wide], [cpu, gpu])}
    assert (found["low"], bool(found["gpu-debug"])) == ("", True)


def test_the_default_partition_is_tried_first_and_those_aside_last() -> None:
    names = ("debug", "large", "long", "main")
    queues = [
        queue_of(partition(name=name, time="7-0" if name == "long" else "1-0"), [], 1, {})
        for name in names
    ]
    assert [each.name for each in in_order(queues, "main")] == ["main", "long", "large", "debug"]


def test_names_that_no_key_can_have() -> None:
    assert queue_of(partition(name="gpu@fat"), [], 1, {}).key == "gpu-fat"
    listed = kinds(node("25.05", gres="gpu:tesla/v100:2"))["gpu"]
    assert (listed[0].name, listed[0].gpu) == ("tesla-v100", "tesla/v100")


def test_accounts_of_a_partition() -> None:
    assert refused_account(partition(), "mine") == ""
    assert refused_account(partition(accounts="mine,theirs"), "mine") == ""
    assert "for the accounts theirs, not for mine" in refused_account(
        partition(accounts="theirs"), "mine"
    )
    denied = partition(NEW_PARTITION.replace("AllowAccounts={accounts}", "DenyAccounts=mine,x"))
    assert refused_account(denied, "mine") == "it is not for the account mine"


def test_settings_of_a_cluster() -> None:
    text = (
        "Configuration data as of 2026\nClusterName             = bed\nAuthInfo = socket=/run/x\n"
    )
    assert read_config(text) == {"ClusterName": "bed", "AuthInfo": "socket=/run/x"}


def test_a_node_that_does_not_tell_its_sockets() -> None:
    [node] = read_nodes(
        "NodeName=n1 Arch=x86_64 CoresPerSocket=1 CPUTot=32 RealMemory=256000 State=IDLE"
    )
    assert (node.cores, node.threads_per_core) == (32, 1)


def test_one_node_with_whole_gpus_and_slices_of_others() -> None:
    gres = "gpu:b200:4(S:0-1),gpu:b200_2g.45gb:8(S:0-1),gpu:b200_3g.90gb:4(S:0-1)"
    record = (
        f"NodeName=n1 Arch=x86_64 CPUEfctv=192 CPUTot=224 Sockets=2 CoresPerSocket=56 Gres={gres} "
    )
    record += "RealMemory=2060000 MemSpecLimit=65536 ThreadsPerCore=2 State=MIXED Partitions=x"
    [kinds] = kinds_by_partition(read_nodes(record)).values()
    assert {kind.name: (kind.gpus, kind.cores) for kind in kinds} == {
        "b200": (4, 96),
        "b200_2g.45gb": (8, 96),
        "b200_3g.90gb": (4, 96),
    }
