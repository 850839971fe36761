"""Make small packed images, and hold them staged on this node."""

import json
import subprocess
import sys
from pathlib import Path

from frozen_images import make_image, make_layer

from argosy_images.archive.packing import pack_image
from argosy_images.staging.folder import Wanted
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store


def make_packed(store: Store, project: Path, name: str, size: int = 2000) -> Wanted:
    """Make a packed image of 200 small files and one of `size` bytes."""
    files = {f"many/{number % 9}/{number}": f"{name} {number}" for number in range(200)}
    make_layer(store, name, {"big": "x" * size, "name": name, **files})
    lock = make_image(store, project, name, [name])
    return pack(store, lock)


def pack(store: Store, lock: ImageLock) -> Wanted:
    """Pack the image."""
    return Wanted(lock.digest, lock.name, pack_image(store, lock, lambda line: None))


def is_whole(root: Path, name: str, size: int = 2000) -> bool:
    """Return whether an image made by `make_packed` is complete."""
    numbers = [path.read_text() for path in root.glob("many/*/*")]
    return (
        sorted(numbers) == sorted(f"{name} {number}" for number in range(200))
        and (root / "name").read_text() == name
        and (root / "big").stat().st_size == size
        and root.stat().st_mode & 0o777 == 0o555
    )


# Stages an image, reports that, waits for the end of its input, and releases the image.
HOLDER = """
import json, sys
from pathlib import Path
from argosy_common.errors import ArgosyError
from argosy_images.staging.folder import Wanted
from argosy_images.staging.stage import Place, staged
digest, name, archive, folder, room = json.loads(sys.argv[1])
said = []
try:
    with staged(Wanted(digest, name, Path(archive)), Place(Path(folder), room), said.append) as image:
        files = sum(path.is_file() for path in image.root.rglob("*"))
        print(json.dumps({"root": str(image.root), "files": files, "said": said}), flush=True)
        sys.stdin.read()
        assert files == sum(path.is_file() for path in image.root.rglob("*"))
except ArgosyError as problem:
    print(json.dumps({"error": str(problem), "said": said}), flush=True)
    sys.exit(2)
"""


def start_holder(
    wanted: Wanted, folder: Path, room: int | None, *wrapper: str
) -> subprocess.Popen[str]:
    """Start a process that stages an image and holds it until its standard input is closed."""
    what = [wanted.digest, wanted.name, str(wanted.archive), str(folder), room]
    return subprocess.Popen(
        [*wrapper, sys.executable, "-c", HOLDER, json.dumps(what)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def told(holder: subprocess.Popen[str]) -> dict[str, object]:
    """Return the holder's report: the staged image, or the error."""
    assert holder.stdout
    answer: dict[str, object] = json.loads(holder.stdout.readline() or "{}")
    return answer


def let_go(*holders: subprocess.Popen[str]) -> list[int]:
    """End the holders; return their exit statuses."""
    for holder in holders:
        holder.communicate("")
    return [holder.returncode for holder in holders]
