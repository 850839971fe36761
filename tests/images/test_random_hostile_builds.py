"""Random hostile images change nothing outside the store; each is built, or rejected in one line.

Without RUN no container is needed, so hundreds take a minute.
"""

import io
import os
import sys
import tarfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from canaries import holds_secret, make_canaries, state
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_images.builder.builder import build_image
from argosy_images.store.store import Store

pytestmark = pytest.mark.thorough

BUILDS = 500

File = tuple[str, str, str, int]
"""Path, kind, target of a link, mode."""

NAMES = st.sampled_from(
    [
        *("a", "b", "sub", "etc", "tmp", "dev", "proc", "file", "secret", ".wh.a", ".wh..wh..opq"),
        *("with space", "line\nbreak", "odd\udcff", "-rf", "$(id)", "*", "long" * 50, "evil.tar"),
        "{HOST}",
    ]
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TARGETS = st.one_of(
    st.sampled_from(
        [
            *("{HOST}", "{HOST}/file", "{HOST}/folder", "{HOST}/empty-folder", "/etc", ".", ".."),
            *("a", "../" * 12 + "{HOST}", "{HOST}/../host/secret", "/proc/self/root"),
            *("/proc/self/fd/0", "/dev/zero", "sub/..", "/a/b", "b", "file/x", "/" + "x" * 300),
        ]
    ),
    PATHS,
)
KINDS = st.sampled_from(
    ["file", "folder", "link", "link", "link", "second name", "pipe", "archive"]
)
FILES = st.lists(st.tuples(PATHS, KINDS, TARGETS, st.integers(0, 0o7777)), max_size=8)
WORDS = st.one_of(
    st.sampled_from(["/", ".", "*", "s*", "[a-b]", "*/*", "a/../b", "/..", "good/", "good", "?"]),
    PATHS.filter(lambda path: "\udcff" not in path and "\n" not in path),
    st.sampled_from(["{HOST}", "{HOST}/secret", "../host/file", "evil.tar", "..", "../../.."]),
)
OPTIONS = st.sampled_from(["", "", "", "--chmod=777 ", "--chmod=000 ", "--chmod=6755 "])
INSTRUCTIONS = st.one_of(
    st.builds("COPY {}{} {}".format, OPTIONS, WORDS, WORDS),
    st.builds("COPY {}{} {} {}/".format, OPTIONS, WORDS, WORDS, WORDS),
    st.builds("COPY --from=base {}{} {}".format, OPTIONS, WORDS, WORDS),
    st.builds("ADD {}{} {}".format, OPTIONS, WORDS, WORDS),
    st.builds("COPY {}<<{name} {}\ntext\n{name}".format, OPTIONS, WORDS, name=WORDS),
    st.builds("WORKDIR {}".format, WORDS),
)


def plant(folder: Path, host: Path, files: list[File]) -> None:
    """Create the files of an image's folder; skip files whose paths conflict."""
    for name, kind, target, mode in files:
        place = folder / name.replace("{HOST}", host.name)
        # pathlib raises RuntimeError for a loop of links.
        with suppress(OSError, RuntimeError):
            if not place.parent.resolve().is_relative_to(folder.resolve()):
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            make(place, kind, target.replace("{HOST}", str(host)), mode)


def make(place: Path, kind: str, target: str, mode: int) -> None:
    if kind == "link":
        place.symlink_to(target)
    elif kind == "second name":
        os.link(place.parent / "file", place, follow_symlinks=False)
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
        place.chmod(mode | 0o700)
    elif os.path.lexists(place):
        return
    elif kind == "archive":
        place.write_bytes(archive(target))
    else:
        place.write_text("of the image")
        place.chmod(mode | 0o400)


def archive(target: str) -> bytes:
    """Return an archive with members that point to the target."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as made:
        for name, kind, link in (
            ("a", tarfile.SYMTYPE, target),
            ("a/file", tarfile.REGTYPE, ""),
            (f"{target}/new", tarfile.REGTYPE, ""),
            ("b", tarfile.LNKTYPE, target),
            ("sub", tarfile.DIRTYPE, ""),
            ("sub/file", tarfile.REGTYPE, ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            made.addfile(member)
    return content.getvalue()


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(
    max_examples=BUILDS,
    deadline=None,
    database=None,
    derandomize=True,
    # Shrinking would take longer than all other phases.
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    trees=st.tuples(FILES, FILES, TARGETS),
    instructions=st.lists(INSTRUCTIONS, min_size=1, max_size=5),
)
def test_a_random_hostile_image(
    trees: tuple[list[File], list[File], str],
    instructions: list[str],
    project_store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base, files, packed = trees
    # Without it, each step would print this.
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with TemporaryDirectory(prefix="hostile-") as name:
        place = Path(name)
        host = make_canaries(place / "host")
        folder, store = place / "image", Store(place / "store")
        folder.mkdir()
        store.path.mkdir()
        if project_store.tools.is_dir():
            (store.path / "tools").symlink_to(project_store.tools)
        plant(folder / "base", host, base)
        plant(folder / "good", host, files)
        plant(folder, host, files)
        with suppress(OSError):
            # The planted file may be a pipe without a reader.
            (folder / "evil.tar").unlink(missing_ok=True)
            (folder / "evil.tar").write_bytes(archive(packed.replace("{HOST}", str(host))))
        text = "FROM scratch AS base\nCOPY base* /\nFROM base\nCOPY bas[e] /\n" + "\n".join(
            instructions
        )
        (folder / "Containerfile").write_text(text.replace("{HOST}", str(host)) + "\n")
        before = state(host)
        try:
            build_image(store, folder, place / "image.lock", place / "build.log")
        except ArgosyError as refused:
            assert "\n" not in str(refused)
        finally:
            assert state(host) == before
            assert {path.name for path in place.iterdir()} <= {
                *("host", "image", "store", "image.lock", "build.log")
            }
        assert not holds_secret(store.path)
        assert not [*(store.path / "builds").glob("*")]
        remove_tree(store.path)
        remove_tree(folder)
