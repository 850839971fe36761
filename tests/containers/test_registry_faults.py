"""A registry or proxy that fails during a pull."""

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from registries import (
    Answer,
    Layout,
    Request,
    ask,
    between,
    no_logins,
    push,
    registry,
    serving,
    tar_of,
)

from argosy_common import disk
from argosy_common.errors import ArgosyError
from argosy_images.registry.client import Client
from argosy_images.registry.pulling import Pulled, pull
from argosy_images.registry.reference import Reference
from argosy_images.registry.retry import PassingError, Patience
from argosy_images.store.store import Store

pytestmark = pytest.mark.container

SIZE = 3_000_000
LITTLE = 900_000
"""Bytes too few to count as progress, which would allow more retries."""
QUICK = (0.01, 0.02, 0.04)


@pytest.fixture(scope="module")
def image(project_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a registry with `team/tool:1`, which has a large and a small layer."""
    folder = tmp_path_factory.mktemp("registry")
    layout = Layout(folder / "layout")
    content = random.Random(1).randbytes(SIZE)
    layout.finish(layout.image(tar_of({"big": content}), tar_of({"small": b"x"})))
    with registry(project_store, folder / "registry") as address:
        push(project_store, layout.folder, f"{address}/team/tool:1")
        yield address


class Puller:
    """Pulls through a proxy into a private store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(folder / "store")
        self.count = 0
        self.said: list[str] = []

    def __call__(self, address: str, pauses: tuple[float, ...] = QUICK) -> Pulled:
        self.count += 1
        client = Client(Reference.parse(f"{address}/team/tool:1"), Patience(pauses), read_s=10.0)
        return pull(self.store, client, self.folder / f"pulled-{self.count}", self.said.append)

    def refused(self, image: str, spoil: "Spoil", why: str) -> list[Request]:
        """Pull with spoilt responses; check the error, and return the requests."""
        with between(image, spoil) as front, pytest.raises(ArgosyError, match=why):
            self(front.address)
        return front.requests

    @property
    def parts(self) -> list[Path]:
        return sorted(self.store.blobs.glob("*.part"))

    @property
    def whole(self) -> list[Path]:
        return [path for path in sorted(self.store.blobs.iterdir()) if not path.suffix]


@pytest.fixture
def puller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Puller:
    monkeypatch.setenv("REGISTRY_AUTH_FILE", no_logins(tmp_path)["REGISTRY_AUTH_FILE"])
    return Puller(tmp_path)


def complete(pulled: Pulled) -> bool:
    """Return whether all blobs exist and match their digests."""
    blobs = pulled.folder / "blobs" / "sha256"
    sums = "".join(f"{path.name}  {path.name}\n" for path in blobs.iterdir())
    done = subprocess.run(["sha256sum", "--check", "--quiet"], cwd=blobs, input=sums, text=True)
    return done.returncode == 0 and len(list(blobs.iterdir())) == 4


def is_big(request: Request, answer: Answer) -> bool:
    """Return whether the response has the large layer or a part of it."""
    return "/blobs/" in request.path and (len(answer.body) > 100_000 or "Range" in request.headers)


def ranges(requests: list[Request]) -> list[str]:
    return [one.headers["Range"] for one in requests if "Range" in one.headers]


def cut(answer: Answer, end: int) -> Answer:
    return Answer(answer.status, answer.headers, answer.body[:end], len(answer.body))


Ask = Callable[[], Answer]
Spoil = Callable[[Request, int, Ask], Answer]


def test_what_fails_twice_is_asked_a_third_time(image: str, puller: Puller) -> None:
    def spoil(request: Request, number: int, ask: Ask) -> Answer:
        return Answer(500) if number <= 2 else ask()

    with between(image, spoil) as front:
        assert complete(puller(front.address))
    assert len(front.asked("/manifests/1")) == 3
    assert {len(front.asked(path.name)) for path in puller.whole} == {3}


@pytest.mark.parametrize("part", ["/manifests/", "/blobs/"])
def test_what_fails_for_ever_is_given_up_and_said(image: str, puller: Puller, part: str) -> None:
    def spoil(request: Request, number: int, ask: Ask) -> Answer:
        return Answer(503) if part in request.path else ask()

    puller.refused(image, spoil, r"cannot answer now \(HTTP 503\) \(tried 4 times\)$")


def test_a_registry_may_ask_for_a_pause(image: str, puller: Puller) -> None:
    def spoil(request: Request, number: int, ask: Ask) -> Answer:
        busy = "/manifests/" in request.path and number == 1
        return Answer(429, {"Retry-After": "1"}) if busy else ask()

    with between(image, spoil) as front:
        began = time.monotonic()
        assert complete(puller(front.address))
        assert time.monotonic() - began >= 1

    def never(request: Request, number: int, ask: Ask) -> Answer:
        return Answer(429, {"Retry-After": "3600"})

    assert len(puller.refused(image, never, r"asks to wait 3600 s\)$")) == 1


def test_a_layer_that_is_cut_off_goes_on_where_it_ended(image: str, puller: Puller) -> None:
    def spoil(request: Request, number: int, ask: Ask) -> Answer:
        answer = ask()
        return cut(answer, SIZE // 3) if is_big(request, answer) and number <= 2 else answer

    with between(image, spoil) as front:
        assert complete(puller(front.address))
    third = SIZE // 3
    assert ranges(front.requests) == [f"bytes={third}-", f"bytes={2 * third}-"]


def test_stopping_while_an_answer_comes_to_its_end_is_no_error(image: str, puller: Puller) -> None:
    pulled = puller(image)
    digest = max(
        (pulled.folder / "blobs" / "sha256").iterdir(), key=lambda blob: blob.stat().st_size
    )
    client = Client(Reference.parse(f"{image}/team/tool:1"))
    with client.blob(f"sha256:{digest.name}", 0) as response:
        assert len(response.raw.read()) > SIZE
        client.stop()
        response.close()
        client.stop()
    assert client.patience.stop.is_set()


def cut_once(request: Request, number: int, ask: Ask) -> Answer:
    """Cut off the first answer with the large layer, and refuse the later ones."""
    answer = ask()
    if not is_big(request, answer):
        return answer
    return cut(answer, LITTLE) if number == 1 else Answer(500)


def test_the_next_pull_goes_on_as_well(image: str, puller: Puller) -> None:
    with between(image, cut_once) as front, pytest.raises(PassingError):
        puller(front.address, pauses=())
    part = max(puller.parts, key=lambda path: path.stat().st_size)
    assert part.stat().st_size == LITTLE
    assert part.stat().st_mode & 0o077 == 0
    with between(image, lambda request, number, ask: ask()) as front:
        pulled = puller(front.address)
        assert complete(pulled)
    assert ranges(front.requests) == [f"bytes={LITTLE}-"]
    assert puller.parts == []
    pulled.forget_downloads()
    assert puller.whole == []
    assert complete(pulled)


def test_a_registry_without_ranges_gives_all_of_it_again(image: str, puller: Puller) -> None:
    def spoil(request: Request, number: int, ask: Ask) -> Answer:
        request.headers = {k: v for k, v in request.headers.items() if k != "Range"}
        answer = ask()
        return cut(answer, SIZE // 2) if is_big(request, answer) and number == 1 else answer

    with between(image, spoil) as front:
        assert complete(puller(front.address))


def test_a_range_that_is_another_one_is_not_used(image: str, puller: Puller) -> None:
    def spoil(request: Request, number: int, ask: Ask) -> Answer:
        answer = ask()
        if is_big(request, answer) and number == 1:
            return cut(answer, SIZE // 2)
        if answer.status == 206 and number == 2:
            answer.headers["Content-Range"] = "bytes 0-9/10"
        return answer

    with between(image, spoil) as front:
        assert complete(puller(front.address))


def test_a_layer_of_other_bytes_is_fetched_once_more_and_then_refused(
    image: str, puller: Puller
) -> None:
    def spoil(request: Request, number: int, ask: Ask) -> Answer:
        answer = ask()
        if is_big(request, answer) and number <= times:
            answer.body = answer.body[:-1] + bytes([answer.body[-1] ^ 1])
        return answer

    times = 1
    with between(image, spoil) as front:
        assert complete(puller(front.address))
    big = max(puller.whole, key=lambda path: path.stat().st_size).name
    for path in puller.whole:
        path.unlink()
    times = 99
    puller.refused(image, spoil, r"digest mismatch \(twice\)")
    # Downloads of small blobs are stopped at any point, and may leave parts.
    assert big not in {path.stem for path in puller.parts}
    assert big not in {path.name for path in puller.whole}


def test_a_layer_that_is_too_short_or_too_long_is_refused(image: str, puller: Puller) -> None:
    def short(request: Request, number: int, ask: Ask) -> Answer:
        if "Range" in request.headers:
            return Answer(416)
        answer = ask()
        if is_big(request, answer):
            answer.body = answer.body[:-10]
        return answer

    puller.refused(image, short, r"(the registry sent less|bytes are missing).*tried")

    def long(request: Request, number: int, ask: Ask) -> Answer:
        answer = ask()
        if "/blobs/" in request.path:
            answer.body += b"more"
        return answer

    for path in [*puller.parts, *puller.whole]:
        path.unlink()
    puller.refused(image, long, "sends more than its")


@pytest.mark.parametrize("status", [401, 403, 404])
def test_an_address_of_a_download_that_is_no_longer_valid_is_asked_for_again(
    image: str, puller: Puller, status: int
) -> None:
    """Registries redirect to addresses that are valid for minutes, and a slow pull outlasts them."""
    times = 1
    begins = {"WWW-Authenticate": 'Basic realm="elsewhere"'}

    def store(request: Request, number: int) -> Answer:
        assert "Authorization" not in request.headers
        is_refused = "/blobs/" in request.path and number <= times
        return Answer(status, begins) if is_refused else ask(image, request)

    with serving(store) as elsewhere:

        def spoil(request: Request, number: int, ask: Ask) -> Answer:
            there = {"Location": f"http://{elsewhere.address}{request.path}"}
            return Answer(307, there) if "/blobs/" in request.path else ask()

        with between(image, spoil) as front:
            assert complete(puller(front.address))
        times = 99
        for path in puller.whole:
            path.unlink()
        why = rf"{elsewhere.address}, to which .* redirects: refuses the download \(HTTP {status}\)"
        puller.refused(image, spoil, why)


def test_a_slow_layer_is_told_of_and_kept_as_it_comes(image: str, puller: Puller) -> None:
    """A few bytes at a time are written, and counted in messages, before the connection ends."""
    parts: list[int] = []

    def spoil(request: Request, number: int, ask: Ask) -> Answer:
        answer = ask()
        if not is_big(request, answer) or number > 1:
            return answer
        answer = cut(answer, 1000)
        answer.silence = 2
        threading.Thread(target=watch, daemon=True).start()
        return answer

    def watch() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and not parts:
            parts.extend(
                path.stat().st_size for path in puller.parts if path.stat().st_size == 1000
            )
            time.sleep(0.05)

    with between(image, spoil) as front:
        assert complete(puller(front.address))
    assert parts == [1000]


def test_a_missing_blob_is_named(image: str, puller: Puller) -> None:
    def spoil(request: Request, number: int, ask: Ask) -> Answer:
        return Answer(404) if "/blobs/" in request.path else ask()

    puller.refused(image, spoil, "does not have it: a part of it")


def test_a_damaged_download_of_an_earlier_pull_is_not_used(image: str, puller: Puller) -> None:
    puller(image)
    for path in puller.whole:
        path.write_bytes(bytes(path.stat().st_size))
    assert complete(puller(image))
    part = max(puller.whole, key=lambda path: path.stat().st_size)
    part.rename(f"{part}.part")
    (part.with_name(f"{part.name}.part")).write_bytes(bytes(SIZE // 2))
    assert complete(puller(image))


def test_progress_is_told_now_and_then(
    image: str, puller: Puller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("argosy_images.interchange.streams.SAY_EVERY_S", 0.0)
    puller(image)
    assert ": 2 layers, 2.86 MiB" in puller.said[0]
    assert any(
        "of 3 files complete, " in line and " of 2.86 MiB received" in line for line in puller.said
    )
    monkeypatch.undo()


def test_an_image_that_does_not_fit_is_refused_before_it_is_downloaded(
    image: str, puller: Puller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "RESERVE", 1 << 60)
    why = r"team/tool.*: 2\.86 MiB do not fit: .* are free"
    requests = puller.refused(image, lambda request, number, ask: ask(), why)
    # Only the configuration may have been read before.
    assert sum("/blobs/" in request.path for request in requests) <= 1
    assert puller.whole == puller.parts == []


def test_only_what_is_still_missing_has_to_fit(
    image: str, puller: Puller, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        "argosy_images.registry.pulling.why_no_room", lambda _, size: asked.append(size) or ""
    )

    with between(image, cut_once) as front, pytest.raises(PassingError):
        puller(front.address)
    [part] = puller.parts
    here = part.stat().st_size + sum(path.stat().st_size for path in puller.whole)
    puller(image)
    puller(image)
    whole, rest, nothing = asked
    assert whole > SIZE and nothing == 0
    assert rest == whole - here


ON_A_DISK_THAT_OTHERS_FILL = """
mount -t tmpfs -o size=300m none "$1" && cd "$1/.." || exit 1
{ until [ -e requested ]; do sleep 0.05; done; fallocate -l 298m "$1/ballast"; touch filled; } &
{ "$2" -m argosy.cli image import "docker://$3" tool 2> first; echo $? >> first
  rm "$1/ballast"
  ls -s --block-size=1 "$1/store/cache/blobs" > between
  "$2" -m argosy.cli image import "docker://$3" tool 2> second; echo $? >> second; }
"""


def test_a_full_disk_is_said_and_the_next_try_goes_on(image: str, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()

    def wait(request: Request, number: int, ask: Ask) -> Answer:
        answer = ask()
        if is_big(request, answer):
            (tmp_path / "requested").touch()
            end = time.monotonic() + 60
            while not (tmp_path / "filled").exists() and time.monotonic() < end:
                time.sleep(0.05)
        return answer

    with between(image, wait) as front:
        script = ON_A_DISK_THAT_OTHERS_FILL
        reference = f"{front.address}/team/tool:1"
        done = subprocess.run(
            ["unshare", "-rm", "sh", "-c", script, "sh", disk, sys.executable, reference],
            env={**no_logins(tmp_path), "ARGOSY_STORE": str(disk / "store")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    first, second = ((tmp_path / name).read_text() for name in ("first", "second"))
    assert (
        "No space left on device\nhint: free space and run again: the received part is kept\n2\n"
        in first
    )
    assert ".part" in (tmp_path / "between").read_text()
    [resumed] = ranges(front.requests)
    assert int(resumed.removeprefix("bytes=").removesuffix("-")) > 1_000_000
    assert second.endswith("\n0\n"), second


def test_ctrl_c_ends_a_pull_at_once_whatever_it_waits_for(image: str, tmp_path: Path) -> None:
    def spoil(request: Request, number: int, ask: Ask) -> Answer:
        answer = ask()
        if is_big(request, answer):
            answer = cut(answer, LITTLE)
            answer.silence = 50
        return answer

    with between(image, spoil) as front:
        reference = f"docker://{front.address}/team/tool:1"
        pull = subprocess.Popen(
            [sys.executable, "-m", "argosy.cli", "image", "import", reference, "tool"],
            env={**no_logins(tmp_path), "ARGOSY_STORE": str(tmp_path / "store")},
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        parts = tmp_path / "store" / "cache" / "blobs"
        end = time.monotonic() + 60
        while not any(path.stat().st_size > LITTLE // 2 for path in parts.glob("*.part")):
            assert time.monotonic() < end
            time.sleep(0.05)
        pull.send_signal(signal.SIGINT)
        _, said = pull.communicate(timeout=20)
    assert pull.returncode != 0
    assert "Traceback" not in said
    assert max(path.stat().st_size for path in parts.glob("*.part")) > LITTLE // 2
    assert list((tmp_path / "store" / "builds").iterdir()) == []
