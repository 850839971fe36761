"""`start.py`, which batch scripts start on each node, imports without Python's searches."""

import subprocess
import sys
from pathlib import Path

from argosy_images import start, tools
from argosy_images.store.store import Store

START = str(Path(start.__file__))


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-I", "-S", *arguments], cwd=folder, capture_output=True, text=True
    )


def test_it_is_the_same_program(tmp_path: Path) -> None:
    done = run(tmp_path, START, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--stage-folder" in done.stdout


def test_nothing_is_imported_from_the_folder_of_the_job(tmp_path: Path) -> None:
    for name in ("json", "argparse", "argosy", "zstandard"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)")
    assert run(tmp_path, START, "--help").returncode == 0


def test_what_is_imported_later_is_found_too(tmp_path: Path) -> None:
    modules = "argosy_images.staging.unpack, argosy_images.engines.proot, zstandard, psutil, pynvml"
    code = (
        "import runpy, sys\n"
        f"start = runpy.run_path({START!r})\n"
        "sys.argv = ['start.py', '--help']\n"
        "try:\n    start['main']()\nexcept SystemExit:\n    pass\n"
        f"import {modules}\n"
        "assert not [path for path in sys.path if path.endswith('src')], sys.path\n"
    )
    done = run(tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr


def test_libraries_of_the_store_are_searched_only_where_runc_s_own_is_there(tmp_path: Path) -> None:
    store = Store(tmp_path)
    folder = tmp_path / "tools/packages/proot/usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    (folder / "libtalloc.so.2").touch()
    assert "LD_LIBRARY_PATH" not in tools.Tools(store).runtime_environment()
    (folder / "libseccomp.so.2").touch()
    assert tools.Tools(store).runtime_environment()["LD_LIBRARY_PATH"] == str(folder)
    assert "" not in tools.Tools(store).runtime_environment()["PATH"].split(":")
