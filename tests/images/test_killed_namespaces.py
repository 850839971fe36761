"""Children in namespaces end with a killed parent, and change nothing more."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import os, sys, time
from pathlib import Path
from argosy_images import namespaces

folder, late = Path(sys.argv[1]), int(sys.argv[2])
ask_to_die = namespaces.die_with_parent
asked = 0

def die_with_parent():
    # Like on a busy machine: the parent ends before the child checks for it.
    global asked
    asked += 1
    if asked == late:
        (folder / "late").touch()
        while not (folder / "killed").exists():
            time.sleep(0.01)
    ask_to_die()

def work():
    (folder / "worked").touch()
    return ""

namespaces.die_with_parent = die_with_parent
try:
    namespaces.in_own_namespaces(work)
finally:
    with (folder / "unwound").open("a") as file:
        file.write(f"{os.getpid()}\\n")
"""


def started(folder: Path, late: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder), str(late)])


def wait_for(path: Path) -> None:
    until = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < until, path
        time.sleep(0.01)


def test_without_a_kill_it_works_and_only_the_process_itself_goes_on(tmp_path: Path) -> None:
    process = started(tmp_path, late=0)
    assert process.wait() == 0
    assert (tmp_path / "worked").exists()
    assert (tmp_path / "unwound").read_text() == f"{process.pid}\n"


@pytest.mark.parametrize("late", [1, 2], ids=["child", "grandchild"])
def test_a_parent_that_is_killed_before_its_child_asks_to_die_with_it(
    tmp_path: Path, late: int
) -> None:
    process = started(tmp_path, late)
    wait_for(tmp_path / "late")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.2)  # the child's end follows, where it can
    (tmp_path / "killed").touch()
    time.sleep(1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "late"]


def test_what_cannot_be_answered_is_not_passed_on(tmp_path: Path) -> None:
    # As if the parent had ended: nothing reads the pipe.
    program = PROGRAM.replace('return ""', 'os.closerange(3, 64)\n    return ""')
    process = subprocess.run([sys.executable, "-c", program, str(tmp_path), "0"], stderr=-1)
    assert b"the build's process ended with status 1" in process.stderr
    assert len((tmp_path / "unwound").read_text().splitlines()) == 1
