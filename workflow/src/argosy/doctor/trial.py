"""Runs a small training on the site: ranks in containers add numbers by Horovod and receive a warning.

The job is an ordinary run with the same template and agent. Its folder is in `logs/doctor/<site>/`, so
reports do not include it.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.doctor.findings import Finding, ok, unknown, warning, wrong
from argosy.doctor.queue_checks import Place
from argosy.jobs.planning import Project, Target, plan_runs, write_runs
from argosy.jobs.verdicts import read_ending
from argosy.probe.look_jobs import LONGEST_SILENCE_S
from argosy.run_folder.folder import RunFolder
from argosy.schedulers.base import Scheduler, SchedulerError, Status, speaking
from argosy.schedulers.batch_system import BatchSystem
from argosy.study.runs import Run
from argosy.study.sizes import Checkpoints, Resources
from argosy_common.errors import ArgosyError
from argosy_common.reading import read_object
from argosy_images import ImageLock

CHECK, WARNED = "Horovod", "warning"
LIMIT_S, WARNING_S = 120, 60
POLL_S = 2.0
WORD_S = 15.0
_EXPERIMENT = "trial"
_TRIAL_BYTES = 1 << 16


@dataclass(frozen=True)
class TrialProject(Project):
    """The project, with the trial's files in logs/."""

    def run_dir(self, site: str, run: Run) -> Path:
        """Return the folder of the trial."""
        return self.path.absolute() / "logs" / "doctor" / site / run.experiment / run.run_id


@dataclass(frozen=True)
class Trial:
    """A trial training.

    Args:
        project: the project's folder.
        site: its name.
        place: the queue and the kind of nodes.
        nodes: number of nodes, with one rank each.
        system: the site's scheduler.
        wait_s: seconds that the job may wait in the queue.
        say: prints progress.
    """

    project: Path
    site: str
    place: Place
    nodes: int
    system: BatchSystem
    wait_s: float
    say: Callable[[str], None]

    def findings(self) -> Iterator[Finding]:
        """Yield whether Horovod works, and whether ranks are warned before the time limit."""
        project = TrialProject(self.project)
        lock = _image_with_horovod(project)
        if lock is None:
            yield unknown(
                CHECK, "no image with Horovod is built here (argosy image build torch-cpu)"
            )
            return
        run = self._trial_run(lock)
        folder = project.run_dir(self.site, run)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            plans = plan_runs(project, self._target, [run], {lock.name: lock})
            write_runs(project, plans)
            self.say(f"training on {run.nodes} nodes until the warning, at most {LIMIT_S} s")
            status = self._end_of(folder)
        except ArgosyError as problem:
            yield wrong(CHECK, problem.problem, problem.hint or "see the site's file")
            return
        except SchedulerError as problem:
            yield unknown(CHECK, str(problem))
            return
        if status is None:
            yield unknown(
                CHECK, f"its job waited for {self.wait_s:.0f} s and was cancelled (--wait)"
            )
            return
        yield from _trial_findings(folder, status)

    @property
    def _target(self) -> Target:
        return Target(self.site, self.place.hardware, self.place.queue)

    def _trial_run(self, lock: ImageLock) -> Run:
        queue = self.place.site.queues[self.place.queue]
        return Run(
            experiment=_EXPERIMENT,
            nodes=self.nodes,
            ranks_per_node=1,
            repeat=1,
            scaling="strong",
            image=lock.name,
            command=("python3", "/argosy/trial.py"),
            launcher="horovod",
            runtime="container",
            resources=Resources(gpus_per_rank=1 if queue.gpus_only else 0, time=LIMIT_S),
            checkpoints=Checkpoints(warning=WARNING_S, requeues=0),
            throughput=None,
        )

    def _end_of(self, folder: Path) -> Status | None:
        """Submit the job and wait for its end; return None if it did not start in time."""
        scheduler = self.system.make_scheduler(POLL_S)
        try:
            with speaking(self.say, "the scheduler to accept the job"):
                scheduler.submit([folder])
            return self._wait_for_end(scheduler, folder)
        except BaseException:
            scheduler.cancel()
            raise

    def _wait_for_end(self, scheduler: Scheduler, folder: Path) -> Status | None:
        began = spoke = asked = time.monotonic()
        silent_s = 0.0
        while True:
            with speaking(self.say, "the scheduler's status of the job"):
                status = scheduler.poll()[folder]
            now = time.monotonic()
            # While the scheduler is silent, the job may already have run.
            silent_s += now - asked if scheduler.trouble else 0.0
            asked = now
            if not status.state.active:
                return status
            waited_s = now - began - min(silent_s, LONGEST_SILENCE_S)
            if not status.state.has_started and waited_s > self.wait_s:
                scheduler.cancel()
                return None
            if now - spoke > WORD_S:
                spoke = now
                state = scheduler.trouble or status.state.value
                self.say(f"job {status.job_id}: {state}, for {now - began:.0f} s")
            time.sleep(scheduler.pause_s)


def _image_with_horovod(project: Project) -> ImageLock | None:
    """Return the project's first image that is in the store and was built with Horovod."""
    for path in sorted(project.path.glob("resources/images/*/image.lock")):
        lock = ImageLock.read(path)
        steps = " ".join(step.instruction for step in lock.steps)
        if "horovod" in steps and project.store.root(lock.digest).is_dir():
            return lock
    return None


def _trial_findings(folder: Path, status: Status) -> Iterator[Finding]:
    """Yield findings from the ranks' output and the ending of their job."""
    ending, run = read_ending(folder, status), RunFolder(folder)
    said = _rank_output(folder, run)
    verdict = run.verdict(run.newest_attempt(status.job_id))
    hosts = ", ".join(host for host in (verdict.hosts if verdict else []) if host)
    ranks, wanted = said.get("ranks"), run.spec.nodes
    if not said or said.get("sum") != sum(range(1, wanted + 1)) or ranks != wanted:
        why = str(said.get("problem") or ending.message)
        yield wrong(CHECK, why, f"see its logs: {ending.logs}")
        return
    seconds = said.get("exchanged_s")
    after = f", after {seconds:.1f} s" if isinstance(seconds, float) else ""
    yield ok(CHECK, f"{wanted} ranks on {hosts} add up by {said.get('framework')}{after}")
    if isinstance(said.get("warned_s"), float):
        yield ok(
            WARNED, f"ranks are warned before the time limit, here after {said['warned_s']:.0f} s"
        )
    else:
        yield warning(
            WARNED,
            f"no warning reached the ranks within the {LIMIT_S} s of their job",
            "ask the site whether jobs get the requested signal; without it, programs with `checkpoints` "
            "lose their work since the last checkpoint",
        )


def _rank_output(folder: Path, run: RunFolder) -> dict[str, Any]:
    """Return the output of rank 0, which is untrusted."""
    try:
        return read_object(folder / "output/trial.json", run.site, _TRIAL_BYTES)
    except (OSError, ValueError):
        return {}
