"""Slurm's reasons, and which of them waiting will not help."""

import pytest

from argosy.schedulers.slurm.reasons import explain

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
