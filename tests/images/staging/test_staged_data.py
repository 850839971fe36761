"""Data on a node is copied once, and only if it equals the first node's data."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from agent_job import require_namespaces

from argosy.runtime.record_data import describe
from argosy_images import start

NOTHING = ("true",)
ON_A_SMALL_DISK = 'mount -t tmpfs -o "$0" none "$1" && shift && exec "$@"'


class Node:
    """A node that starts commands with copied data."""

    def __init__(self, folder: Path) -> None:
        self.data, self._disk, self._noted = folder / "era5", folder / "disk", folder / "data.json"
        (self.data / "b").mkdir(parents=True)
        self._disk.mkdir()
        for name in ("one", "b/two"):
            (self.data / name).write_text(name * 1000)
        (self.data / "b/link").symlink_to("../one")
        (self.data / "folder").symlink_to("b")
        self.note()

    def note(self, *, digest: bool = False) -> None:
        """Describe the data as the job's first node does."""
        found = describe(str(self.data), digest, is_copied=True)
        self._noted.write_text(json.dumps({"data": {"/data/era5": found}}))

    def popen(self, *command: str, room: int = 100, disk: str = "") -> subprocess.Popen[str]:
        data = ("/data/era5", "s", str(self.data), "/data/x", "r", "/x")
        variables = {
            **os.environ,
            "ARGOSY_DATA": f"/data/era5\t{self.data}\n/data/x\t/x\n",
            "ARGOSY_DATA_KEY": "experiments.walk.data",
            "ARGOSY_NODE": "3",
        }
        words = [
            sys.executable,
            "-I",
            "-S",
            start.__file__,
            "data",
            self._disk,
            str(room),
            self._noted,
        ]
        if disk:
            words = ["unshare", "-rm", "sh", "-c", ON_A_SMALL_DISK, disk, self._disk, *words]
        return subprocess.Popen(
            [*words, *data, "--", *command],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str, **options: Any) -> tuple[int, str, str]:
        process = self.popen(*command, **options)
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    def refused(self, **options: Any) -> str:
        status, _, errors = self.run(*NOTHING, **options)
        *_, line = errors.splitlines()
        begin = f"argosy: node 3 on {os.uname().nodename} did not start: experiments.walk.data./data/era5: "
        assert (status, line.startswith(begin), "Traceback" in errors) == (2, True, False), errors
        return line.removeprefix(begin)

    def kept(self) -> list[Path]:
        return [*(self._disk / f"argosy-{os.geteuid()}").glob("data-*/root")]

    def left(self) -> set[str]:
        return {path.name for path in self._disk.glob("argosy-*/*")}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


SHOW = """
printf '%s\n' "$@" "$ARGOSY_DATA" "$ARGOSY_STAGED"
cd "${1%:*}" && find . -printf '%P %y %m %s %l\n' | LC_ALL=C sort
"""


def test_a_copy_takes_the_place_of_the_data_and_serves_later_jobs(node: Node) -> None:
    mount = f"{node.data}:/data/era5"
    status, output, said = node.run("bash", "-c", SHOW, "show", mount, "/x:/data/x")
    assert status == 0, said
    [copy] = node.kept()
    shown, other, *variables, staged = output.splitlines()[:6]
    assert (shown, other) == (f"{copy}:/data/era5", "/x:/data/x")
    assert variables == [f"/data/era5\t{copy}", "/data/x\t/x", ""]
    assert json.loads(staged)["/data/era5"]["was_there"] is False
    assert output.splitlines()[6:] == [
        f" d 555 {copy.stat().st_size} ",
        f"b d 555 {(copy / 'b').stat().st_size} ",
        "b/link l 777 6 ../one",
        "b/two f 444 5000 ",
        "folder l 777 1 b",
        "one f 444 3000 ",
    ]
    assert (copy / "one").stat().st_mtime_ns == (node.data / "one").stat().st_mtime_ns
    begin = f"argosy: node 3 on {os.uname().nodename}: /data/era5: "
    assert f"{begin}copying {node.data} (10.7 KiB) into {copy.parents[1]}\n" in said
    assert f"{begin}copied 10.7 KiB in 0." in said
    # The same data shares a copy, changed data gets another one.
    status, _, said = node.run(*NOTHING)
    assert (status, said) == (0, f"{begin}the copy of another job is there\n")
    (node.data / "b/two").write_text("abc" * 1000 + "de" * 1000)
    os.utime(node.data / "b/two", (0, 0))
    os.utime(node.data / "one", ns=(0, (copy / "one").stat().st_mtime_ns))
    node.note(digest=True)
    status, _, said = node.run(*NOTHING)
    assert status == 0, said
    assert len(node.kept()) == 2


