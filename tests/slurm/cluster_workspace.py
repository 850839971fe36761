"""A project on the login side of the tests' cluster."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import step_files
import yaml
from cluster import Cluster
from cluster.errors import ClusterError
from cluster.processes import wait_until
from workspace import BIN, Workspace

COUNT = Path(__file__).parent / "programs" / "count.py"
TESTBED = "slurm/testbed/site.yaml"
SNAKEMAKE = (BIN / "snakemake", "--profile", "slurm/testbed", "--quiet", "host", "reason")


@dataclass(frozen=True)
class ClusterWorkspace(Workspace):
    """Its commands run where Slurm's are."""

    cluster: Cluster | None = None

    @property
    def slurm(self) -> Cluster:
        """The cluster."""
        assert self.cluster
        return self.cluster

    def start(self, *command: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Start a command in the project, on the login side."""
        return self.slurm.popen(
            *command,
            cwd=self.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **options,
        )

    def drive(self, *arguments: str) -> subprocess.Popen[str]:
        """Start snakemake with the profile of the testbed."""
        return self.start(*SNAKEMAKE, *arguments)

    def end(self, driver: subprocess.Popen[str], seconds: float = 240) -> str:
        """Wait until a command of `start` has ended: its output.

        Raises:
            AssertionError: when it does not end; it is killed, and what it printed, what Slurm has in
                its queue, and the processes that are left, are said.
        """
        try:
            return driver.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired as late:
            printed = (late.output or b"").decode(errors="replace")
            story = f"it has not ended after {seconds:.0f} s:\n{printed}\n{self.situation()}"
            driver.kill()
            raise AssertionError(story) from late

    def begun(self, driver: subprocess.Popen[str], run_id: str, steps: int = 10) -> str:
        """Wait until a run has done its first steps: its job's id.

        Raises:
            AssertionError: when the driver ends before, or the steps do not come; with all that is seen.
        """

        def is_decided() -> bool:
            return self.steps_done(run_id) > steps or driver.poll() is not None

        try:
            self.wait_for(is_decided, "the first steps")
        except ClusterError as late:
            situation = self.situation()
            driver.kill()
            raise AssertionError(f"{late}\n{driver.communicate()[0]}\n{situation}") from late
        if self.steps_done(run_id) <= steps:
            raise AssertionError(f"{driver.communicate()[0]}\n{self.situation()}")
        return str(self.jobs(run_id)[0]["job_id"])

    def situation(self) -> str:
        """The queue, the nodes, the processes on the login side, and the end of each run's output."""
        commands = (("squeue", "-l"), ("sinfo", "-Nl"), ("ps", "xf", "-o", "pid,stat,args"))
        seen = [self.slurm.run(*command, check=False).stdout for command in commands]
        outputs = sorted(self.path.glob("results/*/*/*/logs/scheduler-*.log"))
        return "\n".join([*seen, *(f"{each}:\n{each.read_text()[-2000:]}" for each in outputs)])

    def count(self, nodes: list[int], repeats: int = 1, **more: Any) -> None:
        """Configure a study of the counting program, without a container so that it starts at once."""
        steps = more.pop("steps", 20)
        self.configure(
            {
                "count": {
                    "runtime": "native",
                    "launcher": "plain",
                    "independent": True,
                    "command": f"{sys.executable} {COUNT} --steps {steps}",
                    "scale": {"nodes": nodes, "repeats": repeats},
                    "resources": {"time": "10m", **more.pop("resources", {})},
                    **more,
                }
            }
        )

    def result(self, run_id: str, experiment: str = "count") -> dict[str, Any]:
        """The result.json of a run."""
        path = self.run_dir(experiment, run_id) / "result.json"
        content: dict[str, Any] = json.loads(path.read_text())
        return content

    def jobs(self, run_id: str, experiment: str = "count") -> list[dict[str, Any]]:
        """What job.json says was submitted for a run."""
        path = self.run_dir(experiment, run_id) / "job.json"
        found: list[dict[str, Any]] = json.loads(path.read_text())["jobs"] if path.exists() else []
        return found

    def steps_done(self, run_id: str, attempt: str = "*", rank: int = 0) -> int:
        """How many steps a rank has recorded."""
        folder = self.run_dir("count", run_id) / "records"
        return sum(map(step_files.count, folder.glob(f"{attempt}/rank-{rank}.steps")))

    def wait_for(self, condition: Callable[[], bool], what: str, seconds: float = 180) -> None:
        """Wait until something has come about."""
        wait_until(condition, what, seconds)

    def failures(self) -> list[dict[str, Any]]:
        """What the report says of attempts that came to nothing, of failed runs too."""
        for command in ("tables", "report"):
            status, output = self.run(BIN / "argosy", command, "results/testbed")
            assert status == 0, output
        summary = json.loads((self.path / "results/testbed/summary.json").read_text())
        found: list[dict[str, Any]] = summary["failures"]
        return found


def edit_site(workspace: Workspace, **changes: Any) -> None:
    """Change keys of the site's file; a dotted one, written with __, of its only queue or hardware."""
    path = workspace.path / TESTBED
    content = yaml.safe_load(path.read_text())
    for key, value in changes.items():
        *folders, last = key.split("__")
        place = content
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = value
    path.write_text(yaml.safe_dump(content))
