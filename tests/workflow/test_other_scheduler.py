"""A third-party scheduler of 60 lines runs a study."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from workspace import BIN, Workspace

SCHEDULERS = Path(__file__).parents[1] / "schedulers"
SITE = """
scheduler: spool
interface: lo
hardware: {cpu: {architecture: x86_64}}
queues: {main: {hardware: [cpu], options: {queue: main}}}
"""


def install_beside_argosy(venv: Path) -> None:
    """Make an environment that has Argosy's packages, and the scheduler's."""
    venv.unlink()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    [packages] = venv.glob("lib/python3*/site-packages")
    [argosys] = BIN.parent.glob("lib/python3*/site-packages")
    text = f"{SCHEDULERS}\nimport site; site.addsitedir({str(argosys)!r})\n"
    (packages / "beside.pth").write_text(text)
    for name in ("argosy", "snakemake"):
        _, _, program = (BIN / name).read_text().partition("\n")
        path = venv / "bin" / name
        path.write_text(f"#!{venv}/bin/python -E\n{program}")
        path.chmod(0o755)


@pytest.fixture
def spool(project: Path, tmp_path: Path) -> Workspace:
    made = Workspace.copy(project, tmp_path / "project", tmp_path / "store", site="spooled")
    install_beside_argosy(made.path / ".venv")
    (made.path / "slurm/spooled").mkdir()
    (made.path / "slurm/spooled/site.yaml").write_text(SITE)
    program = made.path / "containers/workloads/hello.py"
    program.write_text("import os\nprint(100 * int(os.environ['WORLD_SIZE']), 'samples/s')\n")
    made.configure(
        {
            "hello": {
                "runtime": "native",
                "command": ["python3", "/workloads/hello.py"],
                "launcher": "plain",
                "independent": True,
                "throughput": "([0-9]+) samples/s",
                "scale": {"nodes": [1, 2], "ranks_per_node": 2, "repeats": 2},
                "resources": {"cpus_per_rank": 3, "memory_per_rank": "100M", "time": "2m"},
            }
        },
        site="spooled",
    )
    return made


def test_a_study_runs_by_a_scheduler_of_sixty_lines(spool: Workspace) -> None:
    code, said = spool.run(spool.path / ".venv/bin/snakemake", "--cores", "1")
    assert code == 0, said
    assert "Checking that the spool accepts the jobs of spooled" in said
    for run_id in ("nodes1-ranks2-repeat1", "nodes2-ranks2-repeat2"):
        folder = spool.run_dir("hello", run_id)
        assert json.loads((folder / "result.json").read_text())["state"] == "completed"
    script = (folder / "job.sbatch").read_text()
    assert "#SPOOL slots 6\n#SPOOL time 2\n#SPOOL queue main\n" in script
    code, said = spool.run(spool.path / ".venv/bin/argosy", "status", "spooled")
    assert code == 0 and "4 completed" in said, said


def test_a_failure_is_told_as_by_any_other(spool: Workspace) -> None:
    (spool.path / "containers/workloads/hello.py").write_text("import sys\nsys.exit(3)\n")
    code, said = spool.run(spool.path / ".venv/bin/snakemake", "--cores", "1", "--keep-going")
    assert code == 1
    assert "exited with 3" in said or "exit code 3" in said, said


def test_a_scheduler_that_is_not_there_is_named(spool: Workspace) -> None:
    site = spool.path / "slurm/spooled/site.yaml"
    site.write_text(SITE.replace("spool\n", "pbs\n", 1))
    code, said = spool.snakemake("--dry-run")
    assert code == 1
    assert (
        "slurm/spooled/site.yaml: scheduler: there is no `pbs`\nhint: there are local, slurm"
        in said
    )
    assert "Traceback" not in said
