"""A site's folder that a probe writes on clusters that differ is one that runs, with no edit by hand."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import Cluster
from cluster.accounting import OTHER_ACCOUNT
from cluster.offers import Offers
from cluster_workspace import COUNT, ClusterWorkspace
from workspace import BIN

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]

ACCOUNTS = f"""\
PartitionName=batch Nodes=ALL Default=YES MaxTime=12:00:00 MaxNodes=3 AllowAccounts={OTHER_ACCOUNT}
PartitionName=debug Nodes=node[1-2] MaxTime=30 AllowAccounts={OTHER_ACCOUNT}
PartitionName=theirs Nodes=ALL MaxTime=1-0 AllowAccounts=other
PartitionName=closed Nodes=ALL MaxTime=1-0 State=DOWN
"""
UNTYPED = """\
PartitionName=genoa Nodes=node[1-3] MaxTime=2-0
PartitionName=scavenge Nodes=ALL MaxTime=1-0 PreemptMode=REQUEUE PriorityTier=0
"""
PROLOG = """#!/bin/sh
echo "print Welcome to this cluster"
echo "export LSCRATCH={scratch}"
echo "export PATH={old}:$PATH"
"""
OLD_PYTHON = """#!/bin/sh
case "$*" in
    *sys.exit*version_info*) exit 1 ;;
    *version_info*) echo 3.6.8 ;;
    *) echo "SyntaxError: future feature annotations is not defined" >&2; exit 1 ;;
esac
"""
"""A stand-in for what nodes of older distributions call python3."""


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Each partition that is open wants an account other than the one that jobs have by themselves."""
    folder = tmp_path_factory.mktemp("slurm") / "accounts"
    offers = Offers(cpus=8, memory_mb=16_000, gres=(), features=("rome",), partitions=())
    with Cluster.start(folder, accounting=True, offers=offers, site_lines=ACCOUNTS) as running:
        yield running


@pytest.fixture(scope="module")
def untyped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """GPUs without a type, no default partition, other names, and a prolog that prints and sets scratch.

    Nodes call an old Python python3.
    """
    folder = tmp_path_factory.mktemp("slurm") / "untyped"
    prolog = folder.parent / "prolog.sh"
    old = folder.parent / "old"
    old.mkdir()
    (old / "python3").write_text(OLD_PYTHON)
    (old / "python3").chmod(0o755)
    prolog.write_text(PROLOG.format(scratch=folder.resolve() / "scratch", old=old.resolve()))
    prolog.chmod(0o755)
    offers = Offers(cpus=6, memory_mb=12_000, gres=("gpu:2",), features=("genoa",), partitions=())
    lines = f"TaskProlog={prolog}\n{UNTYPED}"
    with Cluster.start(folder, offers=offers, site_lines=lines) as running:
        for node in running.nodes:
            for words in ("link set hs0 down", "link set hs0 name hsn0", "link set hsn0 up"):
                node.administer("ip", *words.split())
        yield running


@pytest.fixture(scope="module")
def forbidding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """User namespaces are forbidden on nodes, and are there on the login node."""
    folder = tmp_path_factory.mktemp("slurm") / "forbidding"
    offers = Offers(cpus=8, memory_mb=16_000, gres=(), features=("milan",), partitions=())
    lines = "PartitionName=std Nodes=ALL Default=YES MaxTime=6:00:00\n"
    with Cluster.start(folder, offers=offers, site_lines=lines) as running:
        for node in running.nodes:
            node.administer("sh", "-c", "echo 0 > /proc/sys/user/max_user_namespaces")
        yield running


MakeWorkspace = Callable[..., ClusterWorkspace]


def probe(study: ClusterWorkspace, *options: str, status: int = 0) -> str:
    """What a probe of the site `kestrel` says."""
    began = time.monotonic()
    driver = study.start(BIN / "argosy", "site", "probe", "kestrel", *options)
    output = study.end(driver)
    assert driver.returncode == status, output
    assert "Traceback" not in output
    assert time.monotonic() - began < 120
    return output


def site(study: ClusterWorkspace) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((study.path / "slurm/kestrel/site.yaml").read_text())
    return content


