"""NVIDIA's driver in containers, with a stand-in for the driver's installation."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from image_programs import contained

from argosy_common.errors import ArgosyError
from argosy_images import run
from argosy_images.engines.models import Bind, Container
from argosy_images.engines.nvidia import (
    DRIVER_DIR,
    Host,
    driver_mount,
    driver_version,
    nvml_module,
    with_driver,
)
from argosy_images.store.store import Store

pytestmark = [pytest.mark.container, pytest.mark.udocker]
VERSION = "999.10.01"
MODULE = (
    "NVRM version: NVIDIA UNIX {} " + VERSION + "  Thu Jan  1 00:00:00 UTC 2026\nGCC version:\n"
)
OF_THE_LISTS = ("libcuda", "libnvidia-ml")
OF_A_NEW_DRIVER = "libnvidia-brandnew"
LOAD = """
import ctypes, subprocess
for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-brandnew.so.999.10.01"):
    print(name, bool(ctypes.CDLL(name)))
print(open("/run/argosy/pynvml.py").read().strip())
print(subprocess.run(["nvidia-smi"], capture_output=True, text=True).stdout.strip())
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Return a host with a driver, whose libraries are renamed copies of a real one."""
    libraries, programs = tmp_path / "lib folder", tmp_path / "bin"
    libraries.mkdir()
    programs.mkdir()
    source = next(Path("/lib").glob("*-linux-gnu/libz.so.1")).resolve()
    for name in (*OF_THE_LISTS, OF_A_NEW_DRIVER):
        shutil.copyfile(source, libraries / f"{name}.so.{VERSION}")
    for name in OF_THE_LISTS:
        (libraries / f"{name}.so.1").symlink_to(f"{name}.so.{VERSION}")
    # Libraries of another version, and of another package.
    shutil.copyfile(source, libraries / "libcuda.so.111.22")
    shutil.copyfile(source, libraries / "libother.so.3")
    shutil.copy("/bin/uname", programs / "nvidia-smi")
    (tmp_path / "version").write_text(MODULE.format("x86_64 Kernel Module "))
    cache = tmp_path / "cache"
    lines = [f"\t{p.name} (libc6,x86-64) => {p}" for p in sorted(libraries.iterdir())]
    # The linker's cache lists links, not every file, and also other architectures.
    lines = [line for line in lines if OF_A_NEW_DRIVER not in line]
    lines.append("\tlibcuda.so.1 (libc6) => /usr/lib/i386-linux-gnu/libcuda.so.1")
    cache.write_text(f"{len(lines)} libs found in cache\n" + "\n".join(lines) + "\n")
    return Host(tmp_path / "version", ("cat", str(cache)), (programs,))


def test_programs_in_a_container_find_the_driver(
    store: Store, project_store: Store, torch_digest: str, host: Host
) -> None:
    module = host.version_file.with_name("pynvml.py")
    module.write_text("the module is there\n")
    mount = driver_mount(store, host)
    assert mount
    inside = Container(
        project_store.root(torch_digest),
        ["python3", "-c", LOAD],
        binds=[mount],
        files=[module],
        environment=with_driver({"PATH": "/opt/venv/bin:/usr/bin:/bin"}),
    )
    outcome, said = contained(project_store, inside)
    assert outcome.status == 0, said
    assert said.count("True") == 3
    assert "the module is there\n" in said
    assert said.endswith("\nLinux\n")


def test_the_installed_module_is_found() -> None:
    module = nvml_module()
    assert module is not None, "nvidia-ml-py is not installed: make setup"
    assert module.name == "pynvml.py"


def test_the_agent_is_told_where_the_module_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, driver = tmp_path / "pynvml.py", Bind(tmp_path, DRIVER_DIR)
    bare = Container(tmp_path, ["true"], environment={"PATH": "/bin"})
    monkeypatch.setattr(run, "nvml_module", lambda: module)
    inside = run._with_driver(bare, driver)
    assert inside.environment["ARGOSY_NVML"] == "/run/argosy/pynvml.py"
    assert (inside.binds, inside.files) == ([driver], [module])
    monkeypatch.setattr(run, "nvml_module", lambda: None)
    inside = run._with_driver(bare, driver)
    assert "ARGOSY_NVML" not in inside.environment
    assert (inside.binds, inside.files) == ([driver], [])


def test_it_is_copied_once_and_nothing_else_is(store: Store, host: Host) -> None:
    with ThreadPoolExecutor(8) as pool:
        mounts = list(pool.map(lambda _: driver_mount(store, host), range(8)))
    assert len({mount.source for mount in mounts if mount}) == 1
    folder = store.driver(VERSION)
    assert sorted(path.name for path in folder.iterdir()) == [
        "bin",
        "libcuda.so.1",
        f"libcuda.so.{VERSION}",
        f"libnvidia-brandnew.so.{VERSION}",
        "libnvidia-ml.so.1",
        f"libnvidia-ml.so.{VERSION}",
    ]
    assert [path.name for path in folder.parent.iterdir()] == [VERSION]
    before = folder.stat().st_ino
    driver_mount(store, host)
    assert folder.stat().st_ino == before


def test_of_a_script_that_starts_the_program_elsewhere_the_program_is_taken(
    store: Store, host: Host
) -> None:
    """Some drivers are installed below their own prefix, with a wrapper script in /usr/bin."""
    [programs] = host.programs
    elsewhere = programs.with_name("usr bin")
    elsewhere.mkdir()
    (elsewhere / "nvidia-smi").write_text("#!/bin/sh\nexec /usr/local/nvidia/bin/nvidia-smi\n")
    (elsewhere / "nvidia-smi").chmod(0o755)
    driver_mount(store, replace(host, programs=(elsewhere,)))
    copied = store.driver(VERSION) / "bin/nvidia-smi"
    assert copied.read_bytes() == (programs / "nvidia-smi").read_bytes()


def test_another_version_has_a_folder_of_its_own(store: Store, host: Host) -> None:
    driver_mount(store, host)
    host.version_file.write_text(
        MODULE.format("Open Kernel Module for aarch64 ").replace("10.01", "11")
    )
    assert driver_version(host) == "999.11"
    with pytest.raises(
        ArgosyError, match=r"999\.11, but its libcuda\.so is not in the linker's cache"
    ):
        driver_mount(store, host)
    assert [path.name for path in store.driver(VERSION).parent.iterdir()] == [VERSION]


def test_a_host_without_a_driver_has_nothing_to_mount(store: Store, tmp_path: Path) -> None:
    assert driver_mount(store, Host(tmp_path / "none")) is None
    assert not store.driver("1").parent.exists()


def test_a_version_that_cannot_be_read_is_an_error(store: Store, host: Host) -> None:
    host.version_file.write_text("something new\n")
    with pytest.raises(ArgosyError, match="contains no driver version: 'something new"):
        driver_mount(store, host)


def test_the_images_own_variables_stay(tmp_path: Path) -> None:
    found = with_driver({"PATH": "/opt/bin", "LD_LIBRARY_PATH": "/opt/lib", "A": "b"})
    assert found == {
        "PATH": f"/opt/bin:{DRIVER_DIR}/bin",
        "LD_LIBRARY_PATH": f"{DRIVER_DIR}:/opt/lib",
        "A": "b",
    }
