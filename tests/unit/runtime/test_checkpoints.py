"""Checkpoints and warnings, in separate programs."""

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest
from agent_job import PYTHON, RUNTIME
from step_files import all_steps

BEGIN = "import os, signal, argosy_steps\nsteps = argosy_steps.Recorder()\n"


def run(
    folder: Path, program: str, begin: str = BEGIN, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a program as a rank of attempt 7.0 of a run with checkpoints."""
    (folder / "attempts/7.0").mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text('{"schema_version": 2}')
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(RUNTIME / "python"),
        "ARGOSY_RUN_DIR": str(folder),
        "ARGOSY_ATTEMPT": "7.0",
        "ARGOSY_CHECKPOINTS": str(folder / "checkpoints/7.0"),
        "ARGOSY_WARNED": "60",
        **more,
    }
    command = [PYTHON, "-c", begin + textwrap.dedent(program)]
    return subprocess.run(command, env=variables, capture_output=True, text=True)


SAVE = """
for number in range(3):
    with steps.step(samples=1):
        pass
    with steps.checkpoint() as folder:
        open(f"{folder}/state", "w").write(str(number))
"""


def test_the_two_newest_are_kept_whole(tmp_path: Path) -> None:
    assert run(tmp_path, SAVE).returncode == 0
    top = tmp_path / "checkpoints/7.0"
    assert sorted(path.name for path in top.iterdir()) == ["step-000000002", "step-000000003"]
    newest = top / "step-000000003"
    assert (newest / "state").read_text() == "2"
    described = json.loads((newest / "checkpoint.json").read_text())
    assert (described["step"], described["attempt"]) == (3, "7.0")


def test_steps_before_a_checkpoint_are_there_though_the_rank_is_killed(tmp_path: Path) -> None:
    records = tmp_path / "rank-0.steps"
    killed = textwrap.dedent(SAVE) + "\nos.kill(os.getpid(), signal.SIGKILL)\n"
    assert run(tmp_path, killed, ARGOSY_STEPS_FILE=str(records)).returncode == -9
    assert [step.step for step in all_steps(records)] == [0, 1, 2]


def test_one_that_fails_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    broken = "\nwith steps.checkpoint() as folder:\n    raise OSError('disk')\n"
    assert run(tmp_path, textwrap.dedent(SAVE) + broken).returncode == 1
    names = sorted(path.name for path in (tmp_path / "checkpoints/7.0").iterdir())
    assert names == ["step-000000002", "step-000000003"]


def test_steps_are_numbered_on_from_the_checkpoint(tmp_path: Path) -> None:
    run(tmp_path, SAVE)
    restored = tmp_path / "checkpoints/7.0/step-000000003"
    records = tmp_path / "rank-0.steps"
    done = run(
        tmp_path,
        "print(steps.restored)\nwith steps.step(samples=1):\n    pass",
        ARGOSY_RESTORED=str(restored),
        ARGOSY_STEPS_FILE=str(records),
    )
    assert done.stdout == f"{restored}\n"
    assert [step.step for step in all_steps(records)] == [3]


def test_a_warning_is_seen_whichever_way_it_comes(tmp_path: Path) -> None:
    for name in ("SIGUSR1", "SIGTERM"):
        program = f"print(steps.interrupted)\nos.kill(os.getpid(), signal.{name})\n"
        assert run(tmp_path, program + "print(steps.interrupted)").stdout == "False\nTrue\n"
    for name in ("attempts/7.0/warning", "records/7.0/warned"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
        assert run(tmp_path, "print(steps.interrupted)").stdout == "True\n"
        (tmp_path / name).unlink()


def test_a_warning_while_python_ends_leaves_the_program_its_exit_code(tmp_path: Path) -> None:
    """Agent and scheduler both warn: the program may be exiting already at the second warning."""
    warn_on = """
        rank = os.getpid()
        if os.fork() == 0:
            while os.getppid() == rank:
                os.kill(rank, signal.{name})
            os._exit(0)
        while not steps.interrupted:
            pass
        raise SystemExit(argosy_steps.INTERRUPTED_EXIT)
        """
    for name in ("SIGUSR1", "SIGTERM"):
        assert run(tmp_path, warn_on.format(name=name)).returncode == 75


def test_a_program_that_was_not_said_to_heed_warnings_ends_as_ever(tmp_path: Path) -> None:
    done = run(tmp_path, "os.kill(os.getpid(), signal.SIGTERM)", ARGOSY_WARNED="")
    assert done.returncode == -15


def test_outside_of_argosy_nothing_is_kept(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "with steps.checkpoint() as folder:\n    print(folder)\nprint(os.path.exists(folder), "
        "steps.restored, steps.interrupted)",
        ARGOSY_CHECKPOINTS="",
        ARGOSY_WARNED="",
        TMPDIR=str(tmp_path),
    )
    assert done.stdout.splitlines()[1] == "False None False"


OWN = """
import os, signal, sys
heard = []
def own(number, frame):
    heard.append(number)
"""
LATER = """
import time
for number in (signal.SIGUSR1, signal.SIGTERM):
    os.kill(os.getpid(), number)
time.sleep(0.01)
print(heard == [signal.SIGUSR1, signal.SIGTERM], steps.interrupted)
"""
SET = "signal.signal(signal.SIGUSR1, own); signal.signal(signal.SIGTERM, own)\n"
RECORDER = "import argosy_steps\nsteps = argosy_steps.Recorder()\n"


@pytest.mark.parametrize("order", [SET + RECORDER, RECORDER + SET])
def test_the_program_s_own_handlers_stay_and_the_warning_is_seen_all_the_same(
    tmp_path: Path, order: str
) -> None:
    (tmp_path / "records/7.0").mkdir(parents=True)
    (tmp_path / "records/7.0/warned").touch()
    assert run(tmp_path, OWN + order + LATER, begin="").stdout == "True True\n"


def test_handlers_that_python_does_not_know_of_and_ignored_signals_stay(tmp_path: Path) -> None:
    """An example is the handler of a C library, here faulthandler's."""
    program = """
    import faulthandler, signal, os, sys
    faulthandler.register(signal.SIGUSR1, file=sys.stdout)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    import argosy_steps
    steps = argosy_steps.Recorder()
    os.kill(os.getpid(), signal.SIGUSR1)
    print(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)
    """
    said = run(tmp_path, program, begin="").stdout
    assert "most recent call first" in said
    assert said.endswith("True\n")


def test_a_warning_that_comes_while_the_program_has_its_own_handlers_is_seen_within_a_second(
    tmp_path: Path,
) -> None:
    (tmp_path / "records/7.0").mkdir(parents=True)
    program = f"""
    import time
    print(steps.interrupted)
    open({str(tmp_path / "records/7.0/warned")!r}, "w").close()
    time.sleep(1.1)
    print(steps.interrupted)
    """
    assert run(tmp_path, program).stdout == "False\nTrue\n"


def test_a_recorder_of_another_thread_sees_the_warning(tmp_path: Path) -> None:
    (tmp_path / "records/7.0").mkdir(parents=True)
    (tmp_path / "records/7.0/warned").touch()
    program = """
    import threading, argosy_steps
    def work():
        print(argosy_steps.Recorder().interrupted)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    """
    assert run(tmp_path, program, begin="").stdout == "True\n"
