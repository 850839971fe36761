"""Start of a node: failures are one line, and folders of killed jobs are removed."""

import fcntl
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

import argosy

PROGRAM = Path(argosy.__file__).parent / "runtime" / "start-node.sh"


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "a folder; $(of) 'records'"
    path.mkdir()
    return path


def start(records: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    variables = {
        "PATH": os.environ["PATH"],
        "SLURM_NODEID": "3",
        "ARGOSY_NODE_VARIABLE": "SLURM_NODEID",
        "ARGOSY_RECORDS": str(records),
        "ARGOSY_SITE_FILE": "slurm/kestrel/site.yaml",
        "ARGOSY_TMPDIR": str(records.parent),
        **more,
    }
    return subprocess.run(
        ["bash", PROGRAM, *command], env=variables, capture_output=True, text=True, timeout=20
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Return the cause in the only printed line."""
    [line] = done.stderr.splitlines()
    begin = f"argosy: node 3 on {os.uname().nodename} did not start: "
    assert line.startswith(begin)
    return line.removeprefix(begin)


def test_a_node_that_does_not_see_the_results(records: Path) -> None:
    done = start(records / "elsewhere", "true")
    assert done.returncode == 2
    assert said(done).startswith(f"it does not see {records}/elsewhere")


def test_a_node_without_the_python_that_planned_the_job(records: Path) -> None:
    done = start(records, "/no/such/python", "-m", "argosy_images.run")
    assert done.returncode == 2
    assert said(done).startswith("it cannot run /no/such/python")


@pytest.mark.parametrize("variable", ["", "NOBODY_SETS_IT"])
def test_a_node_that_does_not_know_its_number(records: Path, variable: str) -> None:
    done = start(records, "true", ARGOSY_NODE_VARIABLE=variable)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "ARGOSY_NODE_VARIABLE names no variable that the launcher sets" in line


@pytest.mark.parametrize("why", ["No such file or directory", "Not a directory"])
def test_scratch_that_cannot_be_used_names_its_key(records: Path, why: str) -> None:
    scratch = "/no/scratch" if why.startswith("No such") else "/etc/passwd"
    line = said(start(records, "true", ARGOSY_TMPDIR=scratch))
    assert f"can be made in {scratch}: {why}; `tmpdir` in slurm/kestrel/site.yaml" in line


def test_words_of_a_preloaded_library_do_not_become_the_scratch_folder(records: Path) -> None:
    preload = {"LD_PRELOAD": "/soft/of/the/login/node/libtracker.so"}
    done = start(records, "bash", "-c", 'cd "$TMPDIR" && pwd', **preload)
    assert "cannot be preloaded" in done.stderr
    assert Path(done.stdout.strip()).parent == records.parent
    assert [*records.parent.iterdir()] == [records]


def test_a_command_that_ends_before_its_agent_has_begun(records: Path) -> None:
    done = start(records, "bash", "-c", "exit 7")
    assert done.returncode == 7
    assert said(done) == "exit code 7"


def test_an_agent_that_has_begun_speaks_for_itself(records: Path) -> None:
    (records / "node-3.json").write_text("{}")
    done = start(records, "bash", "-c", "exit 7")
    assert (done.returncode, done.stderr) == (7, "")


def test_whom_a_signal_ends_has_not_failed_to_start(records: Path) -> None:
    done = start(records, "bash", "-c", 'kill -TERM "$PPID"; sleep 0.2; exit 143')
    assert (done.returncode, done.stderr) == (143, "")


def test_what_killed_jobs_left_on_a_node_is_removed(records: Path) -> None:
    scratch = records.parent / "scratch"
    here = f"argosy-node.{os.uname().nodename.partition('.')[0]}"
    # The script checks them in this order: when the last is gone, the others have been checked.
    held, young, left = (scratch / f"{here}.{name}" for name in ("1-held", "young2", "z-left"))
    other = [scratch / f"argosy-node.elsewhere.{'a' * 6}", scratch / f"{here}.org.{'a' * 6}"]
    for folder in (left, held, young, *other):
        folder.mkdir(parents=True)
        (folder / "file").touch()
    kept = records / "kept"
    kept.touch()
    link = scratch / f"{here}.linked"
    link.symlink_to(records)
    for path in (left, held, records, *other):
        os.utime(path, (1, 1))
    os.utime(link, (1, 1), follow_symlinks=False)
    holder = os.open(held, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        done = start(records, "sh", "-c", 'ls "$TMPDIR"; exit 3', ARGOSY_TMPDIR=str(scratch))
        wait_until_gone(left)
    finally:
        os.close(holder)
    assert done.returncode == 3
    # Locks on a shared scratch folder may be local to a node.
    assert {*scratch.iterdir()} == {held, young, link, *other}
    assert kept.exists()


def test_the_domain_of_a_node_leaves_room_for_the_path_of_a_socket(
    records: Path, tmp_path: Path
) -> None:
    # Some nodes have a long host name.
    (tmp_path / "uname").write_text(f"#!/bin/sh\necho node7.{'long.' * 20}example.org\n")
    (tmp_path / "uname").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    say = 'echo "${TMPDIR##*/}" >&2; exit 3'
    done = start(records, "sh", "-c", say, PATH=path, ARGOSY_TMPDIR=str(records))
    assert re.search(r"^argosy-node\.node7\.\w{6}$", done.stderr, re.MULTILINE), done.stderr


def test_the_command_of_a_killed_shell_keeps_its_temporary_files(records: Path) -> None:
    waits = 'kill -KILL "$PPID"; read -r _; ls -d "$TMPDIR"'
    variables = {
        "PATH": os.environ["PATH"],
        "ARGOSY_NODE_VARIABLE": "SLURM_NODEID",
        "SLURM_NODEID": "0",
    }
    variables["ARGOSY_TMPDIR"] = str(records)
    with subprocess.Popen(
        ["bash", PROGRAM, "bash", "-c", waits],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as killed:
        assert killed.wait(20) == -signal.SIGKILL
        [folder] = records.glob("argosy-node.*")
        last = folder.with_suffix(".zzzzzz")
        last.mkdir()
        for path in (folder, last):
            os.utime(path, (1, 1))
        start(records, "true", ARGOSY_TMPDIR=str(records))
        wait_until_gone(last)
        assert folder.is_dir()
        assert killed.communicate("\n", timeout=20)[0].strip() == str(folder)
    start(records, "true", ARGOSY_TMPDIR=str(records))
    wait_until_gone(folder)


def wait_until_gone(folder: Path) -> None:
    """Wait for the removal, which runs in the background."""
    end = time.monotonic() + 20
    while folder.exists():
        assert time.monotonic() < end, folder
        time.sleep(0.02)
