"""Driver and job read each other's files in a run's folder."""

import ast
import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from agent_job import ADDRESS, PYTHON, RECORD_A_STEP, RUNTIME
from hypothesis import given, settings
from hypothesis import strategies as st
from run_files import run_spec

from argosy.run_folder.folder import RunFolder
from argosy.run_folder.job_file import add_job, change_job, read_jobs
from argosy.run_folder.models import (
    Claim,
    Failure,
    File,
    Job,
    NodeStatus,
    RunFolderError,
    Verdict,
    read_spec,
)
from argosy.runtime.contract import files
from argosy.runtime.contract.layout import SCHEMA_VERSION
from argosy.runtime.contract.run import CheckpointPlan, Data, Image, RunSpec, Variant
from argosy_common.files import write_json

TEXTS = st.text(max_size=20)
WHOLE = st.integers(0, (1 << 31) - 1)
TIMES = st.floats(0, 1e10)
MAYBE_TEXT = st.none() | TEXTS
DIGESTS = st.from_regex("sha256:[0-9a-f]{64}", fullmatch=True)
SPECS = st.builds(
    RunSpec,
    spec=MAYBE_TEXT,
    run_id=TEXTS,
    experiment=TEXTS,
    site=TEXTS,
    hardware=MAYBE_TEXT,
    queue=MAYBE_TEXT,
    nodes=st.integers(1, 1 << 8),
    ranks_per_node=st.integers(1, 1 << 10),
    repeat=WHOLE,
    scaling=st.sampled_from(["strong", "weak"]),
    runtime=st.sampled_from([None, "container", "native"]),
    image=st.none() | st.builds(Image, name=TEXTS, digest=DIGESTS),
    command=st.lists(TEXTS, min_size=1).map(tuple),
    launcher=MAYBE_TEXT,
    rank_environment=st.dictionaries(TEXTS, TEXTS),
    throughput=MAYBE_TEXT,
    time_limit_s=st.none() | WHOLE,
    checkpoints=st.none() | st.builds(CheckpointPlan, warning_s=WHOLE, requeues=WHOLE),
    variant=st.none() | st.builds(Variant, of=TEXTS, data=st.sampled_from(["synthetic", "warm"])),
    timeline=st.booleans(),
    hang_timeout_s=st.none() | WHOLE,
    independent=st.booleans(),
    gpus_per_rank=st.none() | WHOLE,
    allocation=MAYBE_TEXT,
    data=st.none()
    | st.dictionaries(
        TEXTS, st.builds(Data, path=TEXTS, write=st.booleans(), digest=st.booleans())
    ),
    metrics=st.none() | st.dictionaries(TEXTS, TEXTS),
)
VERDICTS = st.builds(
    Verdict,
    run_id=TEXTS,
    attempt=TEXTS,
    spec=MAYBE_TEXT,
    programs=st.none() | st.dictionaries(TEXTS, TEXTS),
    state=st.sampled_from(["completed", "failed", "interrupted", "cancelled"]),
    started=TIMES,
    ended=TIMES,
    seconds=TIMES,
    hosts=st.lists(MAYBE_TEXT),
    failure=st.none() | st.builds(Failure, node=st.none() | WHOLE, rank=st.none() | WHOLE, cause=TEXTS),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(SPECS)
def test_what_the_driver_plans_the_jobs_programs_read(spec: RunSpec) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.json")
        write_json(path, spec.content())
        assert files.read_object(str(path)) == spec.content()
        assert read_spec(path, Path(folder)) == spec


@settings(max_examples=200, deadline=None)
@given(VERDICTS)
def test_what_the_jobs_programs_write_the_driver_reads(verdict: Verdict) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder, "results/site/study/run"))
        run.attempt_dir("7.0").mkdir(parents=True)
        files.write_json(str(run.attempt_dir("7.0") / "verdict.json"), verdict.content())
        assert run.verdict("7.0") == verdict


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "results/site/study/run"
    folder.mkdir(parents=True)
    return folder


