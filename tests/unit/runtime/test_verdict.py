"""The verdict from the nodes' status files."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from run_files import run_content

from argosy.runtime.verdict import main
from argosy.schedulers import slurm

CONCRETE = {"node": 1, "rank": 1, "cause": "killed by signal 9 (SIGKILL)", "at": 15.0}
VANISHED = {
    "node": 1,
    "rank": None,
    "cause": "its agent vanished (no heartbeat for 5 s)",
    "at": 15.0,
}
LOST = "the agent of node 1 was killed or never started; see logs/7.0/node-1.log"
KILLED = "the agent of node 1 was killed; see logs/7.0/node-1.log"


class Run:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = folder / "records" / "7.0"
        self.records.mkdir(parents=True)
        run = run_content(run_id="nodes2-ranks1-repeat1", nodes=2, independent=True)
        (folder / "run.json").write_text(json.dumps(run))
        self.attempt = folder / "attempts" / "7.0"
        self.attempt.mkdir(parents=True)
        self.logs = folder / "logs" / "7.0"
        self.logs.mkdir(parents=True)
        (self.logs / "node-1.log").write_text("argosy: node 1 of 2: agent started\n")

    def node(self, number: int, state: str, failure: Any = None, **more: Any) -> None:
        status = {
            "schema_version": 2,
            "node": number,
            "host": f"host{number}",
            "state": state,
            "started": 10.0 + number,
            "ended": None if state == "running" else 20.0 + number,
            "failure": failure,
            **more,
        }
        (self.records / f"node-{number}.json").write_text(json.dumps(status))

    def judge(self, *reason: str) -> tuple[int, Any]:
        code = main([str(self.folder), "7.0", *reason])
        return code, json.loads((self.attempt / "verdict.json").read_text())

    @property
    def result(self) -> Path:
        return self.folder / "result.json"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run in a Slurm job."""
    monkeypatch.setenv("ARGOSY_LOG_WORDS", str(slurm.LOG_WORDS))
    return Run(tmp_path)


def test_completed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.node(0, "completed")
    run.node(1, "completed")
    (run.records / ".reserve-1").write_text("left by a killed agent")
    run.result.write_text("of an earlier attempt")
    code, verdict = run.judge()
    assert code == 0
    assert verdict == {
        "schema_version": 2,
        "run_id": "nodes2-ranks1-repeat1",
        "attempt": "7.0",
        "state": "completed",
        "started": 10.0,
        "ended": 20.0,
        "seconds": 10.0,
        "hosts": ["host0", "host1"],
        "failure": None,
        "spec": None,
    }
    assert json.loads(run.result.read_text()) == verdict
    assert capsys.readouterr().out == "argosy: run nodes2-ranks1-repeat1 completed after 10.0 s\n"
    assert not list(run.records.glob(".*"))


@pytest.mark.parametrize("ahead", [-240.0, 240.0])
@pytest.mark.parametrize("ends", ["completed", "failed"])
def test_a_job_takes_as_long_as_its_first_node(run: Run, ahead: float, ends: str) -> None:
    """The other node's clock goes four minutes wrong."""
    run.node(0, "completed", started=1000.0, ended=1010.0)
    failure = {**CONCRETE, "at": 1010.0 + ahead} if ends == "failed" else None
    run.node(1, ends, failure, started=1001.0 + ahead, ended=1010.0 + ahead)
    verdict = run.judge()[1]
    assert (verdict["state"], verdict["seconds"]) == (ends, 10.0)


