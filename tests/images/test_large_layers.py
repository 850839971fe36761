"""What takes long of a large layer is said."""

from pathlib import Path

import pytest

from argosy_images.builder import cache
from argosy_images.rootfs.layers import Change, read_overlay
from argosy_images.store.store import Store


def test_the_largest_file_of_a_large_layer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of logins is all holes, and as long as the highest user id makes it."""

    def make(diff: Path) -> Change:
        (diff / "var/log").mkdir(parents=True)
        (diff / "small").write_bytes(b"x" * 100)
        with (diff / "var/log/lastlog").open("wb") as file:
            file.truncate(5 << 20)
        return read_overlay(diff)

    said: list[str] = []
    cache.write_layer(Store(tmp_path), "small", "RUN a", {}, make, say=said.append)
    assert said == []
    monkeypatch.setattr(cache, "LARGE", 5 << 20)
    cache.write_layer(Store(tmp_path), "large", "RUN a", {}, make, say=said.append)
    told = "reading 5 MiB for the layer's digest; the largest file is /var/log/lastlog, 5 MiB"
    assert said == [told]