def test_a_file_is_data_as_well(node: Node) -> None:
    node.data = node.data / "one"
    node.note(digest=True)
    status, output, said = node.run(
        "bash", "-c", 'cat "${1%:*}"', "show", f"{node.data}:/data/era5"
    )
    assert (status, output) == (0, "one" * 1000), said


def test_what_cannot_be_copied_is_refused_in_one_line(node: Node) -> None:
    link, fifo, one = node.data / "b/leads", node.data / "b/fifo", node.data / "one"
    (node.data.parent / "era55").mkdir()
    for leads in ("../../era55", "/etc/passwd", f"{node.data}/one", "../../era5/one"):
        link.symlink_to(leads)
        said = f"{link} is a link to {leads}, which leads out of the folder; replace it by its target, "
        assert node.refused() == f"{said}or leave out stage: node"
        link.unlink()
    os.mkfifo(fifo)
    said = f"{fifo} is no file, folder or link; remove it, or leave out stage: node"
    assert node.refused() == said
    fifo.unlink()
    (node.data / "new").write_text("new")
    assert node.refused().startswith(
        f"{node.data} differs from the data on the job's first node: 3 files, 11,000 bytes there, 4 files, "
    )
    (node.data / "new").unlink()
    node.note(digest=True)
    found = one.stat()
    one.write_text("two" * 1000)
    os.utime(one, ns=(found.st_mtime_ns, found.st_mtime_ns))
    assert "has another digest than on the job's first node" in node.refused()
    node.note()
    assert (
        "images.cache_size in site.yaml: it is 0 B, but this data needs 22.7 KiB"
        in node.refused(room=0)
    )
    if os.geteuid():
        one.chmod(0)
        assert node.refused() == f"{one} is not readable; make it readable"
    assert node.kept() == []
    assert node.left() == {"lock"}


def test_a_disk_without_room_is_told_with_its_sizes(node: Node) -> None:
    require_namespaces()
    said = "; free space there, choose another images.folder in site.yaml, or leave out stage: node"
    for disk, has in (
        ("size=200m", r"200 MiB and \d+ files free"),
        ("size=400m,nr_inodes=900", r"400 MiB and 8\d+ files free"),
    ):
        found = f"{has}, of which 256 MiB and 1,000 files stay free"
        assert re.search(
            f"the data needs 22.7 KiB and 3 files, but {os.uname().nodename} has {found}{said}$",
            node.refused(disk=disk),
        )


def test_an_interrupted_copy_does_not_count(node: Node) -> None:
    with (node.data / "large").open("wb") as file:
        file.truncate(1 << 30)
    node.note()
    for number, left in ((signal.SIGTERM, 0), (signal.SIGKILL, 1)):
        process = node.popen(*NOTHING, room=4 << 10)
        while not any(name.startswith(".making-") for name in node.left()):
            time.sleep(0.01)
        process.send_signal(number)
        process.communicate()
        assert node.kept() == []
        assert len([name for name in node.left() if name.startswith(".making-")]) == left
    (node.data / "large").unlink()
    node.note()
    status, _, said = node.run(*NOTHING)
    assert status == 0, said
    assert len(node.kept()) == 1
    assert not any(name.startswith(".making-") for name in node.left())


def test_it_goes_when_room_is_needed_but_not_while_a_job_uses_it(node: Node) -> None:
    user = node.popen("bash", "-c", "echo started; exec sleep 60")
    assert user.stdout
    assert user.stdout.readline() == "started\n"
    first = node.kept()
    with (node.data / "large").open("wb") as file:
        file.truncate((2 << 20) - 40_000)
    node.note()
    said = node.refused(room=2)
    assert "images and data in use on" in said
    user.kill()
    user.communicate()
    status, _, errors = node.run(*NOTHING, room=2)
    assert status == 0, errors
    assert "removed the least recently used data" in errors
    assert node.kept() != first
