"""The source of a base without a registry."""

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from registries import Answer, serving

from argosy_common.errors import ArgosyError
from argosy_images.builder import fetching
from argosy_images.builder.fetching import Fetched, archive_suite
from argosy_images.registry import client, reference
from argosy_images.registry.retry import UnreachableError
from argosy_images.store.store import Store


@pytest.mark.parametrize(
    ("written", "suite"),
    [
        ("docker.io/library/debian:bookworm-slim", "bookworm"),
        ("debian:trixie", "trixie"),
        ("debian:12", "bookworm"),
        ("debian:12-slim", "bookworm"),
        ("library/debian:11", "bullseye"),
        ("debian", "stable"),
        ("docker.io/library/debian:latest", "stable"),
        ("debian:stable-slim", "stable"),
        ("debian:testing", "testing"),
        ("index.docker.io/library/debian:13", "trixie"),
        # A point release is a fixed state that the archive no longer has.
        ("debian:12.5", None),
        ("debian:bookworm-20250203", None),
        ("debian:99", None),
        ("ubuntu:jammy", None),
        ("registry.example.org/debian:bookworm", None),
        (f"debian:bookworm@sha256:{'0' * 64}", None),
    ],
)
def test_which_references_the_debian_archive_can_serve(written: str, suite: str | None) -> None:
    assert archive_suite(reference.Reference.parse(written)) == suite


@pytest.mark.parametrize(
    ("written", "made"),
    [
        ("debian", "debian:trixie"),
        ("debian:latest", "debian:trixie"),
        ("docker.io/library/debian:stable-slim", "docker.io/library/debian:trixie-slim"),
    ],
)
def test_what_moves_is_locked_by_the_name_that_the_archive_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, made: str
) -> None:
    def unpack(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        """The root file system after mmdebstrap."""
        *_, suite, folder = command
        root = Path(folder)
        assert suite == "stable"
        for name in ("passwd", "group"):
            master = root / "usr/share/base-passwd" / f"{name}.master"
            master.parent.mkdir(parents=True, exist_ok=True)
            master.touch()
        (root / "var/lib/apt/lists").mkdir(parents=True)
        (root / "etc/apt").mkdir(parents=True)
        for place, release in (
            ("stable", "Codename: trixie"),
            ("stable-updates", "Codename: other"),
        ):
            path = root / f"var/lib/apt/lists/mirror.example.org_debian_dists_{place}_InRelease"
            path.write_text(f"Origin: Debian\nSuite: stable\n{release}\n")
        (root / "etc/apt/sources.list").write_text(
            "deb http://mirror.example.org/stable stable main\n"
            "deb http://mirror.example.org/debian-security stable-security main\n"
        )
        return subprocess.CompletedProcess(command, 0, "", "")

    fetched, root = fetched_without_a_registry(tmp_path, monkeypatch, written, unpack)
    assert fetched.base.reference == made
    assert (root / "etc/apt/sources.list").read_text() == (
        "deb http://mirror.example.org/stable trixie main\n"
        "deb http://mirror.example.org/debian-security trixie-security main\n"
    )


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "I: running apt-get update...\nErr:1 http://deb.debian.org buster Release\n"
            "\x1b[31mE: The repository 'http://deb.debian.org buster Release' does not have a Release file."
            "\x1b[0m\nE: apt-get update failed\nE: mmdebstrap failed to run\n",
            "cannot be made from the Debian archive: E: The repository 'http://deb.debian.org buster "
            "Release' does not have a Release file",
        ),
        (
            "tar: ./usr/bin/who: Cannot write: No space left on device\nE: tar --extract failed: 512\n",
            "a disk is full while Debian buster is made from the Debian archive (tar: ./usr/bin/who: "
            "Cannot write: No space left on device): free space",
        ),
        ("", "cannot be made from the Debian archive: mmdebstrap failed"),
    ],
)
def test_why_the_archive_does_not_serve_is_said_in_apt_s_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, told: str
) -> None:
    def fail(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 25, "", said)

    with pytest.raises(ArgosyError) as problem:
        fetched_without_a_registry(tmp_path, monkeypatch, "debian:10", fail)
    assert told in str(problem.value)


def fetched_without_a_registry(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    written: str,
    mmdebstrap: Callable[..., subprocess.CompletedProcess[str]],
) -> tuple[Fetched, Path]:
    """Fetch a reference while no registry responds."""

    def nobody(*_: object, **__: object) -> None:
        raise UnreachableError("no network")

    monkeypatch.setattr(client.Client, "reach", nobody)
    monkeypatch.setattr(fetching.tools.Tools, "require", lambda *_: Path("/usr/bin/mmdebstrap"))
    monkeypatch.setattr(fetching.subprocess, "run", mmdebstrap)
    root = tmp_path / "root"
    return fetching.fetch(Store(tmp_path), written, root, print), root


def test_without_a_registry_debian_comes_from_the_archive_after_one_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that drops packets gives no response, not even to a name lookup."""
    monkeypatch.setattr(client, "CONNECT_S", 0.3)
    monkeypatch.setattr(client, "exchange", lambda *_, **__: time.sleep(5))
    made: list[str] = []

    def bootstrap(store: Store, suite: str, root: Path, say: object) -> str:
        made.append(suite)
        return suite

    monkeypatch.setattr(fetching, "_bootstrap", bootstrap)
    said: list[str] = []
    began = time.monotonic()
    fetched = fetching.fetch(
        Store(tmp_path), "debian:bookworm-slim", tmp_path / "root", said.append
    )
    assert time.monotonic() - began < 2
    assert (fetched.base.source, fetched.base.reference) == ("archive", "debian:bookworm-slim")
    assert made == ["bookworm"]
    assert re.search("no registry answers .* from the Debian archive", said[-1])


def test_a_proxy_that_cannot_be_used_is_as_no_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("all_proxy", "socks5h://127.0.0.1:1080")
    monkeypatch.setattr(fetching, "_bootstrap", lambda _, suite, *__: suite)
    said: list[str] = []
    fetched = fetching.fetch(Store(tmp_path), "debian:bookworm", tmp_path / "root", said.append)
    assert fetched.base.source == "archive"
    assert "is a SOCKS proxy, which is not supported" in said[-1]
    with pytest.raises(ArgosyError, match="is a SOCKS proxy") as problem:
        fetching.fetch(Store(tmp_path), "team/tool:1", tmp_path / "root", said.append)
    # There is no retry.
    assert "tried" not in str(problem.value)


@pytest.mark.parametrize("status", [401, 404, 503])
def test_a_registry_that_answers_is_the_one_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(fetching, "_bootstrap", lambda *_: pytest.fail("made from the archive"))
    with serving(lambda *_: Answer(status, {"Retry-After": "3600"})) as server:
        monkeypatch.setattr(reference, "_DOCKER_HUB_API", server.address)
        with pytest.raises(ArgosyError, match=f"HTTP {status}"):
            fetching.fetch(Store(tmp_path), "debian:bookworm-slim", tmp_path / "root", print)
