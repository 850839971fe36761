"""Runs that the study does not plan are counted, and shown only while their jobs wait or run."""

from pathlib import Path

import pytest
from command_line import Argosy
from live_study import FakeStudy, ended_in
from study_files import RunFiles

from argosy.monitor.study import described
from argosy.monitor.table import totals
from argosy.schedulers.base import State

FAILURE = {"node": 0, "rank": 0, "cause": "killed by signal 9 (SIGKILL)", "at": 1.0}


def listed(site: Path, *runs: RunFiles) -> None:
    """Write the list of planned runs as Snakemake does, with the paths of its project."""
    lines = [f"results/{site.name}/{run.path.parent.name}/{run.run_id}\n" for run in runs]
    (site / "runs.txt").write_text("".join(lines))


def test_status_counts_runs_of_removed_experiments(fake: FakeStudy) -> None:
    now, failed, never, waits = map(fake.plan, ("now", "failed", "never", "waits"))
    ended_in(now, "1.0", "completed")
    ended_in(failed, "2.0", "failed", failure=FAILURE)
    fake.submitted(waits, "3")
    fake.queued(waits, "3", State.PENDING)
    assert len(fake.look()) == 4
    listed(fake.site, now)
    snapshot = fake.study().look(5)
    assert {view.experiment for view in snapshot.views} == {"now", "waits"}
    assert described(snapshot)["runs_not_planned"] == 2
    assert "; left out: 2 earlier runs of this site that the study" in totals(snapshot).plain
    assert not snapshot.ended
    # A run that never began must not keep `status --watch` waiting.
    fake.jobs.clear()
    ended_in(waits, "3.0", "completed")
    assert fake.study().look(5).ended
    assert never.path.is_dir()


@pytest.mark.parametrize("place", ["results/cluster", "results/renamed", "elsewhere/cluster"])
@pytest.mark.parametrize("has_list", [True, False])
def test_failures_are_named_after_a_move(
    fake: FakeStudy, argosy: Argosy, tmp_path: Path, place: str, has_list: bool
) -> None:
    run, gone = fake.plan(), fake.plan(repeat=2)
    fake.submitted(run, "1", scheduler="local")
    ended_in(run, "1.0", "failed", failure=FAILURE)
    (gone.path / "run.json").unlink()
    gone.path.rename(tmp_path / "gone")
    if has_list:
        listed(fake.site, run, gone)
    (tmp_path / place).parent.mkdir(exist_ok=True)
    moved = fake.site.rename(tmp_path / place)
    for folder in (tmp_path, tmp_path / "results"):
        done = argosy("failures", str(moved), folder=folder)
        assert (done.status, done.out) == (0, "")
        assert (
            "digits/nodes1-ranks1-repeat1: rank 0 (node 0, host0): killed by signal 9" in done.err
        )
        assert ("repeat2: its folder is gone" in done.err) == has_list
