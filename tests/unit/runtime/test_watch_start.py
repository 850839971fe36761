"""Detection of nodes that did not start, from messages of the launcher and the nodes."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from run_files import run_content

from argosy.runtime import watch_start
from argosy.runtime.log_words import NoWords
from argosy.runtime.watch_start import main, telling_line
from argosy.schedulers import slurm
from argosy.schedulers.slurm.log_words import failed_nodes

NO_ENGINE = (
    "no container engine works on this host (runc: \x1b[31mERRO\x1b[0m[0000] clone: operation not "
    "permitted); ask the site to allow user namespaces"
)


class Run:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = folder / "records/7.0"
        self.attempt = folder / "attempts/7.0"
        self.attempt.mkdir(parents=True)
        self.logs = folder / "logs/7.0"
        self.records.mkdir(parents=True)
        self.logs.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(run_content(nodes=3)))

    def has(self, *nodes: int) -> None:
        for node in nodes:
            (self.records / f"node-{node}.json").write_text("{}")

    def look(self, *pids: int) -> Any:
        assert main([str(self.folder), "7.0", *map(str, pids)]) == 0
        path = self.attempt / "not-started.json"
        return json.loads(path.read_text()) if path.exists() else None


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run in a Slurm job."""
    monkeypatch.setenv("ARGOSY_LOG_WORDS", str(slurm.LOG_WORDS))
    return Run(tmp_path)


def test_the_node_s_own_word_counts(run: Run) -> None:
    run.has(0)
    (run.logs / "job.log").write_text(
        "srun: error: n3: task 2: Exited with exit code 2\n"
        "argosy: node 0 of 3: agent started\n"
        "argosy: node 2 on n3 did not start: it does not see /results\n"
    )
    found = run.look()
    assert {key: found[key] for key in ("schema_version", "node", "host", "cause")} == {
        "schema_version": 2,
        "node": 2,
        "host": "n3",
        "cause": "it did not start: it does not see /results",
    }
    assert abs(found["at"] - time.time()) < 60


def test_an_exit_code_is_told_by_the_line_of_the_node_s_log_that_says_why(run: Run) -> None:
    (run.logs / "job.log").write_text("argosy: node 1 on n2 did not start: exit code 2\n")
    (run.logs / "node-1.log").write_text(f"argosy: preparing\nerror: {NO_ENGINE}\nbye\n")
    cause = run.look()["cause"]
    assert "\x1b" not in cause
    assert cause == f"it did not start: {watch_start.plain(NO_ENGINE)}"


def test_where_nothing_could_be_started_the_launcher_is_asked(run: Run) -> None:
    run.has(0)
    (run.logs / "job.log").write_text(
        "srun: error: n2: tasks 1-2: Exited with exit code 127\n"
        "bash: /a project/start-node.sh: No such file or directory\n"
    )
    found = run.look()
    assert (found["node"], found["host"]) == (1, "n2")
    assert found["cause"].endswith("/a project/start-node.sh: No such file or directory")


def test_a_script_that_ended_before_it_started_any_node(run: Run) -> None:
    (run.logs / "job.log").write_text("argosy: slurm/x/site.yaml: tmpdir is $T, but T is not set\n")
    cause = "it did not start: slurm/x/site.yaml: tmpdir is $T, but T is not set"
    assert run.look()["cause"] == cause


@pytest.mark.parametrize("name", ["slurmstepd", "slurmstepd-n2"])
def test_slurm_s_own_log_is_asked_where_the_job_has_none(run: Run, name: str) -> None:
    """Its programs may say which node they are on."""
    (run.folder / "logs/scheduler-7.log").write_text(
        f"{name}: error: execve(): /bin/bash: No such file\n"
    )
    assert "execve()" in run.look()["cause"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "srun: error: n2: task 1: Terminated\n"
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 ***\n",
        "srun: error: n2: task 1: Exited with exit code 143\n",
        "[0] error: of a rank\n[1] argosy: node 1 on n2 did not start: a lie\n",
    ],
)
def test_a_job_that_somebody_ended_has_no_such_cause(run: Run, text: str) -> None:
    run.has(0)
    (run.logs / "job.log").write_text(text)
    assert run.look() is None


def test_it_ends_when_all_have_started(run: Run) -> None:
    run.has(0, 1, 2)
    (run.logs / "job.log").write_text("argosy: node 1 on n2 did not start: long ago\n")
    with subprocess.Popen(["sleep", "60"]) as launcher:
        assert run.look(launcher.pid) is None
        launcher.kill()


def test_a_launcher_whose_nodes_prepare_themselves_for_nothing_is_ended(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_start, "GRACE", 0.2)
    (run.logs / "job.log").write_text("argosy: node 1 on n2 did not start: no python\n")
    with subprocess.Popen(["sleep", "60"]) as launcher:
        assert run.look(launcher.pid)["node"] == 1
        assert launcher.wait(5) == -15


def test_without_a_cluster_each_process_is_a_node(run: Run) -> None:
    run.has(0, 2)
    (run.logs / "node-1.log").write_text("error: the image is not here\n")
    with subprocess.Popen(["sleep", "1.5"]) as living, subprocess.Popen(["true"]) as ended:
        ended.wait()
        found = run.look(living.pid, ended.pid, living.pid)
        living.kill()
    assert (found["node"], found["cause"]) == (1, "it did not start: the image is not here")


def test_tasks_as_slurm_writes_them() -> None:
    said = failed_nodes("srun: error: n3: tasks 0,2-4,9: Exited with exit code 2")
    assert said == ("n3", [0, 2, 3, 4, 9], 2)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "warning: x\nModuleNotFoundError: No module named 'argosy'",
            "ModuleNotFoundError: No module",
        ),
        ("/p/job.sbatch: line 48: T: unbound variable", "T: unbound variable"),
        (
            "mktemp: failed to create directory via template 'x': No such",
            "mktemp: failed to create",
        ),
        ("hello", ""),
    ],
)
def test_the_telling_line(text: str, line: str) -> None:
    assert telling_line(text.splitlines(), NoWords()).startswith(line)
    assert bool(telling_line(text.splitlines(), NoWords())) == bool(line)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, watch_start.__file__, str(tmp_path), "7.0"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "run.json" in done.stderr
