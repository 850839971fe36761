"""A job whose nodes cannot all start, or cannot reach each other, ends at once and says which and why."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
import yaml
from cluster.node import Node
from cluster_workspace import ClusterWorkspace
from workspace import BIN

import argosy
from argosy.monitor.failures import check_of
from argosy.run_folder.models import Failure

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]

SOON_S = 60.0
"""From the start of the job; 5 to 15 s on a machine that does nothing else. A run without a word would
take the ten minutes of its time limit."""
RUN = "nodes2-ranks1-repeat1"
SITE = "slurm/testbed/site.yaml"
PROGRAMS = Path(argosy.__file__).parent / "runtime"


@pytest.fixture
def study(workspace: ClusterWorkspace) -> ClusterWorkspace:
    """A run on the first two nodes, as nothing else is on the cluster."""
    workspace.count([2])
    return workspace


def edit_site(study: ClusterWorkspace, **changes: Any) -> None:
    path = study.path / SITE
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))


def ending(study: ClusterWorkspace) -> tuple[str, float]:
    """The cause of the failure, which all who are asked agree on, and the seconds that nodes were held."""
    driver = study.drive()
    output = study.end(driver)
    assert driver.returncode != 0, output
    assert "Traceback" not in output
    [attempt] = (study.run_dir("count", RUN) / "attempts").iterdir()
    verdict = json.loads((attempt / "verdict.json").read_text())
    cause = verdict["failure"]["cause"]
    assert cause in " ".join(output.split())
    _, table = study.run(BIN / "argosy", "status")
    assert cause[:40] in " ".join(table.split())
    assert "\x1b" not in cause
    began = json.loads((attempt / "claim.json").read_text())["unix"]
    return cause, (attempt / "verdict.json").stat().st_mtime - began


def failure_of(cause: str) -> Failure:
    """Return the failure of a job that did not start."""
    return Failure(node=0, rank=None, cause=cause, at=0.0)


def hide(folder: Path | str) -> Callable[[ClusterWorkspace], AbstractContextManager[None]]:
    """The second node does not see a folder."""

    def hidden(study: ClusterWorkspace) -> AbstractContextManager[None]:
        path = study.path / folder
        path.mkdir(exist_ok=True)
        return study.slurm.node(2).without(path)

    return hidden


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (hide("results"), ["results/ must be on a file system that all nodes share"]),
        (hide(PROGRAMS), ["start-node.sh: No such file or directory"]),
    ],
    ids=["results", "programs"],
)
def test_a_node_that_cannot_start_ends_the_job_at_once(
    study: ClusterWorkspace,
    broken: Callable[[ClusterWorkspace], AbstractContextManager[None]],
    words: list[str],
) -> None:
    with broken(study):
        cause, seconds = ending(study)
    assert cause.startswith("it did not start: ")
    for word in words:
        assert word in cause
    assert seconds < SOON_S
    [attempt] = (study.run_dir("count", RUN) / "attempts").iterdir()
    verdict = json.loads((attempt / "verdict.json").read_text())
    assert verdict["failure"]["node"] == 1
    assert verdict["hosts"] == ["node1", "node2"]


def planned(study: ClusterWorkspace, **lines: str) -> Path:
    """The run's script, not submitted, with other values of its variables."""
    script = study.run_dir("count", RUN) / "job.sbatch"
    driver = study.drive("--until", "plan_runs")
    output = study.end(driver)
    assert driver.returncode == 0, output
    text = script.read_text()
    for name, value in lines.items():
        changed = re.sub(rf"(?m)^{name}=.*", lambda _, new=f"{name}={value}": new, text)
        assert changed != text
        text = changed
    script.write_text(text)
    return script


def failure_by_hand(study: ClusterWorkspace, script: Path) -> dict[str, Any]:
    """The verdict's failure of a script that is submitted by hand."""
    study.slurm.run("sbatch", "--wait", script, check=False, timeout=60)
    [attempt] = (study.run_dir("count", RUN) / "attempts").iterdir()
    failure: dict[str, Any] = json.loads((attempt / "verdict.json").read_text())["failure"]
    return failure