def run_there(study: ClusterWorkspace, **more: Any) -> None:
    """Run a study of two sizes with the folder as it was written."""
    checked = study.start(BIN / "argosy", "doctor", "kestrel", "--json")
    said = study.end(checked)
    found = json.loads(said[said.index("[\n") :])
    # There is nothing behind the GPUs of this cluster.
    bad = [
        each for each in found if each["verdict"] != "ok" and "found none" not in each["evidence"]
    ]
    assert bad == []
    study.count([1, 2], **more)
    driver = study.start(BIN / "snakemake", "--profile", "slurm/kestrel", "--quiet", "host")
    output = study.end(driver)
    assert driver.returncode == 0, output
    for nodes in (1, 2):
        folder = study.path / f"results/kestrel/count/nodes{nodes}-ranks1-repeat1"
        assert '"completed"' in (folder / "result.json").read_text()


def test_typed_gpus_and_slices(workspace: ClusterWorkspace) -> None:
    said = probe(workspace)
    found = site(workspace)
    assert {name: entry["options"] for name, entry in found["hardware"].items()} == {
        "a100": {"gres": "gpu:a100:{gpus}"},
        "a100_3g.20gb": {"gres": "gpu:a100_3g.20gb:{gpus}"},
    }
    assert found["hardware"]["a100"]["gpus"] == 4
    assert found["interface"] in ("eth0", "hs0")
    assert found["queues"]["main"]["limits"] == [{"nodes": 4, "time": "1d"}]
    aside = {name for name, entry in found["queues"].items() if entry.get("only_by_name")}
    assert aside == {"low", "short"}
    assert "account" not in found
    assert "?" not in said
    run_there(workspace)
    driver = workspace.start(BIN / "argosy", "site", "here")
    assert (workspace.end(driver), driver.returncode) == ("kestrel\n", 0)
    # A second time nothing is written over.
    kept = (workspace.path / "slurm/kestrel/site.yaml").read_text()
    assert "slurm/kestrel exists and is not overwritten" in probe(workspace, status=2)
    assert (workspace.path / "slurm/kestrel/site.yaml").read_text() == kept
    assert probe(workspace, "--again", "--no-job").count("site.yaml:") == 0
    edited = kept.replace("time: 1d", "time: 2d", 1).replace("cores: 4", "cores: 8", 1)
    (workspace.path / "slurm/kestrel/site.yaml").write_text(edited)
    drift = probe(workspace, "--again", "--no-job", status=1)
    assert "hardware.a100.cores: the file says 8, the cluster 4" in drift
    assert "queues.main.limits: the file says" in drift


@pytest.mark.thorough
@pytest.mark.parametrize(
    "closed",
    [
        # The partitions that are left make room for others, are short, or both.
        ("main", "high"),
        ("main", "high", "low"),
        ("main", "high", "short"),
    ],
)
def test_a_cluster_whose_partitions_are_all_aside(
    workspace: ClusterWorkspace, closed: tuple[str, ...]
) -> None:
    for each in closed:
        workspace.slurm.run("scontrol", "update", f"partitionname={each}", "state=down")
    try:
        probe(workspace)
        found = site(workspace)["queues"]
        assert any(not entry.get("only_by_name") for entry in found.values())
        run_there(workspace)
    finally:
        for each in closed:
            workspace.slurm.run("scontrol", "update", f"partitionname={each}", "state=up")


@pytest.mark.thorough
def test_a_cluster_whose_partitions_are_all_short(workspace: ClusterWorkspace) -> None:
    for each in ("main", "low", "high"):
        workspace.slurm.run("scontrol", "update", f"partitionname={each}", "maxtime=60")
    try:
        said = probe(workspace)
        assert "config/config.yaml: 6 runs have a place" in said
        run_there(workspace)
    finally:
        for each in ("main", "low", "high"):
            workspace.slurm.run("scontrol", "update", f"partitionname={each}", "maxtime=1-0")


@pytest.mark.thorough
def test_a_probe_says_where_runs_will_not_get(workspace: ClusterWorkspace) -> None:
    workspace.count([1, 8])
    said = probe(workspace)
    assert "no queue accepts 8 nodes for 10m on a100" in said
    assert "change scale.nodes" in said


