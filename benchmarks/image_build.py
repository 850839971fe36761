"""`make bench-images`: the same Containerfile built by Argosy, by ch-image and by rootless podman.

Each begins with the base image in its own store, made from the same archive. Cold: nothing else is cached.
Warm: nothing has changed. Changed: the last line has. To be run by an ordinary user; podman and
charliecloud have to be installed (Debian's packages of these names).
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path

ROOT = Path(__file__).parents[1]
COLD, SHORT = 2, 7
BASE = "FROM docker.io/library/debian:bookworm-slim\nRUN apt-get update && apt-get install -y fakeroot\n"
TEXT = """FROM localhost/base
RUN apt-get update && apt-get install -y --no-install-recommends \\
    python3 python3-pip python3-venv g++ openssh-client dbus && rm -rf /var/lib/apt/lists/*
COPY wheels /wheels
RUN python3 -m venv /opt/venv && /opt/venv/bin/pip install --no-index --find-links /wheels numpy
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
RUN python3 -c "import numpy; print(numpy.__version__)" > /version
RUN echo LAST > /last
"""


class Builder(ABC):
    """One of the tools, with a store of its own."""

    name: str

    def __init__(self, folder: Path, project: Path) -> None:
        self.folder = folder / self.name
        self.project = project
        self.folder.mkdir()

    @abstractmethod
    def take_base(self, archive: Path) -> None:
        """Empty the store, and put the base into it."""

    @abstractmethod
    def build(self) -> list[str | Path]:
        """The command that builds containers/image."""

    def run(self, *command: str | Path) -> None:
        """Run a command of the tool; its output is shown when it fails."""
        done = subprocess.run(
            command, cwd=self.project, env=self.environment(), capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"{self.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}")

    def environment(self) -> dict[str, str]:
        """In which it runs."""
        return {**os.environ}


class Argosy(Builder):
    name = "argosy"

    def environment(self) -> dict[str, str]:
        return {**os.environ, "ARGOSY_STORE": str(self.folder)}

    def take_base(self, archive: Path) -> None:
        empty(self.folder)
        own = Path(os.environ.get("ARGOSY_STORE") or ROOT / ".argosy")
        for name in ("udocker", "tools"):
            if (own / name).is_dir():
                (self.folder / name).symlink_to(own / name)
        self.run(ROOT / ".venv/bin/argosy", "image", "build", "base")

    def build(self) -> list[str | Path]:
        return [ROOT / ".venv/bin/argosy", "image", "build", "image"]


class ChImage(Builder):
    name = "ch-image"

    def environment(self) -> dict[str, str]:
        # Its cache is a git repository.
        who = {
            f"GIT_{role}_{what}": "bench"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        return {**os.environ, **who, "CH_IMAGE_STORAGE": str(self.folder / "store")}

    def take_base(self, archive: Path) -> None:
        empty(self.folder)
        tree = self.folder / "base"
        tree.mkdir()
        subprocess.run(["tar", "-xf", archive.with_suffix(".tree.tar"), "-C", tree], check=True)
        for name in ("resolv.conf", "hosts"):
            # Argosy's point to what its containers are given; ch-image puts the host's there.
            (tree / "etc" / name).unlink()
            (tree / "etc" / name).touch()
        self.run("ch-image", "import", tree, "localhost/base")

    def build(self) -> list[str | Path]:
        folder = self.project / "containers/image"
        return [
            "ch-image",
            "build",
            "--force",
            "-t",
            "image",
            "-f",
            folder / "Containerfile",
            folder,
        ]


class Podman(Builder):
    name = "podman"

    def __init__(self, folder: Path, project: Path) -> None:
        super().__init__(folder, project)
        # podman refuses longer names.
        self.runtime = Path(tempfile.mkdtemp(prefix="podman-"))

    def command(self) -> list[str | Path]:
        stores = ["--root", self.folder / "root", "--runroot", self.runtime]
        # The kernel's overlay, which it does not choose by itself for ordinary users.
        return ["podman", *stores, "--storage-driver", "overlay"]

    def take_base(self, archive: Path) -> None:
        subprocess.run(["podman", "unshare", "rm", "-rf", self.folder / "root"], check=True)
        self.run(*self.command(), "load", "--input", archive)
        listed = [*self.command(), "images", "--quiet"]
        [identity] = subprocess.check_output(listed, text=True).split()
        self.run(*self.command(), "tag", identity, "localhost/base")

    def build(self) -> list[str | Path]:
        options = ["--isolation", "chroot", "--network", "host", "--layers", "--tag", "image"]
        return [*self.command(), "build", *options, self.project / "containers/image"]


def main() -> int:
    """Measure, print the table and, last, the figures as JSON."""
    with tempfile.TemporaryDirectory(prefix="argosy-bench-", dir=scratch_folder()) as scratch:
        folder = Path(scratch)
        project = make_project(folder)
        podman = Podman(folder, project)
        builders = [Argosy(folder, project), ChImage(folder, project), podman]
        archive = make_base(folder, builders[0])
        figures = measure(builders, project, archive)
        subprocess.run(["podman", "unshare", "rm", "-rf", folder / "podman"], check=True)
        shutil.rmtree(podman.runtime, ignore_errors=True)
        remove(folder)
        folder.mkdir()
    report(figures)
    return 0


def measure(
    builders: list[Builder], project: Path, archive: Path
) -> dict[str, dict[str, list[float]]]:
    """Seconds by what was built and by whom, one after the other in turns."""
    figures = {what: {each.name: [] for each in builders} for what in ("cold", "warm", "changed")}
    for _ in range(COLD):
        for each in builders:
            each.take_base(archive)
            figures["cold"][each.name].append(timed(each))
    for number in range(SHORT):
        for each in builders:
            figures["warm"][each.name].append(timed(each))
        text = TEXT.replace("LAST", str(number))
        (project / "containers/image/Containerfile").write_text(text)
        for each in builders:
            figures["changed"][each.name].append(timed(each))
    return figures


def timed(builder: Builder) -> float:
    """Seconds of one build."""
    began = time.monotonic()
    builder.run(*builder.build())
    seconds = time.monotonic() - began
    print(f"{builder.name}: {seconds:.2f} s", file=sys.stderr)
    return seconds


def make_project(folder: Path) -> Path:
    """A project with the two images."""
    project = folder / "project"
    for name, text in (("base", BASE), ("image", TEXT)):
        (project / "containers" / name).mkdir(parents=True)
        (project / "containers" / name / "Containerfile").write_text(text)
    wheels = project / "containers/image/wheels"
    pip = [ROOT / ".venv/bin/pip", "download", "--quiet", "--no-deps", "--dest", wheels]
    subprocess.run([*pip, "numpy==2.4.6"], check=True, stdout=sys.stderr)
    return project


def make_base(folder: Path, argosy: Builder) -> Path:
    """The base as an archive for podman, and beside it as a tree for ch-image."""
    argosy.take_base(folder)
    archive = folder / "base.tar"
    argosy.run(ROOT / ".venv/bin/argosy", "image", "export", "base", archive)
    [root] = [path for path in (argosy.folder / "roots").iterdir() if path.is_dir()]
    # Frozen folders cannot be written to; the tree for ch-image has to be.
    tree = [
        "tar",
        "--create",
        "--mode=u+w",
        "--file",
        archive.with_suffix(".tree.tar"),
        "-C",
        root,
        ".",
    ]
    subprocess.run(tree, check=True)
    return archive


def report(figures: dict[str, dict[str, list[float]]]) -> None:
    """The table, and last the figures as JSON."""
    names = list(figures["cold"])
    print(f"{'seconds, median':16}" + "".join(f"{name:>26}" for name in names))
    medians = {}
    for what, by_name in figures.items():
        medians[what] = {name: statistics.median(values) for name, values in by_name.items()}
        cells = (
            f"{medians[what][name]:10.2f} ({min(values):5.2f} to {max(values):5.2f})"
            for name, values in by_name.items()
        )
        print(f"{what:16}" + "".join(f"{cell:>26}" for cell in cells))
    fastest = min(value for name, value in medians["cold"].items() if name != "argosy")
    ratio = medians["cold"]["argosy"] / fastest
    print(f"cold: {ratio:.2f} x the faster of the others")
    print(json.dumps({"median_s": medians, "cold_ratio": ratio, "repeats": [COLD, SHORT]}))


def scratch_folder() -> Path:
    """On the disk of the project: the memory of /tmp would be another machine's."""
    folder = ROOT / ".argosy"
    folder.mkdir(exist_ok=True)
    return folder


def empty(folder: Path) -> None:
    """An empty folder in place of what there was."""
    remove(folder)
    folder.mkdir()


def remove(folder: Path) -> None:
    """Delete a tree with folders that cannot be written to."""
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=False, stderr=subprocess.DEVNULL)
    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
