"""Slurm's reasons, and which of them waiting will not help."""

import pytest

from argosy.schedulers.slurm.queue import explain

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