@pytest.mark.thorough
def test_an_account_that_jobs_do_not_have_by_themselves(
    accounts: Cluster, make_cluster_workspace: MakeWorkspace
) -> None:
    study = make_cluster_workspace(accounts)
    probe(study)
    found = site(study)
    assert (found["account"], found["account_required"]) == (OTHER_ACCOUNT, True)
    assert found["hardware"] == {"cpu": {"architecture": "x86_64", "cores": 8, "memory": "16000M"}}
    assert list(found["queues"]) == ["batch", "debug"]
    assert found["queues"]["batch"]["limits"] == [{"nodes": 3, "time": "12h"}]
    assert found["queues"]["debug"] == {
        "hardware": ["cpu"],
        "options": {"partition": "debug"},
        "limits": [{"nodes": 2, "time": "30m"}],
        "only_by_name": True,
    }
    text = (study.path / "slurm/kestrel/site.yaml").read_text()
    assert "partition closed is DOWN" in text
    assert re.search(r"partition theirs is left out, since it accepts none: .*account", text)
    run_there(study)


@pytest.mark.thorough
def test_gpus_without_a_type_an_old_python_and_scratch_by_a_prolog(
    untyped: Cluster, make_cluster_workspace: MakeWorkspace
) -> None:
    study = make_cluster_workspace(untyped, "a project; with $(odd) 'name' 100%")
    work = study.path.parent / "work"
    work.mkdir()
    with untyped.node(1).without(work):
        driver = study.start("env", f"WORK={work}", BIN / "argosy", "site", "probe", "kestrel")
        output = study.end(driver)
    assert driver.returncode == 0, output
    found = site(study)
    assert found["interface"] in ("eth0", "hsn0")
    looks = (study.path / "resources/probe/kestrel").rglob("0.json")
    assert "python3=3.6.8" in json.loads(next(looks).read_text())["pythons"]
    assert found["hardware"]["gpu"]["options"] == {"gres": "gpu:{gpus}"}
    assert found["hardware"]["gpu"]["gpus"] == 2
    assert found["queues"]["genoa"]["limits"] == [{"nodes": 3, "time": "2d"}]
    assert found["queues"]["scavenge"]["only_by_name"] is True
    run_there(study)


@pytest.mark.thorough
@pytest.mark.container
@pytest.mark.usefixtures("torch_digest")
def test_no_user_namespaces_on_nodes_and_no_home(
    forbidding: Cluster, make_cluster_workspace: MakeWorkspace
) -> None:
    study = make_cluster_workspace(forbidding)
    home = study.path.parent / "homes/user"
    home.mkdir(parents=True)
    study.environment["HOME"] = str(home)
    with ExitStack() as hidden:
        for node in forbidding.nodes:
            hidden.enter_context(node.without(home.parent))
        said = probe(study)
        assert [*site(study)["absent_folders"]] == [str(home)]
        assert "user namespaces" in said + (study.path / "slurm/kestrel/site.yaml").read_text()
        # In a container, which only proot starts there.
        shutil.copy(COUNT, study.path / "containers/workloads")
        run_there(
            study,
            runtime="container",
            image="torch-cpu",
            command="python3 /workloads/count.py --steps 5",
        )
    log = next((study.path / "results/kestrel/count").glob("*/logs/*/node-0.log"))
    assert "proot" in log.read_text()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.thorough
def test_folders_of_clusters_differ_in_what_differs_and_the_experiments_in_nothing(
    workspace: ClusterWorkspace,
    accounts: Cluster,
    untyped: Cluster,
    make_cluster_workspace: MakeWorkspace,
) -> None:
    others = [
        make_cluster_workspace(cluster, f"another {number}")
        for number, cluster in enumerate((accounts, untyped))
    ]
    studies = [workspace, *others]
    for study in studies:
        study.count([1, 2])
        before = [contents(study.path / name) for name in ("config", "containers", "workflow")]
        probe(study)
        after = [contents(study.path / name) for name in ("config", "containers", "workflow")]
        assert after == before
    assert len({(study.path / "config/config.yaml").read_text() for study in studies}) == 1
    written = [contents(study.path / "slurm/kestrel") for study in studies]
    texts = [files.pop("site.yaml") for files in written]
    assert written[0] == written[1] == written[2] != {}
    first, *rest = [yaml.safe_load(text) for text in texts]
    differing = [
        {key for key in {*first, *other} if first.get(key) != other.get(key)} for other in rest
    ]
    own = {"hardware", "queues"}
    assert differing[0] - {"interface"} == {*own, "account", "account_required"}
    assert differing[1] - {"interface"} == own