def ran(run_dir: Path, program: str) -> RunSpec:
    """Execute a run of one node with the job's programs, like its batch script."""
    spec = run_spec(
        spec="0123",
        ranks_per_node=2,
        command=[PYTHON, "-c", program],
        launcher="plain",
        rank_environment={"RANK": "{rank}"},
        time_limit_s=60,
    )
    write_json(run_dir / "run.json", spec.content())
    call("claim.py", run_dir, "7.0", "0123", run_dir)
    holder = subprocess.Popen(
        [PYTHON, RUNTIME / "reserve_port.py", ADDRESS], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout
    variables = {
        "ARGOSY_RUN_DIR": str(run_dir),
        "ARGOSY_ATTEMPT": "7.0",
        "ARGOSY_NODE": "0",
        "ARGOSY_NODES": "1",
        "ARGOSY_RANKS_PER_NODE": "2",
        "ARGOSY_HEAD_ADDRESS": ADDRESS,
        "ARGOSY_HEAD_PORT": holder.stdout.readline().strip(),
        "ARGOSY_INTERFACE": "lo",
        "ARGOSY_TOKEN": "secret",
    }
    call("agent", **variables)
    holder.terminate()
    holder.wait()
    call("verdict.py", run_dir, "7.0")
    return spec


def call(program: str, *arguments: object, **variables: str) -> None:
    """Run one of the job's programs with the distribution's Python; ignore its exit status."""
    command = [PYTHON, RUNTIME / program, *map(str, arguments)]
    subprocess.run(command, env={**os.environ, **variables}, capture_output=True, timeout=60)


def test_a_run_is_read_as_its_programs_wrote_it(run_dir: Path) -> None:
    spec = ran(run_dir, RECORD_A_STEP)
    run = RunFolder(run_dir)
    assert (run.attempts, run.last_started) == (["7.0"], "7.0")
    claim, verdict = run.claim("7.0"), run.verdict("7.0")
    assert claim and verdict
    assert (claim.run, claim.continues) == (spec, None)
    assert (verdict.state, verdict.spec, verdict.failure) == ("completed", "0123", None)
    assert run.result == verdict
    (node,) = run.nodes("7.0")
    assert (node.state, node.host) == ("completed", verdict.hosts[0])
    assert claim.unix <= node.started <= (node.ended or 0.0)


def test_a_failure_is_read_as_its_programs_wrote_it(run_dir: Path) -> None:
    ran(run_dir, "import sys, os; sys.exit(3 * (os.environ['RANK'] == '1'))")
    run = RunFolder(run_dir)
    verdict = run.verdict("7.0")
    assert verdict and verdict.failure and run.result is None
    assert verdict.failure == Failure(node=0, rank=1, cause="exit code 3")
    (node,) = run.nodes("7.0")
    assert node.failure == verdict.failure


@pytest.mark.parametrize(
    ("name", "model", "more"),
    [
        ("result.json", Verdict, set()),
        ("attempts/7.0/claim.json", Claim, {"log_begin", "utc_offset_s"}),
        ("records/7.0/node-0.json", NodeStatus, {"ranks", "ranks_started", "killed_for_memory"}),
    ],
)
def test_no_key_of_a_file_is_unknown(
    run_dir: Path, name: str, model: type[File], more: set[str]
) -> None:
    ran(run_dir, RECORD_A_STEP)
    assert {*json.loads((run_dir / name).read_text())} - more <= {*model.model_fields}


def test_the_version_stands_once() -> None:
    found = [
        path.name
        for path in RUNTIME.parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign)
        and ast.unparse(node) == f"SCHEMA_VERSION = {SCHEMA_VERSION}"
    ]
    assert found == ["layout.py"]


def test_jobs_keep_what_their_scheduler_notes(run_dir: Path) -> None:
    assert read_jobs(run_dir) == []
    add_job(run_dir, Job(scheduler="slurm", job_id="7", submitted=1.5, cluster="west"))
    add_job(run_dir, Job(scheduler="slurm", job_id="8"))
    change_job(run_dir, "7", collected=True)
    first, second = read_jobs(run_dir)
    assert (first.job_id, first.collected, first.model_extra) == ("7", True, {"cluster": "west"})
    assert (second.job_id, second.collected) == ("8", False)


@pytest.mark.parametrize("version", [1, 3, "2", True, None])
def test_another_version_is_named_with_who_wrote_it(run_dir: Path, version: object) -> None:
    path = run_dir / "run.json"
    path.write_text(json.dumps({"schema_version": version}))
    with pytest.raises(RunFolderError) as caught:
        read_spec(path, run_dir.parents[1])
    said = str(caught.value)
    assert (
        f"its schema_version is {version}; this Argosy reads 2; it was written by another" in said
    )
    writer = {"version": "0.8.1\x1b[31m", "git_commit": "0123456789abcdef"}
    (run_dir / "provenance.json").write_text(json.dumps({"argosy": writer}))
    by = r"it was written by Argosy 0\.8\.1 \(0123456789ab\): use that version"
    with pytest.raises(RunFolderError, match=by):
        read_spec(path, run_dir.parents[1])
