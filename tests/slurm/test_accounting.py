"""A cluster with accounting, as most sites are."""

import pytest
from cluster import Cluster, ClusterError


def test_sacct_knows_a_job_that_has_ended(accounting_cluster: Cluster) -> None:
    script = "--wrap=exit 3"
    job = accounting_cluster.run(
        "sbatch", "--parsable", "--wait", "--output=/dev/null", script, check=False
    ).stdout.strip()
    columns = ("--noheader", "--parsable2", "--allocations", "--format=State,ExitCode,Account")
    line = accounting_cluster.run("sacct", "-j", job, *columns).stdout.strip()
    assert line == "FAILED|3:0|project"


@pytest.mark.parametrize("option", ["--account=nobodys", "--qos=unheard-of"])
def test_what_the_user_may_not_use_is_refused(accounting_cluster: Cluster, option: str) -> None:
    with pytest.raises(ClusterError, match="Invalid"):
        accounting_cluster.run("sbatch", "--output=/dev/null", option, "--wrap=true")


def test_what_the_user_may_use_runs(accounting_cluster: Cluster) -> None:
    accounting_cluster.run("srun", "--account=project", "--qos=long", "true", timeout=30)
