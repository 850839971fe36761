"""Parsing of image references."""

import pytest

from argosy_common.errors import ArgosyError
from argosy_images.registry.reference import Reference, is_loopback, reaches_here

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("debian", Reference("docker.io", "library/debian", "latest")),
        ("debian:bookworm-slim", Reference("docker.io", "library/debian", "bookworm-slim")),
        ("docker.io/debian:12", Reference("docker.io", "library/debian", "12")),
        ("index.docker.io/library/debian:12", Reference("docker.io", "library/debian", "12")),
        ("someone/tool:1", Reference("docker.io", "someone/tool", "1")),
        ("localhost:5000/a/b:c", Reference("localhost:5000", "a/b", "c")),
        ("localhost/a", Reference("localhost", "a", "latest")),
        ("[::1]:5000/a", Reference("[::1]:5000", "a", "latest")),
        ("registry.example.org/a:1", Reference("registry.example.org", "a", "1")),
        ("docker://registry.example.org/a:1", Reference("registry.example.org", "a", "1")),
        (f"a@{DIGEST}", Reference("docker.io", "library/a", None, DIGEST)),
        (f"x.org/a__b/c-d.e:1@{DIGEST}", Reference("x.org", "a__b/c-d.e", "1", DIGEST)),
    ],
)
def test_parse(text: str, expected: Reference) -> None:
    found = Reference.parse(text)
    assert found == expected
    assert Reference.parse(str(found)) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a repository's name"),
        ("UPPER", "a repository's name"),
        ("a/../b", "a repository's name"),
        ("a//b", "a repository's name"),
        ("a b", "a repository's name"),
        ("a" * 256, "a repository's name"),
        ("x.org/", "a repository's name"),
        ("a:", "'' is not a tag"),
        ("a:-x", "'-x' is not a tag"),
        ("a:b/c", "'a:b' is not a host"),
        ("a@sha256:12", "a digest is"),
        ("a@", "a digest is"),
        (f"a@{DIGEST}\n", "a digest is"),
        ("user@x.org/a", "a digest is"),
        ("user:pw@x.org/a", "a digest is"),
        ("-x.org/a", "'-x.org' is not a host"),
        ("x.org:port/a", "'x.org:port' is not a host"),
        ("https://x.org/a", "'https:' is not a host"),
        ("x.org?y/a", "'x.org?y' is not a host"),
    ],
)
def test_what_is_no_reference_is_refused_by_its_part(text: str, why: str) -> None:
    with pytest.raises(ArgosyError) as problem:
        Reference.parse(text)
    assert "names no image in a registry" in str(problem.value)
    assert why in str(problem.value)


def test_only_loopback_is_spoken_to_without_tls() -> None:
    def api(text: str) -> str:
        return Reference.parse(text).api

    assert api("127.0.0.1:5000/a:1") == "http://127.0.0.1:5000/v2/"
    assert api("[::1]:5000/a:1") == "http://[::1]:5000/v2/"
    assert api("localhost:1/a") == "http://localhost:1/v2/"
    assert api("localhost.example.org/a:1") == "https://localhost.example.org/v2/"
    assert api("127.0.0.1.example.org/a:1") == "https://127.0.0.1.example.org/v2/"
    assert api("a") == "https://registry-1.docker.io/v2/"
    assert is_loopback("127.8.8.8")
    assert not is_loopback("128.0.0.1")


def test_this_machine_has_many_spellings() -> None:
    here = (
        "localhost Localhost. a.localhost 127.1 0177.0.0.1 0x7f000001 2130706433 0.0.0.0 0 ::1 [::]"
    )
    assert all(map(reaches_here, [*here.split(), "[::ffff:127.0.0.1]", "[::ffff:0.0.0.0]"]))
    elsewhere = "localhost.example.org 128.1 10.0.0.1 ::2 a.b 127 127.0.0.1.example.org"
    assert not any(map(reaches_here, ["", *elsewhere.split()]))


def test_a_pinned_reference_asks_for_the_digest() -> None:
    pinned = Reference.parse("debian:12").pinned(DIGEST)
    assert str(pinned) == f"docker.io/library/debian:12@{DIGEST}"
    assert pinned.wanted == DIGEST
    assert Reference.parse("debian:12").wanted == "12"
