"""Only the agent has the job's token."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from agent_job import PYTHON, RECORD_A_STEP, RUNTIME

from argosy.runtime.agent.transport import signing

# Prints whether a process that hid its memory is dumpable, with a tracer and without.
LOOK = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
from agent.transport.signing import hide_memory
libc = ctypes.CDLL(None)
for traced in (True, False):
    if os.fork() == 0:
        if traced:
            libc.ptrace(0, 0, 0, 0)
        hide_memory()
        print(libc.prctl(3, 0, 0, 0, 0), flush=True)
        os._exit(0)
    os.wait()
"""
# A native rank may inspect all processes of its user, except agents.
HOSTILE = """
import os
for name in ("environ", "maps", "mem"):
    try:
        print(name, len(open(f"/proc/{os.getppid()}/{name}", "rb").read(100)))
    except PermissionError:
        print(name, "refused")
print("own", [name for name in os.environ if "TOKEN" in name])
"""


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the process of the tests dumpable."""
    monkeypatch.setattr(signing, "hide_memory", lambda: None)


@pytest.mark.usefixtures("hidden")
def test_the_token_is_taken_from_its_file_and_from_the_variables(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("secret")
    environ = {"ARGOSY_TOKEN_FILE": str(path), "ARGOSY_NODE": "1"}
    taken = signing.take_secrets(environ)
    assert taken["ARGOSY_TOKEN"] == "secret"
    assert taken["ARGOSY_NODE"] == "1"
    assert environ == {"ARGOSY_NODE": "1"}
    assert not path.exists()
    environ["ARGOSY_TOKEN"] = "another"
    assert signing.take_secrets(environ)["ARGOSY_TOKEN"] == "another"
    assert environ == {"ARGOSY_NODE": "1"}


def test_who_is_traced_stays_readable_for_its_tracer() -> None:
    """proot traces its processes and has to read file names in their memory."""
    done = subprocess.run([PYTHON, "-c", LOOK, RUNTIME], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1\n0\n", "")


def test_a_rank_without_a_container_cannot_read_its_agent(job: Any) -> None:
    job = job(HOSTILE + RECORD_A_STEP, nodes=1).start()
    assert job.wait() == [0], job.outputs()
    lines = [line for line in job.output(0).splitlines() if line.startswith("[0] ")]
    assert lines == ["[0] environ refused", "[0] maps refused", "[0] mem refused", "[0] own []"]


def test_a_file_that_is_not_there_is_one_line(job: Any) -> None:
    job = job("pass", nodes=1).start(ARGOSY_TOKEN_FILE="/nowhere/token")
    assert job.wait() == [2]
    assert job.output(0) == "argosy: [Errno 2] No such file or directory: '/nowhere/token'\n"