@pytest.mark.parametrize("state", [None, "running", "cut off", "of another schema"])
def test_a_node_without_a_last_word_is_lost(
    run: Run, state: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    run.node(0, "completed")
    if state == "running":
        run.node(1, state)
    elif state == "cut off":
        (run.records / "node-1.json").write_text('{"schema_version": 2, "node')
    elif state:
        run.node(1, "completed", schema_version=1)
    run.result.write_text("of an earlier attempt")
    code, verdict = run.judge()
    lost = KILLED if state == "running" else LOST
    assert (code, verdict["state"], verdict["failure"]["cause"]) == (1, "failed", lost)
    assert verdict["hosts"] == ["host0", "host1" if state == "running" else None]
    assert run.result.read_text() == "of an earlier attempt"
    line = f"argosy: run nodes2-ranks1-repeat1 failed: node 1: {lost}\n"
    assert capsys.readouterr().out == line


def test_only_a_log_that_is_there_is_named(run: Run) -> None:
    run.node(0, "completed")
    (run.logs / "node-1.log").unlink()
    lost = "the agent of node 1 was killed or never started"
    assert run.judge()[1]["failure"]["cause"] == f"{lost}; it left no log"


def test_the_job_s_own_log_stands_in_for_a_node_s(run: Run) -> None:
    run.node(0, "completed")
    (run.logs / "node-1.log").unlink()
    (run.logs / "job.log").write_text("something\n")
    assert run.judge()[1]["failure"]["cause"].endswith("; see logs/7.0/job.log")


def test_a_node_that_is_known_not_to_have_started(run: Run) -> None:
    said = {"schema_version": 2, "node": 1, "host": "n2", "cause": "no python", "at": 12.0}
    (run.attempt / "not-started.json").write_text(json.dumps(said))
    run.node(0, "failed", VANISHED)
    verdict = run.judge()[1]
    assert verdict["failure"] == {"node": 1, "rank": None, "cause": "no python", "at": 12.0}
    assert verdict["hosts"] == ["host0", "n2"]


def test_no_node_wrote_anything(run: Run) -> None:
    code, verdict = run.judge()
    assert (code, verdict["seconds"], verdict["hosts"]) == (1, 0.0, [None, None])


@pytest.mark.parametrize(
    ("head", "other", "cause"),
    [
        (CONCRETE, ("running", None), CONCRETE["cause"]),
        (VANISHED, None, LOST),
        (VANISHED, ("failed", CONCRETE), CONCRETE["cause"]),
        (VANISHED, ("completed", None), VANISHED["cause"]),
    ],
    ids=["known before missing", "missing before silence", "own word", "only silence"],
)
def test_the_root_cause(run: Run, head: Any, other: tuple[str, Any] | None, cause: str) -> None:
    run.node(0, "failed", head)
    if other:
        run.node(1, *other)
    code, verdict = run.judge()
    assert (code, verdict["failure"]["cause"]) == (1, cause)


def test_a_node_that_missed_the_end_of_a_completed_run_does_not_fail_it(run: Run) -> None:
    """The head completes a run only after all ranks of all nodes have ended well."""
    run.node(0, "completed")
    run.node(1, "failed", {**VANISHED, "node": 0})
    assert run.judge()[0] == 0


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_node_that_stood_still_is_the_one_that_was_missed_first(run: Run, stopped: int) -> None:
    """It misses the other node when it goes on."""
    for node in (0, 1):
        at = 30.0 if node == stopped else 15.0
        run.node(node, "failed", {**VANISHED, "node": 1 - node, "at": at})
    assert run.judge()[1]["failure"]["node"] == stopped


@pytest.mark.parametrize(
    ("other", "failure", "state"),
    [
        ("cancelled", None, "cancelled"),
        ("running", None, "cancelled"),
        ("failed", VANISHED, "cancelled"),
        ("failed", {**CONCRETE, "at": 30.0}, "cancelled"),
        ("failed", CONCRETE, "failed"),
    ],
)
def test_cancelled_unless_it_failed_before(run: Run, other: str, failure: Any, state: str) -> None:
    run.node(0, "cancelled")
    run.node(1, other, failure)
    code, verdict = run.judge()
    assert (code, verdict["state"]) == ({"cancelled": 130, "failed": 1}[state], state)
    assert (verdict["failure"] is None) == (state == "cancelled")
    assert not run.result.exists()


def test_a_second_call_repeats_the_verdict_and_makes_up_for_a_missing_result(run: Run) -> None:
    run.node(0, "completed")
    run.node(1, "completed")
    first = run.judge()
    run.result.unlink()
    run.node(1, "running")
    assert run.judge() == first
    assert json.loads(run.result.read_text()) == first[1]


def test_wrong_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert main([str(tmp_path), "7.0"]) == 2
    assert "run.json" in capsys.readouterr().err


def slurm_says(run: Run, text: str, before: str = "") -> None:
    (run.folder / "logs").mkdir(exist_ok=True)
    said = f"{before}slurmstepd-host0: error: *** {text} ***\n"
    (run.folder / "logs/scheduler-7.log").write_text(said)
    claim = {
        "schema_version": 2,
        "unix": time.time(),
        "continues": None,
        "log_begin": len(before),
        "utc_offset_s": time.localtime().tm_gmtoff,
    }
    (run.attempt / "claim.json").write_text(json.dumps(claim))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "JOB 7 ON host0 CANCELLED AT 2026-11-20T16:37:46 DUE TO TIME LIMIT",
            "time limit; raise resources.time, or let the program save checkpoints",
        ),
        ("JOB 7 ON host0 CANCELLED AT 2026-11-20T16:37:46 DUE TO JOB REQUEUE", "job requeue"),
        (
            "JOB 7 ON host0 CANCELLED AT 2026-11-20T16:37:46 DUE TO NODE FAILURE, SEE SLURMCTLD "
            "LOG FOR DETAILS",
            "node failure",
        ),
    ],
)
def test_slurm_s_own_word_is_the_cause(run: Run, text: str, cause: str) -> None:
    run.node(0, "cancelled")
    run.node(1, "cancelled")
    slurm_says(run, text)
    _, verdict = run.judge()
    assert verdict["state"] == "failed"
    assert verdict["failure"]["cause"] == f"ended by Slurm: {cause}"


