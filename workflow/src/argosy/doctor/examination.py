"""All checks of a site in their order: what cannot be known after a fault is not guessed at."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from argosy.doctor import login_checks
from argosy.doctor.findings import Finding, ok, unknown, wrong
from argosy.doctor.node_checks import check_nodes, questions_of
from argosy.doctor.places import Place, alike, check_place, places_of, to_look_at
from argosy.doctor.trial import Trial
from argosy.errors import ArgosyError
from argosy.images.store.store import Store
from argosy.probe.look_jobs import Planned, look_at
from argosy.schedulers import find_batch_system
from argosy.schedulers.batch_system import BatchSystem
from argosy.site.models import Site, read_site

FOLDER = Path("logs")


@dataclass(frozen=True)
class Examination:
    """A site that is to be checked.

    Args:
        project: the folder that has `slurm/`.
        name: of the site.
        wait_s: how long jobs may take; None: none are submitted.
        say: told of waits.
        trains: whether two ranks are tried as well.
    """

    project: Path
    name: str
    wait_s: float | None
    say: Callable[[str], None]
    trains: bool = False

    @property
    def site_file(self) -> str:
        """As it is called in messages."""
        return f"slurm/{self.name}/site.yaml"

    def findings(self) -> Iterator[Finding]:
        """Yield what each check found, as soon as it has."""
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
            # What has none is chosen by nobody's profile: Snakemake without one runs it.
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
        surveyor = system.make_surveyor()
        if surveyor is None:
            return
        places = places_of(site, self.project.absolute() / FOLDER / self.name / "doctor")
        found = [(place, check_place(self.site_file, place, system)) for place in places]
        yield from alike(found)
        good = [place for place, finding in found if finding.verdict == "ok"]
        if not good:
            yield unknown("nodes", "not looked at, as no queue takes a job now")
            return
        if self.wait_s is None:
            yield unknown("nodes", "not looked at (--no-job)")
            return
        (self.project / "results").mkdir(exist_ok=True)
        looked_at = [*to_look_at(good)]
        planned = [
            Planned(each.name, _options(each, system), each.look().request.nodes, each.folder)
            for each in looked_at
        ]
        questions = questions_of(site, self.project.absolute(), store.path)
        by_name = {
            each.name: each for each in look_at(planned, questions, surveyor, self.wait_s, self.say)
        }
        told: set[Finding] = set()
        is_right = True
        for place in looked_at:
            for finding in check_nodes(self.site_file, place, by_name[place.name]):
                # What is true of all nodes is said once.
                if finding not in told and not _is_told(finding, told):
                    yield finding
                told.add(finding)
                is_right &= finding.verdict != "wrong"
        if self.trains and is_right:
            place = max(looked_at, key=lambda each: min(2, each.nodes))
            yield from Trial(
                self.project, self.name, place, system, self.wait_s, self.say
            ).findings()


def _is_told(finding: Finding, told: set[Finding]) -> bool:
    """Whether a check that found nothing wrong has been told of other nodes."""
    return finding.verdict == "ok" and finding.check in {each.check for each in told}


def _options(place: Place, system: BatchSystem) -> dict[str, str | None]:
    return {**system.script_options(place.look()), "output": "job.log"}
