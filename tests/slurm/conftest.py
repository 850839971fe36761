"""A Slurm cluster for the tests, once for all of them, and projects on its login side."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Cluster, missing
from cluster_workspace import ClusterWorkspace

from argosy_images.store.store import Store


@pytest.fixture(scope="session", autouse=True)
def slurm_programs() -> None:
    """Slurm's programs, installed or unpacked for the tests; without them the tests are skipped."""
    if problem := missing():
        pytest.skip(problem)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four nodes without accounting. Tests leave it as they found it: all nodes idle, no jobs."""
    with Cluster.start(tmp_path_factory.mktemp("slurm") / "plain") as running:
        yield running


@pytest.fixture(scope="session")
def accounting_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four nodes with accounting, of which Slurm enforces account, limits and QoS."""
    folder = tmp_path_factory.mktemp("slurm") / "accounting"
    with Cluster.start(folder, accounting=True) as running:
        yield running


@pytest.fixture
def make_cluster_workspace(
    project: Path, project_store: Store, tmp_path: Path
) -> Callable[..., ClusterWorkspace]:
    """Makes projects on the login side of a cluster."""

    def make(cluster: Cluster, name: str = "project") -> ClusterWorkspace:
        path = tmp_path / name
        store = project_store.path
        return ClusterWorkspace.copy(project, path, store, site="testbed", cluster=cluster)

    return make


@pytest.fixture
def workspace(
    cluster: Cluster, make_cluster_workspace: Callable[..., ClusterWorkspace]
) -> Iterator[ClusterWorkspace]:
    """A project; its jobs are gone when the test is over."""
    yield make_cluster_workspace(cluster, "a project; with $(odd) 'name' 100%")
    cluster.run("scancel", "--me")
    cluster.wait_until_idle()


@pytest.fixture
def eight_runs(
    accounting_cluster: Cluster, make_cluster_workspace: Callable[..., ClusterWorkspace]
) -> Iterator[ClusterWorkspace]:
    """Eight runs on a cluster that keeps accounts; their jobs are gone when the test is over."""
    workspace = make_cluster_workspace(accounting_cluster)
    workspace.count([1], repeats=8, steps=80)
    yield workspace
    accounting_cluster.run("scancel", "--me")
    accounting_cluster.wait_until_idle()
