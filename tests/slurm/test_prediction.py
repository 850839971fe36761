"""A prediction beside the truth: training at a known pace on a network of known delay and rate.

How near they come on a quiet machine is for `make bench-prediction`, which has the bars; four nodes of a
busy machine with two cores disturb each other by more.
"""

import json
from collections.abc import Callable, Iterator

import pytest
from cluster import Cluster
from cluster_workspace import ClusterWorkspace
from known_network import (
    BYTES_PER_S,
    DELAY_S,
    figures,
    known_network,
    measured_s,
    predicted,
)
from workspace import BIN

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.alone,
    pytest.mark.slurm,
    pytest.mark.container,
    pytest.mark.timeout(900),
]


@pytest.fixture
def study(
    torch_digest: str, cluster: Cluster, make_cluster_workspace: Callable[..., ClusterWorkspace]
) -> Iterator[ClusterWorkspace]:
    """A project on the known network."""
    workspace = make_cluster_workspace(cluster)
    with known_network(workspace):
        yield workspace
    cluster.run("scancel", "--me")
    cluster.wait_until_idle()


def test_four_nodes_are_predicted_from_one_and_two(study: ClusterWorkspace) -> None:
    prediction = predicted(study)
    print(json.dumps(figures(prediction)))
    # Gloo's rings send when the receiver has said that it waits: two ways for each message.
    network = prediction["between_nodes"]
    assert prediction["algorithm"] == "ring"
    assert network["latency_s"]["mean"] == pytest.approx(2 * DELAY_S, rel=0.25)
    assert network["bytes_per_s"]["mean"] == pytest.approx(BYTES_PER_S, rel=0.2)
    points = {point["nodes"]: point for point in prediction["points"]}
    # The network makes most of the step, so that a prediction of it says something.
    assert measured_s(points[4]) > 1.3 * measured_s(points[2])
    assert abs(points[4]["error"]) < 0.12
    status, output = study.run(BIN / "argosy", "predict", "results/testbed", "paced")
    assert status == 0, output
    assert "On more than one node the efficiency is below 80 %." in output