@pytest.mark.thorough
def test_a_queue_that_never_starts_the_job(workspace: ClusterWorkspace) -> None:
    workspace.slurm.run("sbatch", "--exclusive", "-N4", "-o", "/dev/null", "--wrap=sleep 60")
    said = probe(workspace, "--wait", "3s")
    assert "inspection of hardware.a100 (its job waited for" in said
    assert "was cancelled" in said
    assert "fill in interface in slurm/kestrel/site.yaml" in said
    assert workspace.slurm.run("squeue", "-h", "-n", "argosy-probe").stdout == ""
    # Whoever starts it nevertheless is told.
    driver = workspace.start(BIN / "snakemake", "--profile", "slurm/kestrel")
    assert "fill in interface" in workspace.end(driver)


def test_nodes_that_take_no_jobs(workspace: ClusterWorkspace) -> None:
    workspace.slurm.run("scontrol", "update", "node=node[2-4]", "state=drain", "reason=hot")
    try:
        said = probe(workspace)
    finally:
        workspace.slurm.run("scontrol", "update", "node=node[2-4]", "state=resume")
    assert "inspection of hardware.a100_3g.20gb (none of its nodes accepts jobs now)" in said
    text = (workspace.path / "slurm/kestrel/site.yaml").read_text()
    assert "# scontrol show node: 2 nodes, of which 1 accept no jobs now" in text


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("program", "script", "status", "words"),
    [
        ("sacctmgr", "echo 'Access denied' >&2; exit 1", 0, ""),
        ("scontrol", "sleep 1000", 2, "no answer for 20 s"),
        ("scontrol", "echo 'Unable to contact slurm controller' >&2; exit 1", 2, "sinfo"),
        ("sbatch", "echo 'no job here today' >&2; exit 1", 0, "accepts no job of yours"),
    ],
)
def test_commands_that_do_not_answer(
    workspace: ClusterWorkspace, program: str, script: str, status: int, words: str
) -> None:
    folder = workspace.path / "shadow"
    folder.mkdir()
    (folder / program).write_text(f"#!/bin/sh\n{script}\n")
    (folder / program).chmod(0o755)
    began = time.monotonic()
    path = f"PATH={folder}:{os.environ['PATH']}"
    driver = workspace.start("env", path, BIN / "argosy", "site", "probe", "kestrel")
    output = workspace.end(driver)
    assert driver.returncode == status, output
    assert time.monotonic() - began < 120
    assert words in output
    assert "Traceback" not in output
    assert (workspace.path / "slurm/kestrel").exists() == (status == 0)


def test_a_cluster_that_no_folder_is_of(workspace: ClusterWorkspace) -> None:
    driver = workspace.start(BIN / "argosy", "site", "here")
    output = workspace.end(driver)
    assert driver.returncode == 2
    assert "no folder describes this cluster, which is named bed" in output
    assert "argosy site probe bed writes one" in output
    (workspace.path / "slurm/testbed").rename(workspace.path / "slurm/bed")
    driver = workspace.start(BIN / "argosy", "site", "here")
    assert (workspace.end(driver), driver.returncode) == ("bed\n", 0)


def test_where_there_is_no_slurm(workspace: ClusterWorkspace, tmp_path: Path) -> None:
    driver = workspace.start("env", f"PATH={tmp_path}", BIN / "argosy", "site", "probe", "kestrel")
    output = workspace.end(driver)
    assert driver.returncode == 2
    assert "there is no `scontrol` on this machine" in output
    assert "hint: probe on a login node of the cluster" in output
