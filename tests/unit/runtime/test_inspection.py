"""Detection of progress in real processes that compute, loop, wait and stop."""

import os
import signal
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from agent_job import PYTHON, RUNTIME

from argosy.runtime.agent.hangs import inspection, progress
from argosy.runtime.agent.hangs.inspection import Finding, inspect
from argosy.runtime.agent.hangs.places import ENDED, IS, STOPPED, UNKNOWN, WAITS, WORKS, Place
from argosy.runtime.agent.hangs.progress import complete
from argosy.runtime.agent.hangs.stacks import VARIABLE, Dump, Frame, StackFolder

Look = Callable[..., Place]


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Look]:
    """Starts a program as rank 3, and returns its place once it is in the expected state."""
    monkeypatch.setattr(inspection, "_PAUSE", 0.05)
    monkeypatch.setattr(inspection, "UNDISTURBED", 0.5)
    monkeypatch.setattr(progress, "UNDISTURBED", 0.5)
    folder = StackFolder()
    variables = {**os.environ, VARIABLE: folder.make(), "PYTHONPATH": str(RUNTIME / "python")}
    started: list[subprocess.Popen[bytes]] = []

    def at(program: str | list[str], state: str, again: int = 1) -> Place:
        if isinstance(program, str):
            (tmp_path / "train.py").write_text(textwrap.dedent(program))
            program = [PYTHON, str(tmp_path / "train.py")]
        process = subprocess.Popen(
            program, env=variables, stdout=subprocess.DEVNULL, start_new_session=True
        )
        started.append(process)
        # Until it has reached its final place.
        for _ in range(20):
            found = inspect(1, {3: process.pid}, folder)
            place = without_digest(found)
            assert place.rank == 3
            if place.state == state:
                break
        # It must stay in that state.
        for _ in range(again):
            found = inspect(1, {3: process.pid}, folder)
            place = without_digest(found)
            assert place.state == state
        return place

    yield at
    for process in started:
        # With its children, which would run for ever.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    folder.remove()


def without_digest(finding: Finding) -> Place:
    (place,) = finding.places
    return replace(place, stack="")


@pytest.mark.slow
def test_an_endless_loop_does_not_get_on(look: Look) -> None:
    look("number = 0\nwhile True:\n    number = number + 1\n", IS)


def test_a_sleep_does_not_get_on(look: Look) -> None:
    assert look("import time\nwhile True:\n    time.sleep(0.1)\n", IS) == Place(
        3, IS, "", "train.py:3"
    )


