"""What Slurm says, understood: states, refusals, and the difference between no and no answer."""

from pathlib import Path

import pytest

from argosy.schedulers.base import State, Status, describe_queue
from argosy.schedulers.slurm import commands, spans
from argosy.schedulers.slurm.commands import MissingError, NoAnswerError, SlurmError, call
from argosy.schedulers.slurm.reasons import explain as explain_wait
from argosy.schedulers.slurm.refusals import explain, wait_for


def program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a stand-in for a command of Slurm's in front of the others: only its words matter here."""
    path = folder / "squeue"
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
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
    left = commands.environment()
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
        ("Munge encode failed: Failed to access socket", "munge does not run on this machine"),
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
        ("no", "the script asks for nodes=2 (config.yaml: experiments.digits.scale.nodes); "),
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


def test_a_full_queue_is_no_refusal() -> None:
    assert wait_for("sbatch: error: QOSMaxSubmitJobPerUserLimit", has_jobs=False)
    assert not wait_for("Invalid partition name specified", has_jobs=True)


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
        "jobs: 5 requeued (launch failed requeued held 5); waiting will not help jobs 7, 8, 9 and 2 more: "
        "a node failed to start it, and Slurm holds it; `scontrol release` it, or give up by `scancel`"
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
    assert spans.seconds(text) == seconds
