"""No command ends with a traceback, whatever file is broken, missing or of another kind."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import Argosy, allow_all

COMMANDS = (
    *(("status",), ("summary",), ("failures",)),
    *(("tables",), ("report",), ("report", "--from-tables"), ("compare", "local", "local")),
    *(
        ("predict", "digits-mlp"),
        ("logs", "nodes1-ranks2-repeat1"),
        ("records", "nodes1-ranks2-repeat1"),
    ),
    *(("bundle", "study.zip"), ("unbundle", "Snakefile", "new")),
    *(("doctor", "--no-job"), ("site", "list")),
    *(("site", "show"), ("site", "here"), ("site", "probe", "local", "--again")),
    *(("image", "list"), ("image", "why", "torch-cpu")),
    *(
        ("image", "prune", "--dry-run"),
        ("image", "pack", "torch-cpu"),
        ("image", "native", "torch-cpu"),
    ),
    *(("image", "shell", "torch-cpu", "--", "true"), ("image", "export", "torch-cpu", "image.tar")),
    ("image", "import", "Snakefile", "new"),
    ("preflight", "--runs", "results/local/runs.txt", "--output", "accepted.txt"),
    ("render", "local", "--output", "results/local/runs.txt"),
)

JUNK = {
    "cut off": b"{",
    "a list": b"[]",
    "empty": b"",
    "an empty object": b"{}",
    "bytes": b"\xff\xfe\x00\x80PAR1",
    "deep": b"[" * 100_000,
    "a huge number": b'{"schema_version": 1e999, "experiments": ' + b"9" * 5000 + b"}",
    "null": b"null",
}
FILES = (
    "results/local/summary.json",
    "results/local/tables/runs.parquet",
    "results/local/tables/steps.parquet",
    "results/local/tables/problems.parquet",
    "results/local/runs.txt",
    "results/local/digits-mlp/nodes1-ranks2-repeat1/run.json",
    "results/local/digits-mlp/nodes1-ranks2-repeat1/provenance.json",
    "results/local/digits-mlp/nodes1-ranks2-repeat1/result.json",
    "config/config.yaml",
    "slurm/local/site.yaml",
    "containers/torch-cpu/Containerfile",
    "resources/images/torch-cpu/image.lock",
)
FOLDERS = (
    "results",
    "results/local",
    "results/local/tables",
    "results/local/digits-mlp",
    "results/local/digits-mlp/nodes1-ranks2-repeat1",
    "config",
    "slurm",
    "slurm/local",
    "containers",
    "containers/torch-cpu",
    "resources",
    ".argosy",
)


@pytest.fixture(autouse=True)
def store(project: Path) -> Iterator[None]:
    (project / ".argosy").mkdir(mode=0o700)
    yield
    allow_all(project)


def check(argosy: Argosy, command: tuple[str, ...]) -> None:
    done = argosy(*command)
    assert done.status in (0, 1, 2), done.err
    if done.status == 2:
        problem, *hint = done.err.splitlines()[-2:]
        assert "error: " in done.err
        assert problem.startswith(("error: ", "hint: ")) or hint, done.err
    assert "Traceback" not in done.err + done.out


def each_command(
    argosy: Argosy, number: int, broken: Callable[[], None], restored: Callable[[], None]
) -> None:
    """Run every second command with this fault, and the others with the next one.

    Repeat the fault for each command, since some commands repair it.
    """
    wrong = []
    for command in COMMANDS[number % 2 :: 2]:
        broken()
        try:
            check(argosy, command)
        except Exception as problem:
            wrong.append((command, repr(problem)[:300]))
        finally:
            restored()
    assert not wrong, "\n".join(map(str, wrong))


class Spoiled:
    """A file or folder of the project to break and restore."""

    def __init__(self, project: Path, name: str, spoil: Callable[[Path], None]) -> None:
        self._path, self._spoil = project / name, spoil
        self._whole = project.parent / "whole" / name
        self._whole.parent.mkdir(parents=True)
        copy(self._path, self._whole)

    def broken(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._spoil(self._path)

    def restored(self) -> None:
        remove(self._path)
        copy(self._whole, self._path)


def copy(path: Path, to: Path) -> None:
    if path.is_dir():
        shutil.copytree(path, to, symlinks=True)
    elif path.exists():
        shutil.copy2(path, to)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        allow_all(path)
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def to_folder(path: Path) -> None:
    remove(path)
    path.mkdir()


def to_file(path: Path) -> None:
    remove(path)
    path.write_text("a file\n")


def to_pipe(path: Path) -> None:
    remove(path)
    os.mkfifo(path)


def to_loop(path: Path) -> None:
    remove(path)
    path.symlink_to(path.name)


def forbidden(path: Path) -> None:
    if not path.exists():
        path.write_text("{}")
    path.chmod(0)


def read_only(path: Path) -> None:
    if path.exists():
        path.chmod(0o555)


def run_all(
    project: Path, argosy: Argosy, name: str, number: int, spoil: Callable[[Path], None]
) -> None:
    place = Spoiled(project, name, spoil)
    each_command(argosy, number, place.broken, place.restored)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("junk", JUNK)
def test_a_damaged_file(project: Path, argosy: Argosy, name: str, junk: str) -> None:
    def spoil(path: Path) -> None:
        path.write_bytes(JUNK[junk])

    run_all(project, argosy, name, [*JUNK].index(junk), spoil)


SPOILING = (to_folder, to_pipe, to_loop, forbidden, to_file, read_only, remove)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        *((name, spoil) for name in FILES for spoil in (to_folder, to_loop, forbidden)),
        # Programs may have created these; a pipe among the user's own files is read until its end.
        *((name, to_pipe) for name in FILES if name.startswith("results/")),
    ],
)
def test_something_else_in_a_files_place(
    project: Path, argosy: Argosy, name: str, spoil: Callable[[Path], None]
) -> None:
    run_all(project, argosy, name, SPOILING.index(spoil), spoil)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("spoil", [remove, to_file, to_loop, forbidden, read_only])
def test_something_else_in_a_folders_place(
    project: Path, argosy: Argosy, name: str, spoil: Callable[[Path], None]
) -> None:
    run_all(project, argosy, name, SPOILING.index(spoil), spoil)