EARLY = {**VANISHED, "at": time.mktime((2026, 11, 20, 16, 30, 0, 0, 0, -1))}
"""Seven minutes before Slurm ended the job."""


@pytest.mark.parametrize("end", ["TIME LIMIT", "PREEMPTION", "JOB REQUEUE"])
@pytest.mark.parametrize("failure", [EARLY, {**CONCRETE, "at": EARLY["at"]}])
def test_what_agents_knew_before_outranks_the_end_that_slurm_brought(
    run: Run, failure: Any, end: str
) -> None:
    run.node(0, "failed", failure)
    run.node(1, "running")
    slurm_says(run, f"JOB 7 ON host0 CANCELLED AT 2026-11-20T16:37:46 DUE TO {end}")
    cause = failure["cause"] if failure["rank"] else KILLED
    assert run.judge("time limit")[1]["failure"]["cause"] == cause


def test_what_ranks_say_of_slurm_s_signal_is_a_consequence_of_the_end(run: Run) -> None:
    at_the_end = time.mktime((2026, 11, 20, 16, 37, 47, 0, 0, -1))
    run.node(0, "failed", {**CONCRETE, "node": 0, "at": at_the_end})
    slurm_says(run, "JOB 7 ON host0 CANCELLED AT 2026-11-20T16:37:46 DUE TO TIME LIMIT")
    assert run.judge()[1]["failure"]["cause"].startswith("ended by Slurm: time limit")


def test_a_node_failure_explains_why_the_agent_vanished(run: Run) -> None:
    run.node(0, "failed", EARLY)
    slurm_says(
        run,
        "JOB 7 ON host0 CANCELLED AT 2026-11-20T16:37:46 DUE TO NODE FAILURE, SEE SLURMCTLD LOG",
    )
    assert run.judge()[1]["failure"]["cause"] == "ended by Slurm: node failure"


def test_a_node_that_was_waited_for_in_vain(run: Run) -> None:
    run.node(0, "failed", VANISHED)
    run.node(1, "running")
    (run.attempt / "lost.json").write_text(json.dumps({"schema_version": 2, "nodes": [1]}))
    failure = run.judge()[1]["failure"]
    assert failure["node"] == 1
    assert failure["cause"].startswith(
        "its agent vanished and the node stopped responding: it crashed"
    )


@pytest.mark.parametrize("nodes", [None, 1, "1", [[]], {}])
def test_a_damaged_note_of_silent_nodes_changes_nothing(run: Run, nodes: Any) -> None:
    run.node(0, "failed", VANISHED)
    (run.attempt / "lost.json").write_text(json.dumps({"schema_version": 2, "nodes": nodes}))
    assert run.judge()[1]["failure"]["cause"] == LOST


def test_a_job_that_was_cancelled_before_it_could_say_anything_is_cancelled(run: Run) -> None:
    run.node(0, "running")
    code, verdict = run.judge("cancelled job")
    assert (code, verdict["state"], verdict["failure"]) == (130, "cancelled", None)


