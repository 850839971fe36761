"""The environment of Argosy is made of the files that were tested, or the researcher says otherwise."""

import ensurepip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = "annotated-types"


def make_venv(project: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run make-venv.sh on a lock with one package, of which the index has another file."""
    lock = (project / "requirements.lock").read_text().splitlines()
    begin = next(number for number, line in enumerate(lock) if line.startswith(PACKAGE))
    (folder / "requirements.lock").write_text(f"{lock[begin]}\n    --hash=sha256:{'0' * 64}\n")
    return subprocess.run(
        ["bash", project / "workflow/scripts/make-venv.sh", "venv"],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )


def test_every_package_has_its_hashes(project: Path) -> None:
    lines = (project / "requirements.lock").read_text().splitlines()
    pinned = [number for number, line in enumerate(lines) if "==" in line]
    assert len(pinned) > 50
    assert all(lines[number + 1].startswith("    --hash=sha256:") for number in pinned)


@pytest.mark.slow
def test_another_file_of_the_same_version_is_refused(project: Path, tmp_path: Path) -> None:
    done = make_venv(project, tmp_path)
    assert done.returncode == 2
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("make HASHES=no setup takes them by version")
    assert not (tmp_path / "venv/.ready").exists()


@pytest.mark.slow
def test_a_site_with_wheels_of_its_own(project: Path, tmp_path: Path) -> None:
    done = make_venv(project, tmp_path, HASHES="no")
    # The folder holds no Argosy to be installed: that is the next step.
    assert "HASHES" not in done.stderr
    assert list(tmp_path.glob("venv/lib/python3*/site-packages/annotated_types"))
    assert done.returncode != 0, "there was nothing to install, and it ended well"


def test_a_path_of_which_a_shell_would_run_parts_is_refused(project: Path, tmp_path: Path) -> None:
    """pip's programs begin with `exec "<path>/python"` where a shebang cannot hold the path."""
    folder = tmp_path / "a $(touch ran) folder"
    folder.mkdir()
    done = make_venv(project, folder)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {folder}: ")
    assert [path.name for path in folder.iterdir()] == ["requirements.lock"]


OLD = "#!/bin/sh\ncase $1 in --version) echo 'Python 3.6.8' ;; *) exit 1 ;; esac\n"
NEW = "#!/bin/sh\ncase $1 in -c) exit 0 ;; *) exit 9 ;; esac\n"
"""What answers as a Python of that age; the newer one makes no environment."""

ON_RED_HAT = '/usr/bin/mount --bind "$OLD" "$(readlink -f /usr/bin/python3)" && exec bash "$1" venv'

MODULES = """() {
    case $* in
        "-t avail")
            echo /apps/modules: >&2
            printf '%s\\n' gcc/13.2 python/2.7 python/3.10.4 python/3.12.1 Tools-python/3.13 >&2
            ;;
        "load python/3.12.1") PATH=$NEWER:$PATH ;;
        *) return 1 ;;
    esac
}"""

NEEDED = (
    "bash",
    "cat",
    "dirname",
    "env",
    "grep",
    "mktemp",
    "python3",
    "readlink",
    "rm",
    "sed",
    "sort",
    "tail",
)


def on_red_hat(project: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run make-venv.sh where /usr/bin/python3 is 3.6 and nothing else is on PATH."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name in NEEDED:
        place = shutil.which(name, path=os.defpath)
        assert place
        if not (programs / name).exists():
            (programs / name).symlink_to(place)
    write_program(folder / "old", OLD)
    unshare = shutil.which("unshare")
    assert unshare
    world = [unshare, "--user", "--map-root-user", "--mount", "/bin/bash", "-c"]
    return subprocess.run(
        [*world, ON_RED_HAT, "bash", project / "workflow/scripts/make-venv.sh"],
        cwd=folder,
        env={"PATH": f"{programs}", "OLD": str(folder / "old"), **variables},
        capture_output=True,
        text=True,
    )


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


NO_MODULE_OF_IT = "() { echo $SET_BY_NOBODY gcc/13.2 >&2; }"


@pytest.mark.parametrize("variables", [{}, {"BASH_FUNC_module%%": NO_MODULE_OF_IT}])
def test_where_python_is_too_old_it_is_said_what_to_do(
    project: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    done = on_red_hat(project, tmp_path, **variables)
    assert done.returncode == 2, done.stdout
    assert done.stderr == (
        "error: Argosy needs Python 3.11 or newer, and Python 3.6.8 is what is here; load a module of it "
        "(module avail python), install uv or micromamba, or name one with: make PYTHON=/path/to/python3\n"
    )


def test_a_newer_python_is_found_in_a_module(project: Path, tmp_path: Path) -> None:
    write_program(tmp_path / "newer/python3", NEW)
    variables = {"BASH_FUNC_module%%": MODULES, "NEWER": str(tmp_path / "newer")}
    done = on_red_hat(project, tmp_path, **variables)
    assert done.stdout.splitlines() == [
        "environment: taking Python from the module python/3.12.1",
        f"environment: making venv with {tmp_path}/newer/python3",
    ]


@pytest.mark.parametrize("manager", ["uv", "micromamba"])
def test_a_newer_python_is_had_from_a_manager(project: Path, tmp_path: Path, manager: str) -> None:
    folder = tmp_path / ".python/bin" if manager == "micromamba" else tmp_path / "newer"
    folder.mkdir(parents=True)
    write_program(folder / "python3", NEW)
    says = f"#!/bin/sh\n[ $manager = uv ] && echo {folder}/python3\nexit 0\n"
    (tmp_path / "programs").mkdir()
    write_program(tmp_path / "programs" / manager, says.replace("$manager", manager))
    done = on_red_hat(project, tmp_path)
    assert done.stdout.splitlines() == [f"environment: making venv with {folder}/python3"], done


@pytest.mark.slow
def test_where_pip_is_kept_apart_it_is_the_distribution_s(project: Path, tmp_path: Path) -> None:
    """Not the newest of an index, which might be anything; apt and its package are stood in for."""
    bundled = Path(ensurepip.__file__).parent / "_bundled"
    folders = (bundled, Path("/usr/share/python-wheels"))
    wheel = next(path for folder in folders for path in folder.glob("pip-*.whl"))
    write_program(
        tmp_path / "bin/python", f'[ "$2" != "import ensurepip" ] && exec {sys.executable} "$@"'
    )
    write_program(tmp_path / "bin/apt-get", "touch python3-pip-whl_1.deb")
    place = "usr/share/python-wheels"
    write_program(tmp_path / "bin/dpkg-deb", f"mkdir -p {place} && cp {wheel} {place}")
    done = make_venv(
        project,
        tmp_path,
        PYTHON=str(tmp_path / "bin/python"),
        PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        PIP_INDEX_URL="http://127.0.0.1:9/",
        PIP_RETRIES="0",
    )
    version = wheel.name.split("-")[1]
    assert list(tmp_path.glob(f"venv/lib/python3*/site-packages/pip-{version}.dist-info"))
    assert "the pinned packages could not be installed" in done.stderr
