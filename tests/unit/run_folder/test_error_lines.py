"""The line of a program's output that explains its failure, for Python and launchers."""

import subprocess
import sys
from pathlib import Path

import pytest

from argosy.run_folder.failures import error_line

CAUSE = "ValueError: batch size 33 is not divisible by 4"
FAILS = 'raise ValueError("batch size 33 is not divisible by 4")'
OF_TORCHRUN = """\
W1128 03:31:44.438000 17 torch/distributed/elastic/api.py:1028] Sending process 23 closing signal
E1128 03:31:44.440000 17 torch/distributed/elastic/api.py:1002] failed (exitcode: 1) local_rank: 0
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
             ^^^^^^
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
/workloads/child.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 22)
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
IN_A_BOX = """\
╭─────────────── Traceback (most recent call last) ───────────────╮
│ /workloads/train.py:3 in <module>                                │
│ ❱ 3 main()                                                       │
╰──────────────────────────────────────────────────────────────────╯
"""


def printed(program: str) -> str:
    """Return the output of a failing Python program."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode
    return done.stdout + done.stderr


def line_of(tmp_path: Path, text: str) -> str:
    (tmp_path / "log").write_text(text)
    return error_line(tmp_path / "log", tmp_path)


OF_A_WORKER = (
    f'import subprocess, sys; subprocess.run([sys.executable, "-c", {FAILS!r}], check=True)'
)
LATE_WORDS = (
    "import atexit, sys; atexit.register(print, 'wandb: Find logs at: ./wandb', file=sys.stderr); "
)


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (FAILS, CAUSE),
        (LATE_WORDS + FAILS, CAUSE),
        (OF_A_WORKER, CAUSE),
        (
            r"raise RuntimeError('Error(s) in loading Net:\n\tMissing key(s): \"fc\"\n\tsize')",
            'RuntimeError: Error(s) in loading Net: Missing key(s): "fc"',
        ),
        (r"raise OSError('no space\nleft\n')", "OSError: no space"),
        (
            "raise ExceptionGroup('in two tasks', [ValueError('shard 7'), OSError('shard 8')])",
            "ExceptionGroup: in two tasks (2 sub-exceptions)",
        ),
        ("import sys\ntry: 1/0\nexcept Exception: raise KeyError('data')", "KeyError: 'data'"),
        ("import sys; sys.exit('train.py: error: no --data')", "train.py: error: no --data"),
        ("raise SystemExit('no data')", "no data"),
        ("f(", "SyntaxError: '(' was never closed"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        (
            "import sys, traceback\ntry: 1/0\nexcept Exception: traceback.print_exc()\n"
            "sys.exit('train.py: error: no shard is whole')",
            "train.py: error: no shard is whole",
        ),
        (
            "import sys, traceback\ntry: 1/0\nexcept Exception: traceback.print_exc()\n"
            "for step in range(99): print('step', step, file=sys.stderr)\nsys.exit(3)",
            "step 98",
        ),
        (
            "import atexit; atexit.register(lambda: 1/0); " + FAILS,
            CAUSE,
        ),
    ],
)  # fmt: skip
def test_the_cause_in_what_python_prints(tmp_path: Path, program: str, line: str) -> None:
    assert line_of(tmp_path, printed(program)) == line


@pytest.mark.parametrize("sign", ["", "[rank0]: ", "(trainer pid=17) "])
def test_torchrun_hides_no_cause(tmp_path: Path, sign: str) -> None:
    first = "".join(f"{sign}{line}\n" for line in printed(FAILS).splitlines())
    later = printed("raise RuntimeError('Connection closed by peer')")
    assert line_of(tmp_path, first + later + OF_TORCHRUN) == CAUSE


# The summary of torchrun 2.13 for workers with `@record`.
WORKER = """\
[{place}]:
  time      : 2026-11-29_22:12:25
  host      : localhost
  rank      : {rank} (local_rank: {place})
  exitcode  : {code} (pid: 18) {name}
  error_file: {file}
  traceback : {traceback}
"""
OF_RECORD = """\
Traceback (most recent call last):
    File "/opt/venv/lib/python3.11/site-packages/torch/distributed/elastic/wrapper.py", line 3, in wrapper
      return f(*args, **kwargs)
             ^^^^^^^^^^^^^^^^^^
  {error}
"""
LOST = "RuntimeError: Connection closed by peer [127.0.0.1]:16811"


