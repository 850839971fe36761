"""The step recorder, in separate programs."""

import json
import os
import subprocess
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_job import PYTHON, RUNTIME, require_namespaces
from step_files import all_steps

from argosy.runtime.contract.layout import SCHEMA_VERSION
from argosy.runtime.contract.steps import ROW_BYTES, Header, Step, header_of


def run(
    program: str, path: Path | None, wrapper: Sequence[str] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(RUNTIME / "python"), **environment}
    if path:
        variables["ARGOSY_STEPS_FILE"] = str(path)
    program = "import time, os, argosy_steps\nsteps = argosy_steps.Recorder()\n" + textwrap.dedent(
        program
    )
    command = [*wrapper, PYTHON, "-c", program]
    return subprocess.run(command, env=variables, capture_output=True, text=True)


def recorded(program: str, folder: Path, **environment: str) -> list[dict[str, Any]]:
    """Return the lines that a program records; `steps_in(folder)` returns its steps."""
    done = run(program, folder / "rank-5.steps", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in (folder / "rank-5.jsonl").read_text().splitlines()]


def steps_in(folder: Path) -> Sequence[Step]:
    return all_steps(folder / "rank-5.steps")


def test_the_header_says_who_and_when_by_both_clocks(tmp_path: Path) -> None:
    (header,) = recorded("", tmp_path, ARGOSY_RANK="5", ARGOSY_LOCAL_RANK="1", ARGOSY_NODE="2")
    assert (header["kind"], header["schema_version"]) == ("header", SCHEMA_VERSION)
    assert (header["rank"], header["local_rank"], header["node"]) == (5, 1, 2)
    assert header["host"]
    assert header["pid"] > 0
    assert abs(header["unix"] - time.time()) < 60
    assert abs(header["monotonic"] - time.monotonic()) < 60
    of_steps = header_of((tmp_path / "rank-5.steps").read_bytes())
    assert of_steps == Header(5, 2, header["unix"], header["monotonic"])
    for name in ("rank-5.jsonl", "rank-5.steps"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_a_step_has_its_phases_and_the_wait_for_its_batch(tmp_path: Path) -> None:
    program = """
    def loader():
        for batch in ([1, 2], [3]):
            time.sleep(0.05)
            yield batch
    for epoch in range(2):
        for batch in steps.loading(loader()):
            with steps.step(samples=len(batch), epoch=epoch) as step:
                for _ in range(2):
                    with step.phase("forward"):
                        time.sleep(0.02)
                with step.phase("backward"):
                    time.sleep(0.02)
                    with step.phase("communication"):
                        time.sleep(0.04)
                time.sleep(0.01)
    """
    recorded(program, tmp_path)
    steps = steps_in(tmp_path)
    assert [(step.step, step.epoch, step.samples) for step in steps] == [
        (0, 0, 2),
        (1, 0, 1),
        (2, 1, 2),
        (3, 1, 1),
    ]
    for step in steps:
        phases = step.phases
        assert set(phases) == {"data", "forward", "backward", "communication"}
        assert phases["data"] >= 0.05
        assert phases["forward"] >= 0.04
        assert 0.02 <= phases["backward"] < step.seconds - 0.14
        assert phases["communication"] >= 0.04
        assert sum(phases.values()) + 0.01 <= step.seconds < 2
    assert steps[0].start + steps[0].seconds <= steps[1].start


def test_a_step_left_by_an_exception_is_not_recorded(tmp_path: Path) -> None:
    program = """
    for number in range(3):
        try:
            with steps.step(samples=1) as step, step.phase("forward"):
                if number == 1:
                    raise ValueError
        except ValueError:
            pass
    """
    recorded(program, tmp_path)
    assert [step.step for step in steps_in(tmp_path)] == [0, 1]


def test_an_epoch_that_counts_none_is_not_known(tmp_path: Path) -> None:
    program = """
    for epoch in (2, 2.0, 2**31 - 1, 2**31, -1, 0.5, float("nan"), "first", None):
        with steps.step(samples=1, epoch=epoch):
            pass
    """
    recorded(program, tmp_path)
    unknown = [None] * 6
    assert [step.epoch for step in steps_in(tmp_path)] == [2, 2, 2**31 - 1, *unknown]


def test_metrics(tmp_path: Path) -> None:
    program = """
    class Tensor:
        def item(self): return 0.25
    for value in (0.97, 3, True, "good", Tensor(), float("nan")):
        steps.metric("m", value)
    """
    _, *metrics = recorded(program, tmp_path)
    assert [metric["value"] for metric in metrics] == [0.97, 3, True, "good", 0.25, "nan"]
    assert {(metric["kind"], metric["name"]) for metric in metrics} == {("metric", "m")}
    assert all(metric["at"] > 0 for metric in metrics)


def test_times_of_operations_are_counted_by_name_and_size(tmp_path: Path) -> None:
    program = """
    for size in (8, 16, 8):
        steps.collective("allreduce", size, 0.5)
    steps.layers([("head", 4, 0.25), ("stem", 8, None)])
    """
    _, *times, layers = recorded(program, tmp_path)
    assert [(time["bytes"], time["repetition"]) for time in times] == [(8, 0), (16, 0), (8, 1)]
    assert {(time["kind"], time["name"], time["seconds"]) for time in times} == {
        ("collective", "allreduce", 0.5)
    }
    assert layers["layers"] == [
        {"name": "head", "bytes": 4, "ready_s": 0.25},
        {"name": "stem", "bytes": 8, "ready_s": None},
    ]


def test_steps_reach_the_file_within_a_second_of_steps(tmp_path: Path) -> None:
    program = """
    for _ in range(13):
        with steps.step(samples=1):
            time.sleep(0.1)
    os._exit(0)
    """
    recorded(program, tmp_path)
    assert len(steps_in(tmp_path)) >= 9


def test_steps_are_written_with_every_metric(tmp_path: Path) -> None:
    program = """
    with steps.step(samples=1):
        pass
    steps.metric("m", 1)
    os.kill(os.getpid(), 9)
    """
    assert run(program, tmp_path / "rank-5.steps").returncode == -9
    assert len(steps_in(tmp_path)) == 1


def test_only_the_process_that_made_the_recorder_writes(tmp_path: Path) -> None:
    program = """
    import subprocess, sys
    with steps.step(samples=1):
        pass
    if os.fork() == 0:
        steps.metric("child", 1)
        sys.exit()
    os.wait()
    again = "import argosy_steps; argosy_steps.Recorder().metric('grandchild', 1)"
    subprocess.run([sys.executable, "-c", again], check=True)
    """
    assert [line["kind"] for line in recorded(program, tmp_path)] == ["header"]
    assert len(steps_in(tmp_path)) == 1


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("steps.step(samples=1).phase('loss')", "ValueError: argosy_steps: no phase 'loss'"),
        ("argosy_steps.Recorder()", "RuntimeError: argosy_steps: this process has a Recorder"),
        ("with steps.step(samples=1), steps.step(samples=1): pass", "begun inside a step"),
        ("steps.metric('m', [1])", "TypeError: argosy_steps: a metric is a number"),
        *(
            (f"with steps.step(samples={samples}): pass", "not a whole number from 0")
            for samples in ("-5", "32.5", "10**15", "float('nan')", "float('inf')", "None")
        ),
    ],
)
def test_misuse(tmp_path: Path, program: str, error: str) -> None:
    assert error in run(program, tmp_path / "rank-0.steps").stderr


