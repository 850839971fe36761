"""What Slurm says, understood: states, refusals, and the difference between no and no answer."""

from pathlib import Path

import pytest
from slurm_answers import stand_in

from argosy.schedulers.base import State, Status, describe_queue
from argosy.schedulers.slurm import commands
from argosy.schedulers.slurm.answers import span_seconds
from argosy.schedulers.slurm.commands import MissingError, NoAnswerError, SlurmError, call
from argosy.schedulers.slurm.queue import explain as explain_wait
from argosy.schedulers.slurm.refusals import explain, wait_for


def program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a stand-in for a command of Slurm's in front of the others: only its words matter here."""
    stand_in(folder, "squeue", text)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.parametrize(
    "said",
    [
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "slurm_load_jobs error: Socket timed out on send/recv operation",
        "slurm_load_jobs error: Zero Bytes were transmitted or received",
        "slurm_load_jobs error: Slurm backup controller in standby mode",
    ],
)
def test_no_answer_is_not_a_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    program(tmp_path, f"echo 'squeue: error: {said}' >&2; exit 1", monkeypatch)
    with pytest.raises(NoAnswerError):
        call("squeue")


def test_a_command_that_hangs_gave_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "exec sleep 20", monkeypatch)
    with pytest.raises(NoAnswerError, match="no answer for 0 s"):
        call("squeue", timeout_s=0.2)


def test_a_no_and_a_missing_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "echo 'squeue: error: Invalid user' >&2; exit 1", monkeypatch)
    with pytest.raises(SlurmError, match=r"^Invalid user$") as problem:
        call("squeue")
    assert not isinstance(problem.value, NoAnswerError)
    with pytest.raises(MissingError, match="there is no `sbatchx` on this machine"):
        call("sbatchx")


def test_an_outer_job_does_not_leak_into_what_is_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SBATCH_ACCOUNT", "SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/other.conf")
    left = commands.environment("sbatch")
    assert left["SLURM_CONF"] == "/etc/slurm/other.conf"
    assert not {"SLURM_JOB_ID", "SBATCH_ACCOUNT", "SRUN_CPUS_PER_TASK"} & set(left)


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ("Invalid account or account/partition combination specified", "site.yaml: account:"),
        ("invalid partition specified: gpu", "site.yaml: options.partition:"),
        ("Invalid qos specification", "site.yaml: options.qos:"),
        ("Invalid generic resource (gres) specification", "site.yaml: options.gres:"),
        ("Invalid feature specification", "site.yaml: options.constraint:"),
        (
            "Requested time limit is invalid (missing or exceeds some limit)",
            "digits.resources.time:",
        ),
        ("Node count specification invalid", "experiments.digits.scale.nodes:"),
        ("Requested node configuration is not available", "experiments.digits.resources:"),
        ("Munge encode failed: Failed to access socket", "munge does not run here"),
    ],
)
def test_a_refusal_says_what_to_change_and_quotes_slurm(
    tmp_path: Path, said: str, key: str
) -> None:
    line = explain(tmp_path / "results/here/digits/nodes2-ranks1-repeat1", said)
    assert key in line
    assert said in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ("Requested time limit is invalid (missing or exceeds some limit)", "queues"),
        ("Requested node configuration is not available", "hardware"),
        ("Invalid account or account/partition combination specified", "account"),
    ],
)
def test_a_refused_build_leads_to_the_file_of_the_site(tmp_path: Path, said: str, key: str) -> None:
    line = explain(tmp_path / "logs/here/builds/torch", said)
    assert line == f"slurm/here/site.yaml: {key}: Slurm refuses builds/torch: {said}"


SITE = """
scheduler: slurm
interface: eth0
hardware:
  cpu: {architecture: x86_64}
  gpu: {architecture: x86_64, gpus: 4, account: of-gpus, options: {gres: "gpu:{gpus}"}}
queues:
  main: {hardware: [cpu], options: {partition: genoa}}
  accel: {hardware: [gpu], options: {partition: accel, qos: fast}}
"""
RUN = '{"hardware": "gpu", "queue": "accel", "ranks_per_node": 4}'


def planned(project: Path, options: str) -> Path:
    """A planned run, by the files that say where its options come from."""
    folder = project / "results/here/digits/nodes2-ranks4-repeat1"
    folder.mkdir(parents=True)
    (folder / "job.sbatch").write_text(
        "#!/bin/bash\n" + "".join(f"#SBATCH --{each}\n" for each in options.split())
    )
    (folder / "run.json").write_text(RUN)
    site = project / "slurm/here/site.yaml"
    site.parent.mkdir(parents=True)
    site.write_text(SITE)
    return folder


ASKED = "nodes=2 cpus-per-task=8 mem=4096M time=10 partition=accel qos=fast gres=gpu:4 requeue"


