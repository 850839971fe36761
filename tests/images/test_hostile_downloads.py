"""ADD of untrusted downloads and archives has limits, and each failure is one line."""

import io
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from argosy_common import disk
from argosy_common.errors import ArgosyError
from argosy_images.builder import archives, downloads
from argosy_images.builder.copying import Copier
from argosy_images.builder.downloads import DownloadError, download
from argosy_images.builder.inputs import Context
from argosy_images.builder.recipe import nothing_known, plan
from argosy_images.containerfile.instructions import Entry
from argosy_images.rootfs.archive import digest_of_layer
from argosy_images.rootfs.layers import Change
from argosy_images.rootfs.rooted import Root

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def _server(answer: Answer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):
                answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/file"
    finally:
        server.shutdown()
        server.server_close()


def _raw(text: bytes) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(text)

    return answer


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.0 404 not\x1b[31m here\r\n\r\n",
    ],
)
def test_a_damaged_answer_is_one_line(text: bytes, tmp_path: Path) -> None:
    with _server(_raw(text)) as url, pytest.raises(DownloadError) as raised:
        download(url, tmp_path / "part")
    assert str(raised.value)
    assert "\n" not in str(raised.value)


FAR = "2130706433"
"""127.0.0.1 as a number: another host unless it is resolved."""


def _redirect(target: str) -> Answer:
    return _raw(f"HTTP/1.0 302 Found\r\nLocation: {target}\r\n\r\n".encode())


HERE = ("127.0.0.1", "localhost", "[::1]", "127.1", "0x7f000001", "0.0.0.0", "[::ffff:127.0.0.1]")


@pytest.mark.parametrize("host", HERE)
def test_a_server_elsewhere_sends_nobody_to_this_machine(tmp_path: Path, host: str) -> None:
    asked: list[str] = []
    with _server(lambda handler: asked.append(handler.path)) as here:
        port = here.split(":")[2].partition("/")[0]
        with _server(_redirect(f"http://{host}:{port}/x")) as url:
            far = url.replace("127.0.0.1", FAR)
            with pytest.raises(DownloadError, match="which is not followed"):
                download(far, tmp_path / "part")
    assert asked == []


def test_a_redirect_to_less_safety_is_not_followed(tmp_path: Path) -> None:
    with (
        _server(_redirect("ftp://127.0.0.1/x")) as url,
        pytest.raises(
            DownloadError, match=r"redirects to ftp://127\.0\.0\.1, which is not followed"
        ),
    ):
        download(url, tmp_path / "part")


def test_other_redirects_are_followed(tmp_path: Path) -> None:
    with _server(_raw(b"HTTP/1.0 200 OK\r\n\r\nfile")) as there:
        for target in (there, there.replace("127.0.0.1", FAR)):
            with _server(_redirect(target)) as url:
                download(url, tmp_path / "part")
            assert (tmp_path / "part").read_bytes() == b"file"
            (tmp_path / "part").unlink()


def test_a_server_that_drips_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
        for _ in range(100):
            handler.wfile.write(b".")
            time.sleep(0.1)

    monkeypatch.setattr(downloads, "TIMEOUT_S", 1)
    begin = time.monotonic()
    with _server(drip) as url, pytest.raises(DownloadError, match="less than"):
        download(url, tmp_path / "part")
    assert time.monotonic() - begin < 8


def test_a_download_leaves_the_disk_its_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "RESERVE", 1 << 60)
    text = b"HTTP/1.0 200 OK\r\n\r\n" + b"a" * 100
    with _server(_raw(text)) as url, pytest.raises(DownloadError, match="do not fit"):
        download(url, tmp_path / "part")


def test_a_file_exchanged_for_a_link_while_it_is_copied_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "image"
    image.mkdir()
    (image / "Containerfile").write_text("FROM base\nCOPY file /file\n")
    (image / "file").write_text("")
    step = plan(image, nothing_known).final.steps[-1]
    find = Context.find

    def exchanged(context: Context, entry: Entry, pattern: str) -> list[Path]:
        found = find(context, entry, pattern)
        (image / "file").unlink()
        (image / "file").symlink_to("/etc/passwd")
        return found

    monkeypatch.setattr(Context, "find", exchanged)
    (tmp_path / "root").mkdir()
    with Root(tmp_path / "root") as root, pytest.raises(ArgosyError, match="lies outside of"):
        Copier(step, root, None, tmp_path / "aside").run()


def _unpack(members: list[tarfile.TarInfo], tmp_path: Path) -> None:
    with (tmp_path / "a.tar").open("w+b") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for member in members:
                tar.addfile(member, io.BytesIO(b"\0" * member.size))
        file.seek(0)
        (tmp_path / "image").mkdir()
        with Root(tmp_path / "image") as root:
            archives.unpack(file, tmp_path / "aside", root, ())
    assert not (tmp_path / "aside").exists()


def test_a_deep_archive_is_refused(tmp_path: Path) -> None:
    deep = [tarfile.TarInfo("/".join("d" * depth)) for depth in range(1, 700)]
    for folder in deep:
        # Folders, since an earlier check rejects deep files.
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
    with pytest.raises(archives.ArchiveError, match="folders deep"):
        _unpack(deep, tmp_path)


def test_an_archive_leaves_the_disk_its_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "RESERVE", 1 << 60)
    large = tarfile.TarInfo("large")
    large.size = 64 << 20
    with pytest.raises(archives.ArchiveError, match="do not fit"):
        _unpack([large], tmp_path)
    assert not (tmp_path / "aside").exists()


def test_a_file_that_would_stand_for_a_removed_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / ".wh.passwd").write_text("")
    with pytest.raises(ArgosyError, match=r"\.wh\.passwd.*rename it"):
        digest_of_layer(tmp_path, Change())
