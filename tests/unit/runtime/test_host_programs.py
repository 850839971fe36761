"""Programs that batch scripts start on hosts, in odd environments and without readers."""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from agent_job import ADDRESS, PYTHON, RUNTIME
from run_files import run_content

START = [PYTHON, "-E", "-S"]
"""As the batch scripts do (slurm/templates/base.sbatch.j2)."""

ATTEMPT = "7.0"
SHADOWS = ("json", "glob", "files", "host_files", "log_words", "sitecustomize", "typing", "socket")

ENVIRONMENTS: dict[str, dict[str, str]] = {
    "empty": {},
    "unbuffered": {"PYTHONUNBUFFERED": "1"},
    "no bytecode": {"PYTHONDONTWRITEBYTECODE": "1"},
    "C": {"LC_ALL": "C"},
    "POSIX without UTF-8": {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "unknown locale": {"LC_ALL": "xx_YY.ISO-8859-1"},
    "time zone": {"TZ": "Asia/Tokyo"},
    "no time zone": {"TZ": "nowhere+27"},
    "home of another Python": {"PYTHONHOME": "/nowhere"},
    "shadows": {"PYTHONPATH": "{shadows}"},
}


@dataclass(frozen=True)
class Program:
    """A program, its arguments, its exit status, and its status if its output is lost (`unheard`)."""

    name: str
    arguments: list[str]
    status: int
    unheard: int

    def command(self, run_dir: Path, *options: str) -> list[str]:
        """Return how it is started."""
        arguments = [each.format(run=run_dir) for each in self.arguments]
        return [PYTHON, *options, str(RUNTIME / f"{self.name}.py"), *arguments]


VERDICT = Program("verdict", ["{run}", ATTEMPT], 75, 75)
FIND = Program("find_address", ["1", "lo"], 0, 2)
RESERVE = Program("reserve_port", [ADDRESS], 0, 2)
WATCH = Program("watch_start", ["{run}", ATTEMPT], 0, 0)
CLAIM = Program("claim", ["{run}", "8.0", "spec", "{run}"], 0, 2)
WRONG = [Program(each.name, [], 2, 2) for each in (VERDICT, FIND, RESERVE, WATCH, CLAIM)]
PROGRAMS = [VERDICT, FIND, RESERVE, WATCH, CLAIM, *WRONG]


def name_of(program: Program) -> str:
    return f"{program.name} {len(program.arguments)}"


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    """An interrupted attempt of a run with an odd name, and its checkpoint."""
    folder = tmp_path / "rün \udcff"
    attempt = folder / "attempts" / ATTEMPT
    attempt.mkdir(parents=True)
    checkpoints = {"warning_s": 1, "requeues": 0}
    run = run_content(run_id="rün", spec="spec", checkpoints=checkpoints)
    (folder / "run.json").write_text(json.dumps(run))
    verdict = {
        "schema_version": 2,
        "run_id": "rün",
        "attempt": ATTEMPT,
        "state": "interrupted",
        "spec": "spec",
        "seconds": 1.0,
        "ended": 2.0,
        "failure": {"node": 0, "rank": 0, "cause": "interrupted → goes on", "at": 2.0},
    }
    (attempt / "verdict.json").write_text(json.dumps(verdict))
    yield folder


def with_checkpoint(folder: Path) -> None:
    """Add a checkpoint, whose name claim.py prints."""

    step = folder / "checkpoints" / ATTEMPT / "step-3"
    step.mkdir(parents=True)
    content = {
        "schema_version": 2,
        "attempt": ATTEMPT,
        "step": 3,
        "unix": 1.0,
        "plan": hashlib.sha256((folder / "run.json").read_bytes()).hexdigest(),
    }
    (step / "checkpoint.json").write_text(json.dumps(content))


def environment_of(name: str, tmp_path: Path) -> dict[str, str]:
    """Return an environment whose PYTHONPATH has modules that end the importing program."""
    shadows = tmp_path / "shadows"
    shadows.mkdir()
    for module in SHADOWS:
        (shadows / f"{module}.py").write_text("import os\nos._exit(99)\n")
    return {key: each.format(shadows=shadows) for key, each in ENVIRONMENTS[name].items()}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_they_end_as_they_mean_in_any_environment(
    program: Program, environment: str, run_dir: Path, tmp_path: Path
) -> None:
    variables = environment_of(environment, tmp_path)
    with_checkpoint(run_dir)
    with subprocess.Popen(
        program.command(run_dir, "-E", "-S"),
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as it:
        assert it.stdout
        if program is RESERVE:
            # It holds the port until a process listens there, or its parent ends.
            assert int(it.stdout.readline()) > 0
            it.terminate()
            return
        _, errors = it.communicate(timeout=20)
    assert it.returncode == program.status, errors
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors


def closed_pipe() -> int:
    """Return the writing end of a pipe without a reader."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def full_disk() -> int:
    """Return a descriptor to which nothing can be written."""
    return os.open("/dev/full", os.O_WRONLY)


@pytest.mark.parametrize("unread", [closed_pipe, full_disk], ids=["pipe", "disk"])
@pytest.mark.parametrize(
    "options", [[], ["-u"], ["-E", "-S"]], ids=["", "unbuffered", "as started"]
)
@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_they_end_as_they_mean_where_nobody_reads_them(
    program: Program, options: list[str], unread: Callable[[], int], run_dir: Path
) -> None:
    with_checkpoint(run_dir)
    for both in (False, True):
        descriptor = unread()
        done = subprocess.run(
            program.command(run_dir, *options),
            env={},
            stdout=descriptor,
            stderr=descriptor if both else subprocess.PIPE,
            timeout=20,
        )
        os.close(descriptor)
        expected = program.unheard if program.arguments else program.status
        if program is CLAIM and both:
            expected = 2  # the attempt was here before
        assert done.returncode == expected, done.stderr
        if program.arguments and not both:
            assert done.stderr == b""


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_they_end_as_they_mean_without_descriptors(program: Program, run_dir: Path) -> None:
    with_checkpoint(run_dir)
    command = ["bash", "-c", 'exec "$@" >&- 2>&-', "bash", *program.command(run_dir, "-E", "-S")]
    done = subprocess.run(command, env={"PATH": os.defpath}, timeout=20)
    assert done.returncode == (program.unheard if program.arguments else program.status)
