"""study.json: what a site's runs are planned for, so that Snakemake plans them anew when that changes.

The workflow compares contents, not times: a project that was copied or moved, another store, another
Python and a result of something else are all seen, also where Snakemake remembers nothing.
"""

import hashlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy import reading
from argosy.errors import ArgosyError
from argosy.files import write_json, write_json_if_changed
from argosy.jobs.description import Plan, describe_run
from argosy.jobs.outdated import Programs, why_outdated
from argosy.jobs.planning import Project, Target
from argosy.study.runs import Run

SCHEMA_VERSION = 2


@dataclass(frozen=True)
class StudyFile:
    """A site's study.json."""

    project: Project
    site: str

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.project.path / "results" / self.site / "study.json"

    @property
    def _planned(self) -> Path:
        """Names the study.json by which the scripts were written."""
        return self.path.with_name("planned.json")

    def update(self, where: Target, plans: Sequence[Plan]) -> dict[str, str]:
        """Write the file where it says anything else; return why results are not of their plans.

        Such a result changes the file, too, which has all runs planned anew: that takes the result away. So
        do scripts that were not written by it: Snakemake may have been told that they are new (`--touch`).

        Args:
            where: the runs go to.
            plans: of all runs. One whose image is not locked yet says nothing about its result.

        Returns:
            The causes by `EXPERIMENT/RUN`, of those runs alone.
        """
        programs = Programs(self.project.workloads_dir)
        causes = {
            f"{plan.run.experiment}/{plan.run.run_id}": self._why_outdated(plan, programs)
            for plan in plans
        }
        outdated = {run: cause for run, cause in causes.items() if cause}
        written = self._content(self.path)
        plan_again = bool(outdated) or not self._is_planned()
        content = {
            "schema_version": SCHEMA_VERSION,
            "hardware": where.hardware,
            "queue": where.queue,
            "runs": [plan.run.model_dump(mode="json") for plan in plans],
            # All of these stand in the batch scripts.
            "project": str(self.project.path.absolute()),
            "store": str(self.project.store.path),
            "runtime": str(self.project.runtime_dir),
            "python": sys.executable,
            # Content, because Snakemake compares that of small files, and not only their times.
            "plan_again": time.time() if plan_again else written.get("plan_again"),
        }
        write_json_if_changed(self.path, content)
        return outdated

    def note_planned(self) -> None:
        """Say that all scripts are of the file as it is."""
        write_json(self._planned, {"schema_version": SCHEMA_VERSION, "study": self._digest()})

    def _is_planned(self) -> bool:
        """Return whether the scripts were written by the file as it is."""
        planned = self._content(self._planned)
        return self.path.is_file() and planned.get("study") == self._digest()

    def _content(self, path: Path) -> dict[str, Any]:
        """Return the object in a file; an empty one without it, or for what is damaged."""
        try:
            return reading.read_object(path, self.path.parent)
        except (OSError, ValueError):
            return {}

    def _digest(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def read(self) -> tuple[Target, list[Run]]:
        """Return the runs, and where they go.

        Raises:
            ArgosyError: when the file is damaged.
        """
        try:
            content = reading.read_object(self.path, self.path.parent)
            where = Target(self.site, content["hardware"], content["queue"])
            return where, [Run.model_validate(run) for run in content["runs"]]
        except (OSError, ValueError, LookupError) as problem:
            raise ArgosyError(
                f"{self.path}: cannot be read ({problem!r})", "run snakemake"
            ) from None

    def _why_outdated(self, plan: Plan, programs: Programs) -> str | None:
        if plan.run.image and not plan.lock:
            return None
        folder = self.project.run_dir(plan.site, plan.run)
        return why_outdated(folder, describe_run(plan), programs)
