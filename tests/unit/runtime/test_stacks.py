"""Python stacks of unmodified programs, and of no other processes."""

import os
import signal
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_job import PYTHON, RUNTIME

from argosy.runtime.agent.hangs.processes import caught
from argosy.runtime.agent.hangs.stacks import SIGNAL, VARIABLE, Dump, StackFolder, first_thread

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder() -> Iterator[StackFolder]:
    made = StackFolder()
    yield made
    made.remove()


@pytest.fixture
def start(folder: StackFolder, tmp_path: Path) -> Iterator[Start]:
    """Starts programs like an agent, and returns when they have printed a line."""
    variables = {
        **os.environ,
        VARIABLE: folder.make(),
        "PYTHONPATH": f"{RUNTIME / 'python'}:{tmp_path}",
    }
    started = []

    def run(program: str, *, ready: bool = True) -> "subprocess.Popen[str]":
        path = tmp_path / "train.py"
        path.write_text(textwrap.dedent(program))
        process = subprocess.Popen(
            [PYTHON, "-u", path], env=variables, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        if ready:
            assert process.stdout and process.stdout.readline()
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def ask(folder: StackFolder, process: "subprocess.Popen[str]") -> Dump:
    return folder.ask({process.pid})[process.pid]


def test_a_program_that_knows_nothing_of_it_shows_where_it_is(
    folder: StackFolder, start: Start
) -> None:
    process = start(
        """
        import threading, time
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        def wait():
            print("ready")
            time.sleep(60)
        wait()
        """
    )
    time.sleep(0.3)
    for _ in range(2):
        dump = ask(folder, process)
        assert [(frame.line, frame.function) for frame in dump.frames] == [
            (6, "wait"),
            (7, "<module>"),
        ]
        assert dump.text.count("Thread") + dump.text.count("thread 0x") >= 2
    assert process.poll() is None


def test_the_sleep_that_is_asked_about_goes_on(folder: StackFolder, start: Start) -> None:
    process = start("import time\nprint('ready')\ntime.sleep(1.5)\nprint('slept')")
    ask(folder, process)
    assert process.communicate(timeout=10)[0] == "slept\n"
    assert process.returncode == 0


def test_the_programs_own_sitecustomize_is_the_one_that_counts(
    folder: StackFolder, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.own = 1\nname = 'own'\n")
    process = start(
        """
        import sitecustomize
        print(own, sitecustomize.name, sitecustomize.__file__)
        import time
        time.sleep(60)
        """,
        ready=False,
    )
    assert process.stdout
    assert process.stdout.readline().split() == ["1", "own", str(tmp_path / "sitecustomize.py")]
    assert folder.registered() == {process.pid}


@pytest.mark.parametrize("own", ["raise ValueError('mine')", "import no_such_module"])
def test_a_sitecustomize_that_fails_does_so_as_without(tmp_path: Path, own: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(own)
    said = [
        subprocess.run(
            [PYTHON, "-c", "print('runs')"],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
        for path in (str(tmp_path), f"{RUNTIME / 'python'}:{tmp_path}")
    ]
    assert said[0].stdout == said[1].stdout
    assert said[0].stderr.splitlines()[-1] == said[1].stderr.splitlines()[-1]
    assert said[0].returncode == said[1].returncode


def test_a_program_without_one_has_none(start: Start) -> None:
    program = "import importlib\ntry:\n import {}\nexcept ImportError as e: print(e.name)\ninput()"
    # The distribution's Python has its own; an interpreter without site packages has none.
    said = subprocess.run(
        [PYTHON, "-S", "-c", program.format("sitecustomize")],
        env={**os.environ, "PYTHONPATH": str(RUNTIME / "python")},
        capture_output=True,
        text=True,
        input="\n",
    )
    expected = subprocess.run(
        [PYTHON, "-S", "-c", program.format("sitecustomize")],
        capture_output=True,
        text=True,
        input="\n",
        cwd="/",
    )
    assert said.stdout == expected.stdout, said.stderr


def test_the_programs_own_handlers_stay(folder: StackFolder, start: Start) -> None:
    process = start(
        """
        import faulthandler, signal, sys, time
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGRTMIN):
            assert signal.getsignal(number) is signal.SIG_DFL, number
            signal.signal(number, lambda number, frame: print("heard", number))
        faulthandler.enable()
        print("ready")
        while True:
            time.sleep(0.1)
        """
    )
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGRTMIN):
        process.send_signal(number)
        assert process.stdout and process.stdout.readline() == f"heard {int(number)}\n"
    assert ask(folder, process).frames[-1].function == "<module>"


def test_a_program_that_is_no_python_is_left_alone(folder: StackFolder, start: Start) -> None:
    became = start("import os\nprint('ready')\nos.execvp('sleep', ['sleep', '60'])")
    time.sleep(0.3)
    assert SIGNAL not in caught(became.pid)
    assert folder.registered() == set()
    assert folder.ask({became.pid, os.getpid()}) == {}
    assert became.poll() is None


def test_a_program_that_took_the_descriptor_for_something_else_is_left_alone(
    folder: StackFolder, start: Start, tmp_path: Path
) -> None:
    process = start(
        """
        import os
        os.closerange(3, 1000)
        file = os.open("own", os.O_CREAT | os.O_WRONLY)
        os.dup2(file, 200)
        print("ready")
        import time
        time.sleep(60)
        """.replace('"own"', repr(str(tmp_path / "own")))
    )
    assert folder.ask({process.pid}) == {}
    assert (tmp_path / "own").read_text() == ""


def test_a_forked_child_that_ends_leaves_its_parents_file(
    folder: StackFolder, start: Start
) -> None:
    process = start(
        """
        import os, sys, time
        if os.fork() == 0:
            sys.exit()
        os.wait()
        print("ready")
        time.sleep(1)
        """
    )
    assert folder.registered() == {process.pid}
    process.wait(10)
    assert folder.registered() == set()


def test_without_an_agent_nothing_is_registered() -> None:
    read = "int(open('/proc/self/status').read().split('SigCgt:')[1].split()[0], 16)"
    program = f"print({read} >> {int(SIGNAL) - 1} & 1)"
    for path in ("", str(RUNTIME / "python")):
        environment = {**os.environ, "PYTHONPATH": path}
        environment.pop(VARIABLE, None)
        said = subprocess.run([PYTHON, "-c", program], env=environment, capture_output=True)
        assert said.stdout == b"0\n", said.stderr


def test_the_first_thread_is_the_one_that_is_named_last() -> None:
    text = """Thread 0x1 [worker] (most recent call first):
  File "/a/queue.py", line 3 in get

Current thread 0x2 (most recent call first):
  File "/b/with, \\"odd\\" name.py", line 12 in <lambda>
  File "train.py", line 7 in <module>
"""
    assert [frame.line for frame in first_thread(text)] == [12, 7]
    assert first_thread("") == ()