def test_a_failure_that_came_before_scancel_stays_one(run: Run) -> None:
    run.node(1, "failed", CONCRETE)
    _, verdict = run.judge("cancelled job")
    assert (verdict["state"], verdict["failure"]) == ("failed", CONCRETE)


OUT_OF_MEMORY = (
    "Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes may have been killed"
)


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (
            f"slurmstepd-host0: error: {OUT_OF_MEMORY}\nsrun: error: host0: task 0: Out Of Memory\n",
            f": Slurm reports a lack of memory ({OUT_OF_MEMORY}): raise resources.memory_per_rank",
        ),
        (
            "slurmstepd-host0: error: *** STEP 7.0 ON host0 CANCELLED AT 2026-11-20T16:37:46 ***\n",
            ": Slurm was told to end it (STEP 7.0 ON host0 CANCELLED)",
        ),
        (
            '/spool/slurm_script: line 112:   661 Killed                  "${srun_command[@]}" bash\n',
            ": its launcher srun was ended (Killed)",
        ),
        # A launcher that stays because of a lost node is ended by Argosy itself.
        ("*** STEP 7.0 ON host0 CANCELLED AT 2026-11-20T16:37:46 DUE TO NODE FAILURE ***\n", ""),
        ("srun: error: host1: task 1: Killed\n", ""),
    ],
)
def test_why_agents_were_killed_is_in_the_job_s_log(run: Run, log: str, why: str) -> None:
    """Neither a killed agent nor a killed launcher can say it."""
    run.node(0, "running")
    run.node(1, "running")
    (run.logs / "job.log").write_text(f"argosy: node 0 of 2: agent started\n{log}")
    cause = run.judge()[1]["failure"]["cause"]
    assert cause.partition("; see ")[0] == f"the agent of node 0 was killed{why}"


def test_a_requeue_names_the_node_that_launched_nothing(run: Run) -> None:
    run.node(0, "cancelled")
    slurm_says(run, "JOB 7 ON host0 CANCELLED AT 2026-11-20T16:37:46 DUE TO JOB REQUEUE")
    why = "Task launch for StepId=7.0 failed on node host1: Job prolog failed"
    (run.logs / "job.log").write_text(f"srun: error: {why}\n")
    assert run.judge()[1]["failure"]["cause"] == f"ended by Slurm: job requeue; {why}"


def test_a_launcher_that_argosy_ended_is_no_cause(run: Run) -> None:
    run.node(0, "running")
    run.node(1, "running")
    (run.attempt / "lost.json").write_text(json.dumps({"schema_version": 2, "nodes": [0, 1]}))
    (run.logs / "job.log").write_text(
        "*** STEP 7.0 ON host0 CANCELLED AT 2026-11-20T16:37:46 ***\n"
    )
    assert "CANCELLED" not in run.judge()[1]["failure"]["cause"]


def test_what_slurm_said_of_an_earlier_attempt_does_not_count(run: Run) -> None:
    run.node(0, "cancelled")
    run.node(1, "cancelled")
    requeued = "*** JOB 7 ON host0 CANCELLED AT 2026-11-20T16:37:46 DUE TO JOB REQUEUE ***\n"
    slurm_says(run, "JOB 7 ON host0 CANCELLED AT 2026-11-20T16:37:46", before=requeued)
    _, verdict = run.judge()
    assert (verdict["state"], verdict["failure"]) == ("cancelled", None)


