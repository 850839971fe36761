"""A Slurm that answers slowly is heard in the end, and meanwhile it is said that it is waited for."""

import shlex
from pathlib import Path

import pytest
from slurm_answers import queue, stand_in

from argosy.schedulers.base import State
from argosy.schedulers.slurm import commands
from argosy.schedulers.slurm.scheduler import SlurmScheduler


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tools = tmp_path / "bin"
    stand_in(tools, "squeue", f"sleep 1; echo {shlex.quote(queue())}")
    stand_in(tools, "sbatch", "echo 77")
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    monkeypatch.setattr(commands, "QUESTION_TIMEOUT_S", 0.4)
    folder = tmp_path / "results/here/digits/nodes1-ranks1-repeat1"
    folder.mkdir(parents=True)
    (folder / "job.sbatch").write_text("#!/bin/bash\n")
    return folder


def test_a_run_is_submitted_though_squeue_is_slower_than_the_first_patience(run_dir: Path) -> None:
    scheduler = SlurmScheduler(poll_s=0)
    scheduler.submit([run_dir])
    assert scheduler.trouble is not None
    assert "squeue: no answer for 0 s" in scheduler.trouble
    assert "nothing is submitted before it has" in scheduler.trouble
    states = [scheduler.poll()[run_dir].state for _ in range(2)]
    assert states[0] is State.WAITING
    assert states[1] is not State.WAITING
    assert scheduler.trouble is None
    assert '"job_id": "77"' in (run_dir / "job.json").read_text()


def test_patience_has_an_end(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "LONGEST_QUESTION_S", 0.6)
    patience = commands.Patience()
    for _ in range(3):
        with pytest.raises(commands.LateError):
            patience.ask("squeue")
    assert patience.limit_s == 0.6