@pytest.mark.parametrize(
    ("code", "error", "root", "line"),
    [
        (1, CAUSE, -1, CAUSE),
        (5, "", 0, "rank 3 of torchrun: exit code 5"),
        (-9, "", -1, "rank 3 of torchrun: Signal 9 (SIGKILL) received by PID 18"),
        (0, "", 0, LOST),
    ],
)
def test_torchrun_names_the_worker_that_failed(
    tmp_path: Path, code: int, error: str, root: int, line: str
) -> None:
    """The root cause is last; torchrun may take a worker for it that it ended itself."""
    see = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    see = "Signal 9 (SIGKILL) received by PID 18" if code < 0 else see
    ended = OF_RECORD.format(error=LOST)
    workers = [
        WORKER.format(place=0, rank=2, code=-15, name="(SIGTERM)", file="x", traceback=ended)
    ]
    if code:
        said = OF_RECORD.format(error=error) if error else see
        file = "y" if error else "<N/A>"
        workers.append(
            WORKER.format(place=1, rank=3, code=code, name="", file=file, traceback=said)
        )
    root_cause = workers.pop(root)
    summary = OF_TORCHRUN.partition("Failures:")[0] + "Failures:\n" + "".join(workers)
    text = f"{summary}Root Cause (first observed failure):\n{root_cause}{'=' * 60}\n"
    assert line_of(tmp_path, text) == line


def test_a_process_that_ended_before_it_answered_hides_no_cause(tmp_path: Path) -> None:
    long = tmp_path / ("a-long-name-of-a-scratch-folder" * 4)
    long.mkdir()
    program = "import tempfile, multiprocessing as m; tempfile.tempdir = {!r}; m.Manager()"
    assert line_of(tmp_path, printed(program.format(str(long)))) == "OSError: AF_UNIX path too long"
    alone = "import pickle; pickle.loads(b'')"
    assert line_of(tmp_path, printed(alone)) == "EOFError: Ran out of input"


def test_without_the_words_of_a_child_the_launcher_is_quoted(tmp_path: Path) -> None:
    assert line_of(tmp_path, OF_TORCHRUN).endswith("ChildFailedError: /workloads/child.py FAILED")


def test_a_traceback_in_a_box(tmp_path: Path) -> None:
    assert line_of(tmp_path, f"{IN_A_BOX}{CAUSE}\n\x1b[0m\nwandb: done\n") == CAUSE


def test_lines_of_two_processes_in_each_other(tmp_path: Path) -> None:
    one = [f"[rank0]: {line}" for line in printed(FAILS).splitlines()]
    other = [f"[rank1]: {line}" for line in printed(FAILS).splitlines()]
    mixed = [line for pair in zip(one, other, strict=True) for line in pair]
    assert line_of(tmp_path, "\n".join(mixed)) == CAUSE


@pytest.mark.parametrize("text", ["", "\n", "Traceback (most recent call last):\n"])
def test_a_log_without_an_exception(tmp_path: Path, text: str) -> None:
    assert line_of(tmp_path, text) == text.strip()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "/w/t.js:1\nthrow x\n^\n\nError: bad shape\n    at f (/w/t.js:1:79)\n\nNode.js v20.20.2\n",
            "Error: bad shape",
        ),
        (
            "epoch 1\nError in f() : bad shape\nCalls: f\nExecution halted\n",
            "Error in f() : bad shape",
        ),
        (
            "Error in library(x) : \n  there is no package called 'x'\nExecution halted\n",
            "Error in library(x) : there is no package called 'x'",
        ),
        (
            "ERROR: LoadError: bad shape\nStacktrace:\n [1] error(s::String)\n   @ Base ./error.jl:35\n"
            "in expression starting at /w/train.jl:3\n",
            "ERROR: LoadError: bad shape",
        ),
        (
            'Exception in thread "main" X: y\n\tat A.f(A.java:3)\nCaused by: Z: bad shape\n\t... 1 more\n',
            "Caused by: Z: bad shape",
        ),
        (
            "At line 3 of file t.f90\nFortran runtime error: End of file\n\nError termination. Backtrace:\n"
            "#0  0x7f in ???\n#1  0x7f in main\n",
            "Fortran runtime error: End of file",
        ),
        ("lua: t.lua:1: bad shape\nstack traceback:\n\t[C]: in ?\n", "lua: t.lua:1: bad shape"),
        (
            "thread 'main' panicked at t.rs:2:5:\nbad shape\nnote: run with `RUST_BACKTRACE=1`\n",
            "bad shape",
        ),
        ("Error: handled\nepoch 2\n    loss 0.5\n", "loss 0.5"),
        ("settings\n    seed 1\n", "seed 1"),
    ],
)
def test_errors_of_other_languages(tmp_path: Path, text: str, line: str) -> None:
    assert line_of(tmp_path, text) == line


def test_a_native_stack_is_no_cause(tmp_path: Path) -> None:
    text = "Error: Timed out waiting for other nodes to start.\n"
    text += "(raylet) /opt/core.so(+0x8bbdcb) [0x7f00]\n#3 0x7f00aa in main\n"
    assert line_of(tmp_path, text) == "Error: Timed out waiting for other nodes to start."
