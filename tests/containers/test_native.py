"""The programs of an image on the host, without a container."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from image_programs import BASE, built

from argosy_common.errors import ArgosyError
from argosy_images.native import make_environment
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = pytest.mark.container

WHERE = """
import ctypes, json, multiprocessing, os, re, subprocess, sys, torch

def above(number):
    return number + 1

if __name__ == "__main__":
    again = [sys.executable, "-c", "import sys, torch; print(sys.prefix, torch.__version__)"]
    maps = open("/proc/self/maps").read()
    print(json.dumps({
        "executable": sys.executable,
        "prefix": sys.prefix,
        "torch": torch.__version__,
        "child": subprocess.run(again, capture_output=True, text=True, check=True).stdout.split(),
        "pool": multiprocessing.get_context("spawn").Pool(1).map(above, [1]),
        "libraries": sorted(set(re.findall(r"(/\\S.*\\.so[.0-9]*)$", maps, re.MULTILINE))),
        "host": open("/etc/hostname").read().strip(),
        "variables": {name: os.environ.get(name) for name in ("OWN", "PYTHONDONTWRITEBYTECODE")},
    }))
"""


@pytest.fixture(scope="module")
def torch_lock(project_store: Store, torch_digest: str) -> ImageLock:
    return ImageLock.read(project_store.description(torch_digest))


def output(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    return done.stdout


def with_variables(lock: ImageLock, **variables: str) -> ImageLock:
    environment = {**lock.config.environment, **variables}
    config = lock.config.model_copy(update={"environment": environment})
    return lock.model_copy(update={"config": config})


@pytest.mark.thorough
def test_python_and_all_libraries_are_the_image_s(
    project_store: Store, torch_lock: ImageLock, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder; with $(odd) 'name'"
    python = make_environment(project_store, torch_lock, folder)
    assert python == folder / "bin/python3"
    (tmp_path / "where.py").write_text(WHERE)
    found = json.loads(output(python, tmp_path / "where.py"))
    assert found["executable"] == str(python)
    assert found["prefix"] == str(folder)
    assert found["torch"].startswith("2.13.0")
    # Its child processes use the image's files, too.
    assert found["child"][-1] == found["torch"]
    assert found["pool"] == [2]
    root = str(project_store.root(torch_lock.digest))
    assert len(found["libraries"]) > 10
    assert [path for path in found["libraries"] if not path.startswith(root)] == []
    # All other files are the host's.
    assert found["host"] == Path("/etc/hostname").read_text().strip()
    assert found["variables"] == {"OWN": None, "PYTHONDONTWRITEBYTECODE": "1"}
    # A Python script of the image.
    assert "usage: torchrun" in output(folder / "bin/torchrun", "--help")
    # The environment can be moved.
    moved = folder.rename(tmp_path / "elsewhere")
    show = "import sys, torch; print(sys.executable)"
    assert output(moved / "bin/python3", "-c", show).strip() == str(moved / "bin/python3")
    assert "usage: torchrun" in output(moved / "bin/torchrun", "--help")
    moved.rename(folder)
    # Making it again changes nothing.
    assert make_environment(project_store, torch_lock, folder) == python
    assert "2.13" in output(python, "-c", "import torch; print(torch.__version__)")


def test_variables_are_the_image_s_where_nobody_else_set_them(
    project_store: Store, torch_lock: ImageLock, tmp_path: Path
) -> None:
    lock = with_variables(torch_lock, OWN="it's $HOME", OTHER="image")
    python = make_environment(project_store, lock, tmp_path / "native")
    code = "import os; print(os.environ['OWN'], os.environ['OTHER'])"
    assert output(python, "-c", code, OTHER="run") == "it's $HOME run\n"


@pytest.mark.parametrize("by_path", [False, True])
def test_libraries_that_an_image_preloads_are_for_its_own_programs(
    project_store: Store, torch_lock: ImageLock, tmp_path: Path, by_path: bool
) -> None:
    name = Path(torch_lock.config.environment["LD_PRELOAD"]).name
    root = project_store.root(torch_lock.digest)
    path = next(root.glob(f"usr/lib/*/{name}")).relative_to(root)
    lock = with_variables(torch_lock, LD_PRELOAD=f"/{path}" if by_path else name)
    python = make_environment(project_store, lock, tmp_path / "native")
    code = """if True:
        import os, subprocess, sys
        from pathlib import Path
        maps = "import pathlib; print(pathlib.Path('/proc/self/maps').read_text())"
        print("\\0".join([
            Path("/proc/self/maps").read_text(),
            subprocess.check_output([sys.executable, "-c", maps], text=True),
            subprocess.check_output(["/bin/cat", "/proc/self/maps"], text=True),
            os.environ.get("LD_PRELOAD", "none"),
        ]))"""
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    itself, again, of_the_host, variable = done.stdout.strip().split("\0")
    assert str(root / path) in itself
    assert str(root / path) in again
    # The host's programs do not load the library, and their linker prints no warning.
    assert name not in of_the_host
    assert done.stderr == ""
    assert variable == "none"
    # A run can turn the libraries off.
    assert name not in output(python, "-c", "print(open('/proc/self/maps').read())", LD_PRELOAD="")


def test_an_image_that_is_gone_is_named(
    project_store: Store, torch_lock: ImageLock, tmp_path: Path
) -> None:
    other = torch_lock.model_copy(update={"digest": "sha256:" + "0" * 64})
    with pytest.raises(
        ArgosyError, match=r"torch-cpu: the image is not in the store .* build it: a"
    ):
        make_environment(project_store, other, tmp_path / "native")
    # The image was pruned after the environment was made.
    store = Store(tmp_path / "store")
    store.root(torch_lock.digest).parent.mkdir(parents=True)
    store.root(torch_lock.digest).symlink_to(project_store.root(torch_lock.digest))
    python = make_environment(store, torch_lock, tmp_path / "native")
    store.root(torch_lock.digest).unlink()
    done = subprocess.run([python, "-c", ""], capture_output=True, text=True)
    assert done.returncode == 127
    assert "image torch-cpu is not in the store" in done.stderr
    assert "make this anew: argosy image native torch-cpu" in done.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "FROM scratch\nCOPY file /file\n",
            r"image: no python3 in the image's PATH \(/usr/local/s",
        ),
        (
            "FROM scratch\nCOPY --chmod=755 file /usr/bin/python3.11\nCOPY file /usr/bin/python3\n",
            "image: /usr/bin/python3 is not Python 3 for 64-bit Linux",
        ),
        (
            "FROM scratch\nCOPY --chmod=755 file /bin/python3.11\nENV PATH=/bin\nCOPY file /bin/python3\n",
            "image: /bin/python3 is not Python 3",
        ),
    ],
)
def test_an_image_without_python_is_refused(
    store: Store, tmp_path: Path, text: str, problem: str
) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image/file").write_text("#!/bin/sh\n")
    lock = built(store, tmp_path / "image", text)
    with pytest.raises(ArgosyError, match=problem):
        make_environment(store, lock, tmp_path / "native")
    assert not (tmp_path / "native").exists()


def test_the_links_of_an_image_lead_nowhere_else(store: Store, tmp_path: Path) -> None:
    """The image's python3 is a link to a file that only the host has."""
    text = f"{BASE}\nRUN ln -s /usr/bin/python3.11 /usr/bin/python3 && ln -s /etc /opt/etc\n"
    lock = built(store, tmp_path / "image", text)
    with pytest.raises(ArgosyError, match="no python3 in the image's PATH"):
        make_environment(store, lock, tmp_path / "native")