@pytest.mark.parametrize(
    ("said", "keys"),
    [
        ("invalid partition specified: accel", "queues.accel.options.partition: Slurm refuses"),
        ("Required partition not available (inactive or drain)", "queues.accel.options.partition"),
        ("Invalid qos specification", "queues.accel.options.qos: Slurm refuses"),
        (
            "Invalid account or account/partition combination specified",
            "hardware.gpu.account, or slurm/here/site.yaml: queues.accel.options.partition: ",
        ),
        ("Memory specification can not be satisfied", "digits.resources.memory_per_rank and "),
        ("Requested node configuration is not available", "mem=4096M (config.yaml: experiments."),
        ("please name your project", "slurm/here/site.yaml: hardware.gpu.account: Slurm refuses"),
        ("at most 2 GPUs, ask for less", "hardware.gpu.options.gres, or config.yaml: experiments."),
        ("use -q with a QoS of yours", "slurm/here/site.yaml: queues.accel.options.qos"),
        ("no", "the script requests nodes=2 (config.yaml: experiments.digits.scale.nodes); "),
    ],
)
def test_only_the_scripts_own_options_are_named(tmp_path: Path, said: str, keys: str) -> None:
    line = explain(planned(tmp_path, ASKED), said)
    assert keys in line
    assert said in line
    assert "queues.main" not in line
    assert "constraint" not in line


def test_gpus_are_not_blamed_where_none_are_asked_for(tmp_path: Path) -> None:
    folder = planned(tmp_path, "nodes=2 mem=9216M partition=accel")
    assert "gres" not in explain(folder, "Requested node configuration is not available")


FAILED = "Batch job submission failed: "
POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
PLACES = {
    "time": "experiments.digits.resources.time",
    "nodes": "experiments.digits.scale.nodes",
    "mem": "experiments.digits.resources.memory_per_rank",
    "cpus-per-task": "experiments.digits.resources.cpus_per_rank",
    "account": "hardware.gpu.account",
    "partition": "queues.accel.options.partition",
    "qos": "queues.accel.options.qos",
    "gres": "hardware.gpu.options.gres",
    "reservation": "options.reservation",
    "constraint": "options.constraint",
    "nodelist": "options.nodelist",
    "licenses": "options.licenses",
    "wckey": "options.wckey",
}


@pytest.mark.parametrize(
    ("said", "option"),
    [
        # The sentences of slurm_errno.h that sbatch may meet, in Slurm 22.05.
        ("Invalid partition name specified", "partition"),
        ("No partition specified or system default partition", "partition"),
        ("User's group not permitted to use this partition", "partition"),
        ("Requested nodes not in this partition", "nodelist"),
        ("More processors requested than permitted", "cpus-per-task"),
        ("CPU count specification invalid", "cpus-per-task"),
        ("Node count specification invalid", "nodes"),
        ("Requested partition configuration not available now", "partition"),
        ("Required partition not available (inactive or drain)", "partition"),
        ("Partition in DOWN state", "partition"),
        ("Invalid node name specified", "nodelist"),
        ("Invalid feature specification", "constraint"),
        ("Invalid preferred feature specification", "constraint"),
        ("Memory required by task is not available", "mem"),
        ("Invalid account or account/partition combination specified", "account"),
        ("Requested account has breached requested QOS usage threshold", "qos"),
        ("Invalid license specification", "licenses"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "time"),
        ("Access denied to requested reservation", "reservation"),
        ("Requested reservation is invalid", "reservation"),
        ("Invalid wckey specification", "wckey"),
        ("Invalid qos specification", "qos"),
        ("Invalid generic resource (gres) specification", "gres"),
        ("Duplicate generic resource (gres) specification", "gres"),
        ("Invalid GRES specification (with and without type identification)", "gres"),
        ("Insufficient GRES available in allocation", "gres"),
        (POLICY, "nodes"),
        # A limit by its name says more than the sentence after it.
        (f"QOSMaxWallDurationPerJobLimit; {FAILED}{POLICY}", "time"),
        (f"AssocMaxWallDurationPerJobLimit; {FAILED}{POLICY}", "time"),
        (f"QOSMaxNodePerUserLimit; {FAILED}{POLICY}", "nodes"),
        (f"QOSMinNode; {FAILED}{POLICY}", "nodes"),
        (f"AssocMaxCpuMinutesPerJobLimit; {FAILED}{POLICY}", "time"),
        (f"QOSMaxCpuPerJobLimit; {FAILED}{POLICY}", "cpus-per-task"),
        (f"QOSMaxGRESPerJob; {FAILED}{POLICY}", "gres"),
        (f"MaxMemPerLimit; {FAILED}Memory required by task is not available", "mem"),
        # What a plugin adds does not hide Slurm's own reason.
        (f"note: the time limit of accel is 1 h; {FAILED}Invalid qos specification", "qos"),
        (
            f"your account is fine, see the partitions; {FAILED}Invalid feature specification",
            "constraint",
        ),
    ],
)
def test_slurms_sentences_lead_to_their_own_key_first(
    tmp_path: Path, said: str, option: str
) -> None:
    folder = planned(tmp_path, ASKED)
    keys = explain(folder, said).partition(": Slurm refuses")[0].partition(", or ")[0]
    assert keys.endswith(PLACES[option]) or f"{PLACES[option]} and " in keys, keys
    assert not wait_for(said, has_jobs=False)


