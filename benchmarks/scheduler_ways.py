"""Three ways to run the same short jobs on a Slurm cluster; each in a project folder of its own."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cluster import Cluster

PROJECT = Path(__file__).parents[1]
SNAKEFILE = """\
from pathlib import Path

# Before the DAG is built, and after everything has been imported.
Path("status-at-start").write_text(Path("/proc/self/status").read_text())

rule all:
    input:
        expand("results/testbed/bench/{run}/result.json", run=config["runs"].split("+")),

rule run:
    input:
        script="results/testbed/bench/{run}/job.sbatch",
    output:
        result="results/testbed/bench/{run}/result.json",
    resources:
        scheduler="slurm",
    shell:
        "bash {input.script}"
"""
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=argosy-bench-{name}
#SBATCH --chdir={folder}
#SBATCH --output=/dev/null
#SBATCH --ntasks=1
#SBATCH --mem=100
#SBATCH --time=5
{more}set -euo pipefail
cd {folder}
attempt="attempts/$SLURM_JOB_ID.0"
mkdir -p "$attempt"
echo '{verdict}' >"$attempt/verdict.json"
cp "$attempt/verdict.json" result.json
"""
VERDICT = {
    "schema_version": 2,
    "run_id": "run",
    "attempt": "0.0",
    "state": "completed",
    "started": 0.0,
    "ended": 0.0,
    "seconds": 0.0,
    "hosts": [],
    "failure": None,
}
QUIET = ("--quiet", "host", "reason")
PEER_OPTIONS = (
    *("--executor", "slurm", "--jobs", "1000", "--nolock"),
    *("--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1"),
    *("--max-status-checks-per-second", "10", "--max-jobs-per-timespan", "1000/1s"),
    *("--slurm-status-command", "squeue", "--slurm-no-account"),
    *("--default-resources", "slurm_partition=main", "mem_mb=100", "runtime=5"),
)
"""The plugin's own options that save time or questions. sacct, its usual way, finds no accounts here
and would wait for ever."""


@dataclass(frozen=True)
class Jobs:
    """A project with the scripts of so many jobs."""

    folder: Path
    names: list[str]

    @classmethod
    def write(cls, folder: Path, count: int, more: str = "") -> "Jobs":
        """Make the folder; `more` are further lines of each script."""
        jobs = cls(folder, [f"job{number:04}" for number in range(1, count + 1)])
        for name, run in zip(jobs.names, jobs.runs, strict=True):
            run.mkdir(parents=True)
            (run / "job.sbatch").write_text(
                SCRIPT.format(name=name, folder=run, more=more, verdict=json.dumps(VERDICT))
            )
        (folder / "Snakefile").write_text(SNAKEFILE)
        return jobs

    @property
    def runs(self) -> list[Path]:
        """The folders of the runs."""
        return [self.folder / "results/testbed/bench" / name for name in self.names]

    def check(self) -> None:
        """Every job has done its work."""
        missing = [run.name for run in self.runs if not (run / "result.json").is_file()]
        if missing:
            raise SystemExit(f"{self.folder}: no result of {', '.join(missing[:5])} …")


Way = Callable[[Cluster, Jobs], None]


def bare(cluster: Cluster, jobs: Jobs) -> None:
    """`sbatch` for each, then one `squeue` a second until all are gone; by a shell."""
    (jobs.folder / "scripts").write_text("\n".join(f"{run}/job.sbatch" for run in jobs.runs) + "\n")
    program = (
        "while read -r script; do sbatch --parsable $script; done <scripts; "
        'while [ -n "$(squeue --noheader --me)" ]; do sleep 1; done'
    )
    _drive(cluster, jobs, "bash", "-c", program)


def argosy(cluster: Cluster, jobs: Jobs, *more: str) -> None:
    """Argosy with the project's own profiles, as `snakemake` of this environment."""
    _drive(cluster, jobs, *argosy_command(jobs), *more)


def argosy_command(jobs: Jobs) -> tuple[str, ...]:
    """What a user would type; the project's profiles are copied."""
    for name in ("profiles/default", "slurm/testbed"):
        (jobs.folder / name).mkdir(parents=True)
        text = (PROJECT / name / "config.yaml").read_text()
        (jobs.folder / name / "config.yaml").write_text(re.sub(r"(?m)^config:.*\n", "", text))
    snakemake = str(Path(sys.executable).parent / "snakemake")
    return (snakemake, "--profile", "slurm/testbed", *_common(jobs))


def peer(snakemake: Path) -> Way:
    """snakemake-executor-plugin-slurm, of another environment; the same work as an ordinary shell rule."""

    def drive(cluster: Cluster, jobs: Jobs) -> None:
        _drive(cluster, jobs, str(snakemake), *PEER_OPTIONS, *_common(jobs))

    return drive


def make_peer(folder: Path, version: str) -> Path:
    """An environment with the plugin and this environment's version of Snakemake; its `snakemake`."""
    if not (folder / "bin/snakemake").is_file():
        wanted = (f"snakemake=={version}", "snakemake-executor-plugin-slurm==2.8.0")
        # This environment's pip, as a distribution may keep its own apart.
        pip = (sys.executable, "-m", "pip", "--python", folder / "bin/python")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        subprocess.run([*pip, "install", "--quiet", *wanted], check=True)
    return folder / "bin/snakemake"


def measure(cluster: Cluster, way: Way, jobs: Jobs) -> dict[str, float]:
    """Seconds in all, and the messages that slurmctld got, by job."""
    cluster.run("sdiag", "--reset")
    began = time.monotonic()
    way(cluster, jobs)
    seconds = time.monotonic() - began
    messages = messages_of(cluster)
    jobs.check()
    each = {name: round(n / len(jobs.names), 2) for name, n in sorted(messages.items())}
    return {"seconds": round(seconds, 2), "rpcs": sum(messages.values()) / len(jobs.names), **each}


def messages_of(cluster: Cluster) -> dict[str, int]:
    """How many messages of each type slurmctld has had since sdiag was reset, without sdiag's own."""
    text = cluster.run("sdiag").stdout
    by_type = text.partition("by message type")[2].partition("by user")[0]
    found = re.findall(r"(\w+)\s+\(\s*\d+\) count:(\d+)", by_type)
    return {name: int(count) for name, count in found if name != "REQUEST_STATS_INFO"}


def _common(jobs: Jobs) -> tuple[str, ...]:
    return (*QUIET, "--config", f"runs={'+'.join(jobs.names)}")


def _drive(cluster: Cluster, jobs: Jobs, *command: str) -> None:
    with (jobs.folder / "driver.log").open("w") as log:
        process = cluster.popen(*command, cwd=jobs.folder, stdout=log, stderr=log)
        if process.wait():
            raise SystemExit(f"{command[0]} failed:\n{(jobs.folder / 'driver.log').read_text()}")