@pytest.mark.parametrize(
    "program",
    [
        "import time\nwhile time.time() > 0: time.sleep(1)\n",
        "import time\nfor _ in range(100): time.sleep(1)\n",
        "import time\ntime.sleep(100)\n",
        "import subprocess\nsubprocess.run(['sleep', '100'])\n",
        "number = 1\nwhile number: number = number * 3 % 1000003\n",
        "while True: sum(range(10_000_000))\n",
        "import os\nos.mkfifo('pipe')\nopen('pipe').read()\n",
        "import fcntl, os\none, other = open('lock', 'w'), open('lock')\n"
        "fcntl.flock(one, fcntl.LOCK_EX)\nfcntl.flock(other, fcntl.LOCK_EX)\n",
        "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname()).recv(1)\n",
        "import time\nwhile True:\n    open('/proc/self/stat').read(1)\n    time.sleep(0.1)\n",
    ],
    ids=["asks", "counts", "sleeps", "child", "computes", "call", "opens", "lock", "network", "reads"],
)  # fmt: skip
def test_what_may_end_by_itself_gets_on(
    look: Look, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    look(program, WORKS)


@pytest.mark.parametrize(
    "program",
    [
        "import threading\nthreading.Event().wait()\n",
        "import threading\nwhile not threading.Event().wait(0.3): pass\n",
        "import queue\nqueue.Queue().get()\n",
        "import time\ntime.sleep(1000)\n",
        "import subprocess\nsubprocess.run(['sleep', '1000'])\n",
        "import os\nos.read(os.pipe()[0], 1)\n",
    ],
    ids=["event", "asks its own", "queue", "sleeps", "child sleeps", "pipe"],
)
def test_what_cannot_end_by_itself_does_not_get_on(look: Look, program: str) -> None:
    look(program, IS)


@pytest.mark.slow
def test_a_script_of_short_programs_gets_on_whenever_it_is_looked_at(look: Look) -> None:
    """The first sleep may be over at the last sample, and the next process is unknown."""
    program = "import subprocess\nsubprocess.run(['sh', '-c', 'while :; do sleep 0.7; done'])\n"
    look(program, WORKS, again=15)


def test_a_validation_in_many_functions_works(look: Look) -> None:
    look(
        """
        import json
        def first(values): return [value * 2 for value in values]
        def second(values): return json.dumps(values)
        while True:
            second(first(list(range(2000))))
        """,
        WORKS,
    )


def test_one_call_that_fills_memory_works(look: Look) -> None:
    look("while True:\n    bytes(bytearray(b'x') * (1 << 26))\n", WORKS)


def test_a_rank_whose_children_compute_works(look: Look) -> None:
    program = """
    import subprocess
    subprocess.run(["sh", "-c", "while :; do :; done"])
    """
    look(program, WORKS)


def test_one_long_call_of_a_library_works(look: Look) -> None:
    look("import json\nwhile True:\n    json.dumps(list(range(100_000)))\n", WORKS)


def test_an_endless_loop_in_a_child_does_not_get_on(look: Look) -> None:
    program = """
    import subprocess, sys
    subprocess.run([sys.executable, "-c", "while True: pass"])
    """
    assert look(program, IS) == Place(3, IS, "", "<string>:1")


def test_a_loader_whose_workers_hang_does_not_get_on(look: Look) -> None:
    place = look(
        """
        import multiprocessing, time
        def work(queue):
            time.sleep(600)
        queue = multiprocessing.Queue()
        multiprocessing.Process(target=work, args=(queue,), daemon=True).start()
        queue.get()
        """,
        IS,
    )
    assert place == Place(3, IS, "get of queues.py", "train.py:7")


# As torchrun starts its workers: the first has computed most, and waits in a collective.
WORKERS = """
import os, subprocess, sys, threading, time
if len(sys.argv) == 1:
    workers = [subprocess.Popen([sys.executable, __file__, f"--local_rank={n}"]) for n in range(2)]
    os.execlp("sleep", "sleep", "600")
sys.path.insert(0, "FOLDER")
from torch.distributed import fake
if sys.argv[1].endswith("0"):
    end = time.process_time() + 1
    while time.process_time() < end: pass
    fake.all_reduce()
OTHER
"""


@pytest.mark.parametrize(
    ("other", "state"),
    [
        ("for _ in range(600): time.sleep(1)", WORKS),
        ("threading.Event().wait()", IS),
        ("fake.all_reduce()", WAITS),
    ],
)
def test_the_place_is_of_the_worker_that_does_not_wait(
    look: Look, tmp_path: Path, other: str, state: str
) -> None:
    folder = tmp_path / "site-packages/torch/distributed"
    folder.mkdir(parents=True)
    for name in ("__init__.py", "../__init__.py"):
        (folder / name).touch()
    (folder / "fake.py").write_text(
        "import threading\ndef all_reduce(): threading.Event().wait()\n"
    )
    program = WORKERS.replace("FOLDER", str(folder.parents[1])).replace("OTHER", other)
    place = look(program, state)
    if state == IS:
        assert place.where == "train.py:12"


def test_a_stopped_rank_is_called_stopped(look: Look) -> None:
    look("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", STOPPED)


@pytest.mark.slow
def test_a_program_that_is_no_python_and_one_that_has_ended(look: Look) -> None:
    look(["sleep", "600"], UNKNOWN)
    look(["sh", "-c", "while :; do :; done"], WORKS)
    assert inspect(1, {0: 0}, StackFolder()).places == (Place(0, ENDED),)


def test_a_script_is_looked_through_to_its_python(look: Look, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import time\ntime.sleep(600)\n")
    place = look(["sh", "-c", f"{PYTHON} {tmp_path}/own.py; true"], IS)
    assert place == Place(3, IS, "", "own.py:2")


def dump(*places: tuple[str, int]) -> Dump:
    return Dump(7, "text", tuple(Frame("train.py", line, function) for function, line in places))


def test_stacks_that_were_read_while_they_were_written_do_not_count() -> None:
    before, later = (dump(("step", line), ("epoch", 5), ("<module>", 9)) for line in (2, 3))
    empty, cut, shorter = dump(), dump(("step", 1)), dump(("step", 2), ("epoch", 5))
    assert complete([before, empty, cut, later, shorter]) == [before, later]


def test_stacks_of_other_places_count_all() -> None:
    module = [("<module>", 9)]
    places = [
        dump(("f", 2), *module),
        dump(("g", 3), *module),
        dump(("f", 2), ("f", 2), *module),
        dump(*module),
    ]
    assert complete(places) == places
    assert complete([dump(), dump()]) == []
