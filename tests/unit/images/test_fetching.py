"""Where a base comes from when no registry is in reach."""

import re
import time
from pathlib import Path

import pytest
from registries import Answer, serving

from argosy.errors import ArgosyError
from argosy.images.build import fetching
from argosy.images.build.fetching import ARCHIVE_REFERENCE
from argosy.images.registry import client, reference
from argosy.images.store import Store


def test_which_references_the_debian_archive_can_serve() -> None:
    assert ARCHIVE_REFERENCE.fullmatch("docker.io/library/debian:bookworm-slim")
    assert ARCHIVE_REFERENCE.fullmatch("debian:trixie")
    assert not ARCHIVE_REFERENCE.fullmatch("ubuntu:jammy")
    assert not ARCHIVE_REFERENCE.fullmatch("registry.example.org/debian:bookworm")
    assert not ARCHIVE_REFERENCE.fullmatch(f"debian:bookworm@sha256:{'0' * 64}")


def test_an_address_where_nobody_is_is_said() -> None:
    with pytest.raises(ArgosyError, match=r"127.0.0.1:1: no connection \(Connection refused\)"):
        client.Client(reference.Reference.parse("127.0.0.1:1/a:1")).reach(tries=1)


def test_without_a_registry_debian_comes_from_the_archive_after_one_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that drops packets gives no answer at all, to a question for a name as well."""
    monkeypatch.setattr(client, "CONNECT_S", 0.3)
    monkeypatch.setattr(client, "exchange", lambda *_, **__: time.sleep(5))
    made: list[str] = []
    monkeypatch.setattr(fetching, "_bootstrap", lambda store, suite, root, say: made.append(suite))
    said: list[str] = []
    began = time.monotonic()
    fetched = fetching.fetch(
        Store(tmp_path), "debian:bookworm-slim", tmp_path / "root", said.append
    )
    assert time.monotonic() - began < 2
    assert (fetched.base.source, fetched.base.reference) == ("archive", "debian:bookworm-slim")
    assert made == ["bookworm"]
    assert re.search("no registry in reach .* from the Debian archive", said[-1])


@pytest.mark.parametrize("status", [401, 404, 503])
def test_a_registry_that_answers_is_the_one_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(fetching, "_bootstrap", lambda *_: pytest.fail("made from the archive"))
    with serving(lambda *_: Answer(status, {"Retry-After": "3600"})) as server:
        monkeypatch.setattr(reference, "_DOCKER_HUB_API", server.address)
        with pytest.raises(ArgosyError, match=f"HTTP {status}"):
            fetching.fetch(Store(tmp_path), "debian:bookworm-slim", tmp_path / "root", print)
