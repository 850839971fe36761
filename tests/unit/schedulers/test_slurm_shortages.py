"""Which option Slurm has no nodes for, and for which a job only waits."""

import pytest
from slurm_answers import table

from argosy.schedulers.slurm.partitions import (
    NODE_FIELDS,
    partition_of,
    read_nodes,
    read_partitions,
)
from argosy.schedulers.slurm.refusals import Shortage, Wait, find_shortage

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
        ({"nodes": "4"}, ("nodes",), "it asks for 4 nodes, there are 3 nodes of partition cpu"),
        ({"nodes": "2", "mem": "300G"}, ("mem",), "1 of 3 give it (the largest has 512000M)"),
        ({"nodes": "1", "cpus-per-task": "129"}, ("cpus-per-task",), "the largest has 128 CPUs"),
        ({"nodes": "3", "constraint": "amd&fast"}, ("constraint",), "2 of 3 give it"),
        ({"nodes": "1", "gpus-per-node": "1"}, ("gpus-per-node",), "they have none"),
        ({"partition": "gpu", "gres": "gpu:8"}, ("gres",), "gpu:a100:4"),
        ({"partition": "gpu", "gres": "gpu:v100:1"}, ("gres",), "0 of 2 give it"),
        ({"partition": "gpu", "gres": "gpu:4,tmpfs:2T"}, ("gres",), "0 of 2 give it"),
        ({"mem": "400G", "constraint": "fast"}, ("mem", "constraint"), "0 of 3 nodes"),
    ],
)
def test_one_option_is_to_blame(
    values: dict[str, str], options: tuple[str, ...], words: str
) -> None:
    found = find_shortage({"nodes": "1", **values}, read_nodes(SINFO))
    assert isinstance(found, Shortage)
    assert found.options == options
    assert words in found.words


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"nodes": "3"},
            "of 3 nodes of partition cpu that suit, 1 take no jobs now (c3; drng: new",
        ),
        ({"nodes": "1", "mem": "300G"}, "of 1 nodes of partition cpu that suit, 1 take"),
        ({"nodes": "2", "partition": "gpu", "gres": "gpu:a100:4,tmpfs:100G"}, "(g2; idle*: Not"),
    ],
)
def test_a_job_waits_for_nodes_that_are_away(values: dict[str, str], words: str) -> None:
    found = find_shortage(values, read_nodes(SINFO))
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
    assert find_shortage(values, read_nodes(SINFO)) is None


def test_hidden_gres_blame_nobody() -> None:
    hidden = SINFO.replace("gpu:a100:4(S:0-1),tmpfs:1T", "N/A")
    assert find_shortage({"partition": "gpu", "gres": "gpu:1"}, read_nodes(hidden)) is None


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
