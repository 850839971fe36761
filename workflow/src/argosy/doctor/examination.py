"""Runs all checks of a site in order, and skips checks that a fault makes meaningless."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from argosy.doctor import login_checks
from argosy.doctor.findings import Finding, ok, unknown, wrong
from argosy.doctor.node_checks import check_nodes, questions_of
from argosy.doctor.queue_checks import (
    Place,
    alike,
    check_place,
    check_places,
    check_with_scheduler,
    choose_look,
    places_of,
    to_look_at,
)
from argosy.doctor.trial import CHECK as TRIAL
from argosy.doctor.trial import Trial
from argosy.jobs.description import Plan
from argosy.probe.choices import choose_interface
from argosy.probe.look_jobs import look_at
from argosy.schedulers import find_batch_system
from argosy.schedulers.base import NotAnsweredError
from argosy.schedulers.batch_system import BatchSystem, LookJob
from argosy.site.models import Site, read_site
from argosy_common.errors import ArgosyError
from argosy_images import Store


@dataclass(frozen=True)
class Examination:
    """The examination of a site.

    Args:
        project: the folder that contains `slurm/`.
        name: name of the site.
        wait_s: seconds that jobs may take; None: submit none.
        say: prints progress.
        trains: whether to also run a small training.
    """

    project: Path
    name: str
    wait_s: float | None
    say: Callable[[str], None]
    trains: bool = False

    @property
    def site_file(self) -> str:
        """The site's file in messages."""
        return f"slurm/{self.name}/site.yaml"

    @cached_property
    def _places(self) -> tuple[Finding, Sequence[Plan]]:
        return check_places(self.project, self.name)

    @property
    def _is_native(self) -> bool:
        """Whether no run of the study needs an image."""
        plans = self._places[1]
        return bool(plans) and not any(plan.lock for plan in plans)

    def findings(self) -> Iterator[Finding]:
        """Yield each check's findings as soon as they are known."""
        site_dir = self.project / "slurm" / self.name
        try:
            site = read_site(site_dir)
            system = find_batch_system(site.scheduler, self.site_file)
        except ArgosyError as problem:
            shown = problem.problem.replace(f"{site_dir}/", f"slurm/{self.name}/")
            yield wrong("site file", shown, problem.hint or "change that key")
            return
        yield ok("site file", f"{self.site_file} can be read")
        if system.HAS_QUEUE:
            # A site without a queue needs no profile.
            yield login_checks.profile(site_dir)
        yield login_checks.template(system, site_dir)
        store = Store.of_project(self.project)
        here = [*login_checks.folders(self.project, store)]
        yield from here
        yield login_checks.images(self.project, store)
        if any(each.verdict == "wrong" for each in here):
            return
        yield from self._on_the_cluster(site, system, store)

    def _on_the_cluster(self, site: Site, system: BatchSystem, store: Store) -> Iterator[Finding]:
        if system.make_surveyor() is None:
            # Without a surveyor, check the runs only against the site's file.
            yield from [self._places[0]] if system.HAS_QUEUE else []
            return
        good = yield from self._ask_scheduler(site, system)
        if not good:
            yield unknown("nodes", "skipped: no queue accepts a job now")
        elif self.wait_s is None:
            yield unknown("nodes", "not inspected (--no-job)")
        else:
            yield from self._look_at_nodes(system, store, good, self.wait_s)

    @property
    def _folder(self) -> Path:
        """The folder of the scripts and logs of its jobs."""
        return self.project.absolute() / "logs" / self.name / "doctor"

    def _ask_scheduler(
        self, site: Site, system: BatchSystem
    ) -> Generator[Finding, None, list[tuple[Place, LookJob]]]:
        """Check all queues with the scheduler; return the places to inspect, and the jobs for it."""
        try:
            found = [
                (place, check_place(self.site_file, place, system, self.say))
                for place in places_of(site, self._folder)
            ]
            yield from alike(found)
            good = [place for place, finding in found if finding.verdict == "ok"]
            yield from self._of_runs(system, [finding for _, finding in found], good)
            return [
                (place, choose_look(self.site_file, place, system, self.say))
                for place in to_look_at(good)
            ]
        except NotAnsweredError as problem:
            yield wrong("scheduler", problem.problem, problem.hint)
            return []

    def _of_runs(
        self, system: BatchSystem, of_queues: list[Finding], good: list[Place]
    ) -> Iterator[Finding]:
        """Yield whether the scheduler accepts the study's runs, without repeating faults of queues."""
        placed, plans = self._places
        open_to = {(place.queue, place.hardware) for place in good}
        wanted = {(each.placement.queue_name, each.placement.hardware_name) for each in plans}
        if any(placed.evidence.startswith(each.evidence) for each in of_queues):
            return
        if wanted - open_to:
            names = ", ".join(sorted(f"{queue}-{hardware}" for queue, hardware in wanted - open_to))
            yield unknown(placed.check, f"fix the findings about their queues first: {names}")
            return
        folder = self._folder / "runs"
        said = [*check_with_scheduler(system, self.project, plans, folder, self.say)]
        yield from said or [placed]

    def _look_at_nodes(
        self,
        system: BatchSystem,
        store: Store,
        jobs: Sequence[tuple[Place, LookJob]],
        wait_s: float,
    ) -> Iterator[Finding]:
        """Inspect nodes from the inside, then train on nodes without faults."""
        surveyor = system.make_surveyor()
        assert surveyor
        (self.project / "results").mkdir(exist_ok=True)
        questions = questions_of(jobs[0][0].site, self.project.absolute(), store.path)
        by_place = {place.name: job for place, job in jobs}
        looked = look_at(by_place, questions, surveyor, wait_s, self.say)
        by_name = {each.name: each for each in looked}
        interface = str(choose_interface(looked).value)
        told: set[Finding] = set()
        right: list[tuple[int, Place]] = []
        for place, _ in jobs:
            looked_at = by_name[place.name]
            found = [*check_nodes(self.site_file, place, looked_at, interface, self._is_native)]
            for finding in found:
                # Findings common to all nodes are reported once.
                if finding not in told and not _is_told(finding, told):
                    yield finding
                told.add(finding)
            if all(each.verdict != "wrong" for each in found) and by_name[place.name].looks:
                right.append((min(2, len(by_name[place.name].looks)), place))
        if self.trains:
            yield from self._train(system, right, wait_s)

    def _train(
        self, system: BatchSystem, right: list[tuple[int, Place]], wait_s: float
    ) -> Iterator[Finding]:
        """Train at the largest place without faults."""
        if not right:
            yield unknown(TRIAL, "not tried: first fix the wrong or unknown findings of nodes")
            return
        nodes, place = max(right, key=lambda each: each[0])
        trial = Trial(self.project, self.name, place, nodes, system, wait_s, self.say)
        yield from trial.findings()


def _is_told(finding: Finding, told: set[Finding]) -> bool:
    """Return whether the same check was already reported as ok for other nodes."""
    return finding.verdict == "ok" and finding.check in {each.check for each in told}
