"""References as people write them after FROM."""

import pytest

from argosy.images.build.base import ARCHIVE_REFERENCE, Reference


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("debian", Reference(None, "library/debian", "latest")),
        ("debian:bookworm-slim", Reference(None, "library/debian", "bookworm-slim")),
        ("docker.io/library/debian:12", Reference(None, "library/debian", "12")),
        ("someone/tool:1", Reference(None, "someone/tool", "1")),
        ("localhost:5000/a/b:c", Reference("localhost:5000", "a/b", "c")),
        ("registry.example.org/a:1", Reference("registry.example.org", "library/a", "1")),
    ],
)
def test_parse(text: str, expected: Reference) -> None:
    assert Reference.parse(text) == expected


def test_only_loopback_is_spoken_to_without_tls() -> None:
    assert Reference.parse("127.0.0.1:5000/a:1").registry_url == "http://127.0.0.1:5000"
    assert (
        Reference.parse("localhost.example.org/a:1").registry_url == "https://localhost.example.org"
    )
    assert Reference.parse("a").registry_url is None


def test_which_references_the_debian_archive_can_serve() -> None:
    assert ARCHIVE_REFERENCE.fullmatch("docker.io/library/debian:bookworm-slim")
    assert ARCHIVE_REFERENCE.fullmatch("debian:trixie")
    assert not ARCHIVE_REFERENCE.fullmatch("ubuntu:jammy")
    assert not ARCHIVE_REFERENCE.fullmatch("registry.example.org/debian:bookworm")
