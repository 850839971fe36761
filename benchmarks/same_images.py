"""`make compare-images`: ordinary Dockerfiles, and Argosy's own, built by Argosy, podman and ch-image.

Compared are all files by path, mode and content, and what the configuration says. What is written by chance
or with the time (logs, compiled Python) is compared by path and mode alone. podman's side of the ordinary
ones is a test as well (tests/containers/test_same_as_podman.py), from which the Dockerfiles come.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/containers")]

from test_same_as_podman import BASE, ORDINARY, fill, listing, podman  # noqa: E402

from argosy_common.disk import remove_tree  # noqa: E402
from argosy_images.builder.builder import build_image  # noqa: E402
from argosy_images.interchange.exporting import export_image  # noqa: E402
from argosy_images.interchange.importing import import_image  # noqa: E402
from argosy_images.store.lockfile import ImageLock  # noqa: E402
from argosy_images.store.store import Store  # noqa: E402

OWN = ("torch-cpu", "tensorflow-cpu")
SHOWN = 6
WRITTEN_ANEW = (".pyc", "/RECORD", ".dist-info/REQUESTED")

OF_CH_IMAGE = (".git", "ch/", "mnt/", "WEIRD_AL_YANKOVIC")
"""What it keeps for itself in its images' trees."""

Listing = Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Others:
    """The other builders, with the base and Horovod's image already there.

    Args:
        storage: of podman; a short path.
        ch_image: ch-image's storage.
    """

    storage: Path
    ch_image: Path
    scratch: Path

    def by_podman(self, folder: Path) -> tuple[Listing, dict[str, Any]]:
        """podman's image, unpacked by our import, and its configuration."""
        options = ["--isolation", "chroot", "--network", "host", "--tag", "theirs"]
        file = next(
            folder / name for name in ("Containerfile", "Dockerfile") if (folder / name).is_file()
        )
        shown = _settings_of_pip(self.scratch) if folder.name in OWN else {}
        options += [f"--volume={source}:{target}:ro" for source, target in shown.items()]
        options += ["--file", str(file)]
        podman(self.storage, "build", "--format", "docker", *options, folder)
        saved = self.scratch / "theirs.tar"
        podman(self.storage, "save", "--format", "oci-archive", "-o", saved, "theirs")
        store = Store(self.scratch / "their store")
        lock = import_image(store, self.scratch / "their project", saved, "theirs")
        saved.unlink()
        found = listing(store.root(lock.digest))
        remove_tree(store.path)
        # podman leaves the places in the image where it mounted something.
        places = {target.lstrip("/") for target in shown.values()}
        found = {path: each for path, each in found.items() if path not in places}
        return found, _configuration(lock)

    def by_ch_image(self, folder: Path) -> Listing:
        """ch-image's tree; it keeps no configuration but the environment."""
        file = next(
            folder / name for name in ("Containerfile", "Dockerfile") if (folder / name).is_file()
        )
        self.run_ch_image("build", "--force", "-t", "theirs", "-f", str(file), str(folder))
        found = listing(self.ch_image / "img" / "theirs")
        return {path: each for path, each in found.items() if not path.startswith(OF_CH_IMAGE)}

    def run_ch_image(self, *arguments: str) -> None:
        """Run ch-image; its cache is a git repository."""
        who = {
            f"GIT_{role}_{what}": "bench"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        # It is a program of the distribution's Python, whatever else is installed.
        own = {
            "USER": "bench",
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "CH_IMAGE_STORAGE": str(self.ch_image),
        }
        done = subprocess.run(
            ["ch-image", *arguments],
            env={**os.environ, **who, **own},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            reason = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            raise NotBuiltError((reason or done.stderr.splitlines() or ["?"])[-1])


class NotBuiltError(Exception):
    """The other builder cannot build it."""


def main() -> int:
    """Compare, print what differs and, last, the counts as JSON."""
    chosen = sys.argv[1:] or [*ORDINARY, *OWN]
    figures: dict[str, dict[str, int | str]] = {}
    with tempfile.TemporaryDirectory(prefix="argosy-bench-", dir=ROOT / ".argosy") as scratch:
        storage = Path(tempfile.mkdtemp(prefix="pod-"))
        others = Others(storage, Path(scratch) / "ch", Path(scratch))
        try:
            _give_base(others)
            for name in chosen:
                figures[name] = compare(name, others)
        finally:
            # What it stored for other users of the images is theirs outside of its namespace.
            unshare = ["podman", "unshare"] if os.geteuid() else []
            subprocess.run([*unshare, "rm", "-rf", storage / "root"], check=False)
            shutil.rmtree(storage, ignore_errors=True)
            subprocess.run(["chmod", "-R", "u+rwX", others.ch_image], check=False)
    print(json.dumps(figures))
    return 0


def compare(name: str, others: Others) -> dict[str, int | str]:
    """Build one image three times; how many paths differ from podman's and from ch-image's."""
    store = Store.of_project(ROOT)
    folder = ROOT / "containers" / name
    if name in ORDINARY:
        folder = others.scratch / name
        fill(folder)
        (folder / "Dockerfile").write_text(ORDINARY[name])
    lock = build_image(store, folder, others.scratch / "lock", others.scratch / "log")
    ours = listing(store.root(lock.digest))
    theirs, configuration = others.by_podman(folder)
    figures: dict[str, int | str] = {
        "files": len(ours),
        "podman": _tell(name, "podman", ours, theirs),
    }
    own = _configuration(lock)
    differing = [key for key in own if own[key] != configuration[key]]
    figures["configuration"] = ", ".join(differing) or "same"
    try:
        figures["ch-image"] = _tell(name, "ch-image", ours, others.by_ch_image(folder))
    except NotBuiltError as problem:
        print(f"{name}: ch-image does not build it: {problem}")
        figures["ch-image"] = "not built"
    return figures


def _give_base(others: Others) -> None:
    """Give the others what Argosy's images begin with: the same base, and Horovod's image."""
    store = Store.of_project(ROOT)
    base = others.scratch / "base"
    base.mkdir()
    (base / "Containerfile").write_text(f"FROM {BASE}\n")
    for folder, tag in ((base, BASE), (ROOT / "containers/horovod", "localhost/horovod:latest")):
        lock = build_image(store, folder, others.scratch / "lock", others.scratch / "log")
        archive = others.scratch / "image.tar"
        export_image(store, lock, archive)
        podman(others.storage, "load", "--input", archive)
        podman(others.storage, "tag", lock.digest.removeprefix("sha256:"), tag)
        archive.unlink()
        tree = others.scratch / "tree"
        subprocess.run(["cp", "-a", store.root(lock.digest), tree], check=True)
        subprocess.run(["chmod", "-R", "u+w", tree], check=True)
        for name in ("resolv.conf", "hosts"):
            # Argosy's point to what its containers are given; ch-image puts the host's there.
            (tree / "etc" / name).unlink()
            (tree / "etc" / name).touch()
        others.run_ch_image("import", str(tree), tag)
        remove_tree(tree)


def _tell(name: str, builder: str, ours: Listing, theirs: Listing) -> int:
    """Print what differs; how many paths do."""
    different = sorted(path for path in {*ours, *theirs} if not _same(path, ours, theirs))
    print(f"{name}: {len(ours)} files; {builder}: {len(different)} differ")
    for path in different[:SHOWN]:
        print(
            f"    {path}: {ours.get(path, ('missing',))[0]} here, {theirs.get(path, ('missing',))[0]} there"
        )
    return len(different)


def _same(path: str, ours: Listing, theirs: Listing) -> bool:
    if path not in ours or path not in theirs:
        return False
    by_chance = path.endswith(WRITTEN_ANEW)
    return ours[path][0] == theirs[path][0] if by_chance else ours[path] == theirs[path]


def _configuration(lock: ImageLock) -> dict[str, Any]:
    """What programs meet, but for the label that buildah puts in."""
    labels = {k: v for k, v in lock.config.labels.items() if k != "io.buildah.version"}
    return lock.config.model_copy(update={"labels": labels}).model_dump()


def _settings_of_pip(scratch: Path) -> dict[str, str]:
    """This host's settings of pip, which Argosy's steps see: file or folder, to its place in podman's."""
    listed = subprocess.run(
        [ROOT / ".venv/bin/pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    pairs = (line.partition("=") for line in listed.splitlines())
    settings = {key.rpartition(".")[2]: shlex.split(value)[0] for key, _, value in pairs}
    shown: dict[str, str] = {}
    if certificates := settings.get("cert"):
        # Elsewhere, since a package writes to its usual place.
        settings["cert"] = "/opt/certificates.crt"
        shown[certificates] = settings["cert"]
    words = " ".join(settings.values()).replace("file://", "").split()
    folders = {str(Path(word).parent) if word.endswith("/simple") else word for word in words}
    shown |= {folder: folder for folder in sorted(folders) if Path(folder).is_dir()}
    lines = [f"{key} = {value}" for key, value in settings.items()]
    configuration = scratch / "pip.conf"
    configuration.write_text("[global]\n" + "\n".join(lines) + "\n")
    shown[str(configuration)] = "/etc/pip.conf"
    return shown


if __name__ == "__main__":
    sys.exit(main())