def test_a_second_program_of_a_rank_is_told_that_it_cannot_record(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.steps"
    assert run("", path).returncode == 0
    before = path.read_bytes()
    assert "only one program of a rank can record" in run("", path).stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("last", ["", "steps.metric('m', 1)"])
def test_a_full_disk_is_one_line_and_an_exit_code(tmp_path: Path, last: str) -> None:
    require_namespaces()
    # Space for three pages: two headers, and a file that fills the rest. The steps are written at the end.
    program = f"""
    open(os.environ["DISK"] + "/other", "wb").write(bytes(4096))
    for _ in range(100):
        with steps.step(samples=1):
            pass
    {last}
    """
    script = 'mount -t tmpfs -o size=12k none "$DISK" && "$@"'
    wrapper = ["unshare", "-rm", "sh", "-c", script, "sh"]
    path = tmp_path / "rank-0.steps"
    done = run(program, path, wrapper, DISK=str(tmp_path))
    assert done.returncode == 74
    assert done.stderr == (
        f"argosy_steps: no space left on device while writing {path}: free space and run again\n"
    )


def test_after_a_full_disk_rows_begin_where_rows_begin(tmp_path: Path) -> None:
    require_namespaces()
    # A page holds the header, 41 rows, and two thirds of a row.
    program = """
    other = os.environ["DISK"] + "/other"
    open(other, "wb").write(bytes(4096))
    for number in range(100):
        with steps.step(samples=number):
            pass
    try:
        steps._log.flush()
    except SystemExit:
        os.unlink(other)
    for number in range(3):
        with steps.step(samples=1000 + number):
            pass
    steps.metric("m", 1)
    import shutil
    shutil.copy(os.environ["ARGOSY_STEPS_FILE"], os.environ["KEPT"])
    """
    script = 'mount -t tmpfs -o size=12k none "$DISK" && "$@"'
    wrapper = ["unshare", "-rm", "sh", "-c", script, "sh"]
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    done = run(program, disk / "rank-0.steps", wrapper, DISK=str(disk), KEPT=str(kept))
    assert done.returncode == 0, done.stderr
    found = [step.samples for step in all_steps(kept)]
    assert found == [*range(len(found) - 3), 1000, 1001, 1002]
    assert len(found) == 4096 // ROW_BYTES - 1 + 3


def test_without_argosy_it_does_nothing_and_costs_little() -> None:
    program = """
    assert list(steps.loading([1, 2])) == [1, 2]
    steps.metric("m", object())
    since = time.perf_counter()
    for _ in range(10_000):
        with steps.step(samples=1) as step, step.phase("forward"):
            pass
    print((time.perf_counter() - since) / 10_000)
    """
    done = run(program, None)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 100e-6
