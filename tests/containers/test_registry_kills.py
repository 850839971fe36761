"""A pull killed at any moment leaves no incomplete file that looks complete."""

import hashlib
import random
import time
from contextlib import suppress
from pathlib import Path

import pytest
from killed_builds import Builds
from registries import Answer, Layout, Request, between, no_logins, push, registry, tar_of

from argosy_common.disk import remove_tree
from argosy_images.builder.builder import build_image
from argosy_images.store.store import Store

pytestmark = [pytest.mark.thorough, pytest.mark.container, pytest.mark.timeout(300)]

LAYERS = 4


def content(number: int) -> bytes:
    return random.Random(number).randbytes(1_500_000)


def whole_blobs_are_whole(store: Store) -> bool:
    for path in store.blobs.glob("*"):
        # Child processes of the killed build may still delete files.
        with suppress(FileNotFoundError):
            if not path.suffix and hashlib.sha256(path.read_bytes()).hexdigest() != path.name:
                return False
    return True


def without_results(builds: Builds) -> Builds:
    """Delete all results, so that the next build repeats all work."""
    for name in ("layers", "roots", "history"):
        remove_tree(builds.store / name)
    return builds


def slowly(request: Request, number: int, ask: object) -> Answer:
    if "/blobs/" in request.path:
        time.sleep(0.1)
    return ask()  # type: ignore[operator,no-any-return]


def test_at_random_moments(
    project_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moments: int
) -> None:
    variables = no_logins(tmp_path)
    monkeypatch.setenv("REGISTRY_AUTH_FILE", variables["REGISTRY_AUTH_FILE"])
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    store = Store(tmp_path / "store")
    store.path.mkdir()
    store.tools.symlink_to(project_store.tools)
    folder = tmp_path / "project/containers/image"
    folder.mkdir(parents=True)
    layout = Layout(tmp_path / "layout")
    layers = [tar_of({f"file-{number}": content(number)}) for number in range(LAYERS)]
    layout.finish(layout.image(*layers))
    killed = parts = 0
    with (
        registry(project_store, tmp_path / "registry") as address,
        between(address, slowly) as front,
    ):
        push(project_store, layout.folder, f"{address}/team/tool:1")
        (folder / "Containerfile").write_text(
            f"FROM {front.address}/team/tool:1\nCOPY Containerfile /added\n"
        )
        builds = Builds(tmp_path / "project", store.path)
        whole_s = min(without_results(builds).whole() for _ in range(2))
        for number in range(moments):
            without_results(builds)
            if number % 2:
                killed += builds.killed_within(lambda: any(store.blobs.glob("*")), 0.2, chance)
            else:
                killed += builds.killed(whole_s, chance)
            parts += bool(list(store.blobs.glob("*")))
            assert whole_blobs_are_whole(store), (seed, number)
            lock = build_image(store, folder, tmp_path / "image.lock", tmp_path / "build.log")
            root = store.root(lock.digest)
            for layer in range(LAYERS):
                found = (root / f"file-{layer}").read_bytes()
                assert found == content(layer), (seed, number)
            assert (root / "added").is_file()
            # The killed pulls left no files.
            assert list(store.blobs.iterdir()) == []
    assert killed > moments / 4, "most builds had ended before they were to be killed"
    assert parts, "no pull was cut off in its middle"
    assert list((store.path / "builds").iterdir()) == []
