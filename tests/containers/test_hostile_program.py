"""A hostile program tries everything against its host, in a real container of each engine."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from agent_job import RUNTIME

from argosy.images.engines.models import Bind
from argosy.images.store.store import Store

pytestmark = [pytest.mark.container, pytest.mark.udocker]

PROGRAM = Path(__file__).parent / "programs"
ATTEMPT = "7.0"
HARMLESS = {
    # What reaches the container's own terminal, whose other end is a pipe's, or nobody.
    "push input into the terminal",
    # Becoming who one is: its own namespace.
    "setns",
}


def state(path: Path) -> tuple[Any, ...]:
    found = path.lstat()
    return path.read_bytes(), found.st_mode, found.st_mtime_ns, found.st_nlink


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    run = {"schema_version": 2, "run_id": "r", "nodes": 1, "spec": "s", "checkpoints": None}
    (folder / "run.json").write_text(json.dumps(run))
    for name in ("job.sbatch", "job.json", "provenance.json"):
        (folder / name).write_text("{}")
    (folder / "logs" / ATTEMPT).mkdir(parents=True)
    assert host(folder, "claim.py", "s", str(tmp_path)).returncode == 0
    return folder


def host(run_dir: Path, program: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, RUNTIME / program, run_dir, ATTEMPT, *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=20)


def binds_of(run_dir: Path, runtime: Path, workloads: Path) -> list[Bind]:
    """As job.sbatch has them."""
    writable = [f"records/{ATTEMPT}", f"logs/{ATTEMPT}/ranks"]
    writable += [f"checkpoints/{ATTEMPT}", "output"]
    return [
        Bind(run_dir, "/job"),
        *(Bind(run_dir / name, f"/job/{name}", writable=True) for name in writable),
        Bind(runtime, "/argosy"),
        Bind(workloads, "/workloads"),
    ]


RUN = """
import json, sys
from pathlib import Path
from argosy.images.engines import container
from argosy.images.engines.models import Bind, Container
from argosy.images.store.store import Store
store, root, engine, binds, command = json.loads(sys.argv[1])
binds = [Bind(Path(source), target, writable) for source, target, writable in binds]
path = {"PATH": "/opt/venv/bin:/usr/bin:/bin"}
inside = Container(Path(root), command, binds=binds, environment=path, engine=engine)
outcome = container.run(Store(Path(store)), inside, sys.stdout.buffer.write)
sys.stdout.flush()
sys.exit(outcome.status if outcome.status is not None else 100)
"""
# crun refuses hosts that have control groups of both versions.
WITHOUT_GROUPS = [
    *("unshare", "--user", "--map-root-user", "--mount"),
    *("sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh"),
]


def contained(
    store: Store, root: Path, engine: str, binds: list[Bind], command: list[str]
) -> tuple[int, str]:
    """Exit status and output of a command in a container."""
    described = [(str(bind.source), bind.target, bind.writable) for bind in binds]
    asked = json.dumps([str(store.path), str(root), engine, described, command])
    before = WITHOUT_GROUPS if engine == "crun" else []
    done = subprocess.run(
        [*before, sys.executable, "-c", RUN, asked],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
    )
    return done.returncode, done.stdout.decode(errors="replace")


@pytest.mark.parametrize("engine", ["runc", "crun", "R1"])
def test_none_of_its_attempts_reaches_the_host(
    project_store: Store, torch_digest: str, run_dir: Path, tmp_path: Path, engine: str
) -> None:
    (tmp_path / "other").mkdir()
    canaries = [
        tmp_path / "other/run.json",
        tmp_path / "home",
        *(tmp_path / "argosy" / name for name in ("verdict.py", "claim.py")),
    ]
    for folder in ("argosy/agent", "workloads"):
        (tmp_path / folder).mkdir(parents=True)
    canaries.append(tmp_path / "workloads/train.py")
    for path in canaries:
        path.write_text("{}")
    host_files = [path for path in run_dir.rglob("*") if path.is_file()]
    before = {path: state(path) for path in (*canaries, *host_files)}
    listed = set((run_dir / "attempts").rglob("*"))
    binds = binds_of(run_dir, tmp_path / "argosy", tmp_path / "workloads")
    # A folder that every image has stands in for the program's own.
    binds.append(Bind(PROGRAM, "/data"))
    command = ["python3", "/data/hostile.py", ATTEMPT, *map(str, canaries)]
    root = project_store.root(torch_digest)
    status, output = contained(project_store, root, engine, binds, command)
    said = output.splitlines()
    assert "attempts" in " ".join(said), said
    worked = {line.removeprefix("WORKED ") for line in said if line.startswith("WORKED ")}
    assert worked <= HARMLESS, worked
    assert sum(line.startswith(("HELD", "WORKED")) for line in said) >= 50
    assert status != 0
    assert {path: state(path) for path in before} == before
    assert set((run_dir / "attempts").rglob("*")) == listed

    began = time.monotonic()
    judged = host(run_dir, "verdict.py")
    assert time.monotonic() - began < 10
    assert judged.returncode == 1, judged
    verdict = json.loads((run_dir / f"attempts/{ATTEMPT}/verdict.json").read_text())
    assert verdict["state"] == "failed"
    assert not (run_dir / "result.json").exists()
    assert {path: state(path) for path in before} == before
