"""A job of real agents: the nodes are processes on this machine, all at 127.0.0.1."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from run_files import run_content

import argosy.runtime

RUNTIME = Path(argosy.runtime.__file__).parent
# The distribution's Python: any user may run it, which is not so for one in somebody's home.
PYTHON = os.environ.get("ARGOSY_TEST_PYTHON", "/usr/bin/python3")
ADDRESS = "127.0.0.1"

RECORD_A_STEP = """
import argosy_steps
with argosy_steps.Recorder().step(samples=1):
    pass
"""


class Job:
    """One attempt of a run, with a folder as docs/run-folder.md describes it."""

    def __init__(self, folder: Path, program: str | list[str], **run: Any) -> None:
        self.folder = folder
        self.attempt = f"{uuid.uuid4().hex}.0"
        self.token = "secret-of-the-job"
        self.nodes = run.setdefault("nodes", 2)
        self.ranks_per_node = run.setdefault("ranks_per_node", 1)
        self.agents: dict[int, subprocess.Popen[bytes]] = {}
        self.wrapper: list[str] = []
        if isinstance(program, str):
            path = folder / "program.py"
            path.write_text(textwrap.dedent(program))
            program = [PYTHON, str(path)]
        (folder / "run.json").write_text(
            json.dumps(run_content(**{"run_id": "run", "command": program, **run}))
        )
        (self.logs / "ranks").mkdir(parents=True)
        self.attempt_dir.mkdir(parents=True)
        self.holder = subprocess.Popen(
            [PYTHON, RUNTIME / "reserve_port.py", ADDRESS], stdout=subprocess.PIPE
        )
        assert self.holder.stdout
        self.port = int(self.holder.stdout.readline())

    @property
    def logs(self) -> Path:
        return self.folder / "logs" / self.attempt

    @property
    def attempt_dir(self) -> Path:
        return self.folder / "attempts" / self.attempt

    @property
    def records(self) -> Path:
        return self.folder / "records" / self.attempt

    def environment(self, node: int) -> dict[str, str]:
        return {
            **os.environ,
            "ARGOSY_RUN_DIR": str(self.folder),
            "ARGOSY_ATTEMPT": self.attempt,
            "ARGOSY_NODE": str(node),
            "ARGOSY_NODES": str(self.nodes),
            "ARGOSY_RANKS_PER_NODE": str(self.ranks_per_node),
            "ARGOSY_HEAD_ADDRESS": ADDRESS,
            "ARGOSY_HEAD_PORT": str(self.port),
            "ARGOSY_INTERFACE": "lo",
            "ARGOSY_TOKEN": self.token,
            "ARGOSY_ECHO": "1",
        }

    def start(self, *nodes: int, **environment: str) -> "Job":
        for node in nodes or range(self.nodes):
            with (self.logs / f"node-{node}.log").open("wb") as log:
                self.agents[node] = subprocess.Popen(
                    # Agents do not let others see their variables; what they are called is seen.
                    [*self.wrapper, PYTHON, RUNTIME / "agent", self.attempt],
                    env={**self.environment(node), **environment},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
        return self

    def wait(self, timeout: float = 25.0) -> list[int]:
        """The exit codes of all agents, by node."""
        deadline = time.monotonic() + timeout
        return [
            self.agents[node].wait(max(0.1, deadline - time.monotonic()))
            for node in sorted(self.agents)
        ]

    def until(self, condition: Callable[[], Any], timeout: float = 15.0) -> Any:
        """Wait for something to become true."""
        deadline = time.monotonic() + timeout
        while not (value := condition()):
            assert time.monotonic() < deadline, self.outputs()
            time.sleep(0.02)
        return value

    def until_printed(self, text: str) -> None:
        self.until(lambda: text in self.outputs())

    def status(self, node: int) -> Any:
        return json.loads((self.records / f"node-{node}.json").read_text())

    def failures(self) -> list[str]:
        """The cause that each node gives."""
        return [self.status(node)["failure"]["cause"] for node in range(self.nodes)]

    def output(self, node: int) -> str:
        return (self.logs / f"node-{node}.log").read_text()

    def outputs(self) -> str:
        return "".join(self.output(node) for node in self.agents)

    def rank_pid(self, rank: int) -> int:
        """The pid that a rank's program has printed as `pid N`."""
        self.until_printed(f"[{rank}] pid ")
        return int(self.outputs().split(f"[{rank}] pid ")[1].split()[0])

    def processes(self) -> list[int]:
        """All living processes of the job, wherever they have got to."""
        mark = self.attempt.encode()
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _has(path, mark)]

    def left_nothing(self) -> bool:
        """Whether all processes are gone, or will be in a moment."""
        self.until(lambda: not self.processes(), timeout=5.0)
        return True

    def verdict(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PYTHON, RUNTIME / "verdict.py", self.folder, self.attempt],
            capture_output=True,
            text=True,
        )

    def close(self) -> None:
        for pid in (*self.processes(), self.holder.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in (*self.agents.values(), self.holder):
            process.wait()
        assert self.holder.stdout
        self.holder.stdout.close()


def another_user() -> list[str]:
    """A command before a command that makes it another user's: by root, or by subordinate ids."""
    if os.getuid() == 0:
        return ["setpriv", "--reuid=65534", "--clear-groups"]
    name = pwd.getpwuid(os.getuid()).pw_name
    ranges = Path("/etc/subuid").read_text().splitlines() if Path("/etc/subuid").exists() else []
    mine = [line.split(":")[1] for line in ranges if line.startswith(f"{name}:")]
    if not mine or not shutil.which("newuidmap"):
        pytest.skip("becoming another user needs root, or subordinate ids and newuidmap")
    maps = [f"--map-users={mine[0]},0,1", f"--map-groups={mine[0]},0,1"]
    return ["unshare", "--user", *maps, "--setuid=0", "--setgid=0"]


def require_namespaces() -> None:
    """Skip the test where ordinary users may not make namespaces; but not in CI."""
    if subprocess.run(["unshare", "-rmpf", "true"], capture_output=True).returncode:
        assert os.environ.get("CI") != "true", "this test needs unshare -rm"
        pytest.skip("unshare -rm is not permitted here")


@contextmanager
def jobs(folder: Path) -> Iterator[Callable[..., Job]]:
    """Makes jobs, and clears up after them."""
    made: list[Job] = []

    def make(program: str | list[str], **run: Any) -> Job:
        made.append(Job(folder, program, **run))
        return made[-1]

    try:
        yield make
    finally:
        for job in made:
            job.close()


def _has(process: Path, mark: bytes) -> bool:
    for name in ("environ", "cmdline"):
        with suppress(OSError):
            if mark in (process / name).read_bytes():
                return True
    return False