def test_an_image_that_is_not_in_the_store(study: ClusterWorkspace) -> None:
    """As when it was pruned between planning and the job's start."""
    digest = f"sha256:{'0' * 64}"
    words = f'"$python" -m argosy_images.run --digest {digest} --log-dir "$logs" -- true'
    failure = failure_by_hand(study, planned(study, node_command=f"({words})"))
    assert failure["cause"].startswith("it did not start: ")
    assert "the image is missing; build it with: argosy image build" in failure["cause"]


def test_a_node_without_python_is_named(study: ClusterWorkspace) -> None:
    """The second node does not see the folder that Python is in."""
    tools = study.path / "tools"
    tools.mkdir()
    (tools / "env").symlink_to(BIN.parent)
    python = tools / "env" / "bin" / "python"
    # As runs in containers are started; those without take the node's own python3.
    node_command = '("$python" "$runtime/agent")'
    script = planned(study, python=quote(str(python)), node_command=node_command)
    with study.slurm.node(2).without(tools):
        failure = failure_by_hand(study, script)
    assert f"it did not start: it cannot run {python}" in failure["cause"]
    assert failure["node"] == 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("tmpdir", "words"),
    [
        ("/no/scratch", "no folder for temporary files can be made in /no/scratch: No such file"),
        ("$NO_SCRATCH/x", f"{SITE}: tmpdir is $NO_SCRATCH/x, but NO_SCRATCH is not set"),
    ],
)
def test_a_wrong_tmpdir_is_named(study: ClusterWorkspace, tmpdir: str, words: str) -> None:
    edit_site(study, tmpdir=tmpdir)
    cause, seconds = ending(study)
    assert words in cause
    assert check_of(failure_of(cause)) == "tmpdir"
    assert SITE in cause
    assert seconds < SOON_S


@pytest.mark.thorough
def test_a_wrong_host_suffix_is_named(study: ClusterWorkspace) -> None:
    edit_site(study, host_suffix="-ib.invalid")
    cause, _ = ending(study)
    assert f"{SITE}: the site's `host_suffix` makes this node's name node1-ib.invalid" in cause


@contextmanager
def interface(study: ClusterWorkspace, name: str, address: str) -> Iterator[None]:
    """Each node has an interface of this name, whose cable nobody holds the other end of."""
    nodes: list[Node] = study.slurm.nodes[:2]
    for number, node in enumerate(nodes, start=1):
        node.administer("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}-far")
        own = address.format(number=number)
        node.administer("ip", "address", "add", f"{own}/24", "dev", name)
        node.administer("ip", "link", "set", name, "up")
        node.administer("ip", "link", "set", f"{name}-far", "up")
    try:
        yield
    finally:
        for node in nodes:
            node.administer("ip", "link", "delete", name)


@pytest.mark.thorough
def test_an_interface_that_leads_nowhere(study: ClusterWorkspace) -> None:
    edit_site(study, interface="ib9")
    with interface(study, "ib9", "10.99.0.{number}"):
        cause, seconds = ending(study)
    assert cause.startswith("cannot reach the head (node 0, node1) at 10.99.0.1:")
    # A busy machine has given up asking for the address before the connection's time is over.
    assert re.search(r"by interface ib9: (timed out|no route to host)", cause)
    assert f"`interface` (or `host_suffix`) in {SITE}" in cause
    assert check_of(failure_of(cause)) == "interface"
    assert seconds < 30 + SOON_S  # 30 from the start of the last node


@pytest.mark.thorough
def test_an_address_that_all_nodes_have(study: ClusterWorkspace) -> None:
    edit_site(study, interface="virbr0")
    with interface(study, "virbr0", "10.99.0.1"):
        cause, seconds = ending(study)
    assert "by interface virbr0: node2 has that address itself" in cause
    assert SITE in cause
    assert seconds < SOON_S


def test_the_interface_lo_is_refused_before_anything_is_submitted(study: ClusterWorkspace) -> None:
    edit_site(study, interface="lo")
    driver = study.drive()
    output = study.end(driver)
    assert driver.returncode != 0
    assert f"{SITE}: interface: lo is local to each node and reaches no other" in output
    assert study.jobs(RUN) == []