@pytest.mark.parametrize(
    "said",
    [
        f"AssocMaxSubmitJobLimit; {FAILED}{POLICY}",
        f"QOSMaxSubmitJobPerUserLimit; {FAILED}{POLICY}",
        f"AssocGrpSubmitJobsLimit; {FAILED}{POLICY}",
        f"QOSGrpSubmitJobsLimit; allocation failure: {POLICY}",
        f"MaxSubmitJobsPerAccount; {FAILED}{POLICY}",
        "Slurm temporarily unable to accept job, sleeping and retrying",
        f"{FAILED}Unable to create job record, try again",
        f"{FAILED}System submissions disabled",
        "Job can not start due to maintenance reservation.",
        "RPC rate limit exceeded",
        "[*] Too many simultaneous jobs in queue. --> Max job limits for user = 3 jobs",
        "kestrel: you submit too fast, at most 10 submissions a minute",
        "you have reached the maximum number of running jobs",
        "your limit of 20 jobs is reached",
        "Job limit exceeded; try again later",
    ],
)
def test_what_time_mends_is_waited_for(said: str) -> None:
    assert wait_for(said, has_jobs=False)


@pytest.mark.parametrize(
    "said",
    [
        "Requested time limit is invalid (missing or exceeds some limit)",
        "too many nodes for a job of this queue",
        "Max job size is 4 nodes",
        "maximum job time is 24 h",
        "maximum number of nodes per job is 8",
        "please name your project and try again",
        f"QOSMaxNodePerJobLimit; {FAILED}{POLICY}",
        f"QOSMaxNodePerUserLimit; {FAILED}{POLICY}",
        "jobs of this kind go to another queue",
        "Requested reservation is invalid",
        "Maximum memory of jobs here is 4G",
    ],
)
def test_what_time_does_not_mend_is_refused(said: str) -> None:
    assert not wait_for(said, has_jobs=True)


def test_a_slurm_that_names_no_limit_means_perhaps_the_number_of_jobs() -> None:
    assert wait_for(f"{FAILED}{POLICY}", has_jobs=True)
    assert not wait_for(f"{FAILED}{POLICY}", has_jobs=False)


@pytest.mark.parametrize(
    "said",
    [
        "Requesting memory by node is not supported. Use --mem-per-cpu.",
        "use --mem-per-gpu",
        "--mem is not allowed here",
        "please remove the --mem option",
        f"--mem may not be used; {FAILED}Unspecified error",
        "memory per cpu has to be said",
    ],
)
def test_sites_that_want_memory_otherwise(tmp_path: Path, said: str) -> None:
    line = explain(planned(tmp_path, ASKED), said)
    assert line.startswith(
        'slurm/here/site.yaml: options: write `mem-per-cpu: "{memory_per_cpu}M"`'
    )
    assert said in line


def test_memory_that_is_too_much_is_the_run_s(tmp_path: Path) -> None:
    said = "not enough memory on any node: at most 4000M"
    assert "resources.memory_per_rank" in explain(planned(tmp_path, ASKED), said)


def test_the_queue_in_one_line() -> None:
    statuses = [
        Status(State.RUNNING, "1"),
        Status(State.PENDING, "2", reason="Priority"),
        Status(State.PENDING, "3", reason="Priority"),
        Status(State.PENDING, "4", reason="Resources"),
        Status(State.COMPLETED, "5"),
    ]
    assert (
        describe_queue(statuses, "scancel")
        == "jobs: 1 running, 3 pending (Priority 2, Resources 1)"
    )
    assert describe_queue([], "scancel") == ""


def test_the_queue_says_what_to_do_where_waiting_does_not_help() -> None:
    held = explain_wait("launch failed requeued held")
    assert held.stuck
    statuses = [
        Status(
            State.REQUEUED, str(number), reason="launch failed requeued held", stuck=held.meaning
        )
        for number in range(7, 12)
    ]
    assert describe_queue(statuses, "scancel") == (
        "jobs: 5 requeued (launch failed requeued held 5); waiting will not help jobs 7, 8, 9 "
        "and 2 more: a node failed to start it, so Slurm holds it; release it with `scontrol "
        "release`, or give up by `scancel`"
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:07", 7),
        ("10:00", 600),
        ("1:30:00", 5400),
        ("1-00:00:00", 86_400),
        ("2-03", 183_600),
        ("2-03:30", 185_400),
        ("30", 1800),
        ("infinite", None),
        ("UNLIMITED", None),
        ("INVALID", None),
        ("", None),
    ],
)
def test_spans_of_time_as_slurm_writes_them(text: str, seconds: float | None) -> None:
    assert span_seconds(text) == seconds