@pytest.mark.parametrize(
    "at",
    [
        "2026-11-20T16:37:46",
        "1970-01-01T00:00:01",
        "Tomorr 09:00",
        "16:37:46",
        "N/A",
        "20 Nov 16:37",
    ],
)
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "UTC"])
def test_the_time_that_slurm_writes_is_of_no_account(
    run: Run, monkeypatch: pytest.MonkeyPatch, zone: str, at: str
) -> None:
    """It has the node's time zone and the user's format, unlike the reader's."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        run.node(0, "cancelled")
        run.node(1, "cancelled")
        slurm_says(run, f"JOB 7 ON host0 CANCELLED AT {at} DUE TO TIME LIMIT")
        _, verdict = run.judge()
    finally:
        monkeypatch.undo()
        time.tzset()
    assert verdict["failure"]["cause"].startswith("ended by Slurm: time limit")


def test_ranks_that_saved_and_left_make_it_interrupted(run: Run) -> None:
    run.node(0, "interrupted")
    run.node(1, "interrupted")
    code, verdict = run.judge()
    assert (code, verdict["state"]) == (75, "interrupted")
    assert not run.result.exists()


def test_a_stale_attempt_publishes_nothing(run: Run) -> None:
    run.node(0, "completed")
    run.node(1, "completed")
    (run.folder / "attempt").write_text("8.0\n")
    code, verdict = run.judge()
    assert (code, verdict["state"]) == (1, "failed")
    assert verdict["failure"]["cause"] == "superseded: the run was started again as 8.0"
    assert not run.result.exists()


@pytest.mark.parametrize("planned", ["of this job", "of another command"])
def test_a_result_is_of_what_the_run_is_planned_for(run: Run, planned: str) -> None:
    """A job that ran on while the study changed has measured something else."""
    claim = {"schema_version": 2, "unix": 1000.0, "spec": "of this job", "continues": None}
    (run.attempt / "claim.json").write_text(json.dumps(claim))
    asked = run_content(run_id="nodes2-ranks1-repeat1", nodes=2, spec=planned)
    (run.folder / "run.json").write_text(json.dumps(asked))
    run.node(0, "completed")
    run.node(1, "completed")
    _, verdict = run.judge()
    assert verdict["spec"] == "of this job"
    assert run.result.exists() == (planned == "of this job")
    assert (verdict["state"] == "completed") == run.result.exists()
    if not run.result.exists():
        assert verdict["failure"]["cause"] == "superseded: it was replanned meanwhile"


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (
            [2, 0],
            "the kernel killed a process of this job for lack of memory on node 0, though all",
        ),
        ([1, 1], " on node 0 and 1 more, though all ranks ended well"),
        ([0, 0], ""),
        ([None, "many"], ""),
        ([-1, True], ""),
    ],
)
def test_processes_that_were_killed_for_memory_are_told(
    run: Run, capsys: pytest.CaptureFixture[str], counts: list[object], said: str
) -> None:
    """A completed run gets a remark; a failed run has it in its cause."""
    for node, count in enumerate(counts):
        run.node(node, "completed", killed_for_memory=count)
    code, verdict = run.judge()
    assert (code, len(verdict.get("remarks", []))) == (0, bool(said))
    assert said in "".join(verdict.get("remarks", []))
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (
            [(1200, 0, 0), (34, 0, 0)],
            ["the pattern of metrics.loss matched none of the 1,234 lines"],
        ),
        ([(9, 0, 0), (9, 2, 1)], []),
        (
            [(9, 4, 0), None],
            ["the pattern of metrics.loss found no readable number in 4 matches"],
        ),
        ([None, None], []),
        ([("many", -1, True), None], ["the pattern of metrics.loss matched none of the 0 lines"]),
    ],
)
def test_metrics_without_a_value_are_told(
    run: Run, capsys: pytest.CaptureFixture[str], counts: list[Any], said: list[str]
) -> None:
    """A value from one searched rank suffices; other metrics are ignored."""
    content = json.loads((run.folder / "run.json").read_text())
    (run.folder / "run.json").write_text(json.dumps({**content, "metrics": {"loss": "(x)"}}))
    for node, count in enumerate(counts):
        metrics = dict(zip(("lines", "matches", "values"), count, strict=True)) if count else None
        other = {"lines": 1, "matches": 0, "values": 0}
        found = {"loss": metrics, "other": other} if metrics else "none"
        run.node(node, "completed", metrics=found)
    code, verdict = run.judge()
    assert (code, verdict["state"], verdict.get("remarks", [])) == (0, "completed", said)
    assert "".join(said) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ([None, 45.2], "rank 1 ended with 0, 45 s after a warning that it handles by itself"),
        ([50.0, 40.0], "rank 0 and 1 more ended with 0, 40 s after a warning"),
        ([None, None], ""),
        (["soon", True], ""),
    ],
)
def test_an_end_that_may_be_early_is_told(run: Run, after: list[object], said: str) -> None:
    for node, seconds in enumerate(after):
        run.node(node, "completed", ranks=[7, {"rank": node, "unproven_s": seconds}])
    code, verdict = run.judge()
    assert code == 0
    assert said in "".join(verdict.get("remarks", []))
    assert ("remarks" in verdict) == bool(said)
