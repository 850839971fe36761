"""RUN steps of hostile images, in real containers, cannot reach the host."""

from pathlib import Path

import pytest
from canaries import holds_secret, make_canaries, state
from image_programs import BASE, built

from argosy_common.errors import ArgosyError
from argosy_images.store.store import Store

pytestmark = pytest.mark.container


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return make_canaries(tmp_path / "host")


def test_what_a_step_leaves_leads_nowhere(store: Store, tmp_path: Path, host: Path) -> None:
    folder = tmp_path / "image"
    (folder / "good").mkdir(parents=True)
    (folder / "good/f").write_text("of the image")
    before = state(host)
    # Mount points are removed after a step, which has replaced them by links.
    text = f"""{BASE} AS evil
RUN mkdir -p /t/d && ln -s {host} /t/d/sub && ln -s {host}/secret /x1 && ln -s {host} /x2 \\
    && ln -s ../../../../../../../../../../..{host} /up && mkfifo /pipe \\
    && mkdir -p {host}/folder && echo of the stage > {host}/secret
{BASE}
RUN --mount=target=/m/empty-folder,source=good --mount=target=/m/empty-file,source=good/f \\
    --mount=target=/m/folder/inner/new,type=tmpfs \\
    mv /m /n && ln -s {host} /m
RUN ln -s {host} /app && ln -s /app/folder /chain && ln -s {host}/file /file
RUN rm -r /root && ln -s {host} /root
RUN --mount=target=/app/inner,type=cache --mount=target=/chain/f,source=good/f true
RUN --mount=from=evil,source=/x1,target=/stolen cat /stolen > /loot
RUN --mount=from=evil,source=/up,target=/stolen,rw cp -r /stolen /loot2
WORKDIR /chain/new
COPY --from=evil /t/ /app/
COPY --from=evil /x* /up/* /loot3/
COPY good/ /app/
COPY <<file <<secret /app/
a here-document
file
another
secret
"""
    try:
        lock = built(store, folder, text)
    finally:
        assert state(host) == before
    for place in ("layers", "roots", "cache"):
        assert not holds_secret(store.path / place)
    root = store.root(lock.digest)
    for path in ("loot", "loot2/secret", "loot3/x1"):
        assert (root / path).read_text() == "of the stage\n"
    assert (root / str(host)[1:] / "file").read_text() == "a here-document\n"


@pytest.mark.parametrize("name", ["d", "d" * 200], ids=["short names", "long names"])
def test_folders_without_an_end_are_refused_and_taken_away(
    store: Store, tmp_path: Path, name: str
) -> None:
    """1,500 levels exceed Python's recursion limit; names of 200 characters exceed the longest path."""
    step = f"RUN i=0; while [ $i -lt 1500 ]; do mkdir {name} && cd {name}; i=$((i+1)); done"
    with pytest.raises(ArgosyError, match=r"Containerfile:2: RUN: d.*…: .*folders deep"):
        built(store, tmp_path / "image", f"{BASE}\n{step}\n")
    assert list((store.path / "builds").iterdir()) == []


def test_a_pipe_that_would_be_waited_for_is_refused(store: Store, tmp_path: Path) -> None:
    text = f"{BASE}\nRUN rm /etc/passwd && mkfifo /etc/passwd\nRUN true\n"
    with pytest.raises(ArgosyError, match=r"Containerfile:3: RUN: passwd: not a regular file"):
        built(store, tmp_path / "image", text)


def test_images_share_no_cache_and_change_nothing_of_the_host(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = make_canaries(tmp_path / "wheels")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    text = f"""{BASE}
RUN --mount=type=cache,target=/cache,id=shared echo $NAME >> /cache/x && cat /cache/x > /cached \\
    && echo $NAME >> $PIP_CACHE_DIR/x && cat $PIP_CACHE_DIR/x > /pip
RUN ! touch $PIP_FIND_LINKS/new && ! echo x >> $PIP_FIND_LINKS/file && ! rm $PIP_FIND_LINKS/file \\
    && ! echo x >> $APT_CONFIG
"""
    before = state(wheels)
    # The second build of an image finds what the first one left.
    for name, expected in (("one", "one\n"), ("two", "two\n"), ("one", "one\none\n")):
        again = f"ARG NAME={name}\nARG AGAIN={len(expected)}\nRUN"
        lock = built(store, tmp_path / name, text.replace("RUN", again, 1))
        root = store.root(lock.digest)
        assert [(root / each).read_text() for each in ("cached", "pip")] == [expected] * 2
    assert state(wheels) == before


def test_a_shared_step_holds_nothing_of_another_image_s_caches(
    store: Store, tmp_path: Path
) -> None:
    step = """RUN --mount=type=cache,target=/cache,id=shared \\
    { cat /cache/x; cat $PIP_CACHE_DIR/x; env | grep -c PIP_CACHE_DIR; } > /got 2>/dev/null || true
"""
    evil = """RUN --mount=type=cache,target=/cache,id=shared \\
    echo evil > /cache/x && echo evil > $PIP_CACHE_DIR/x
RUN env | grep _NO_CACHE_DIR=1 && ! env | grep CACHE_DIR=/dev
"""
    evil = f"{BASE} AS same\n{step}{BASE}\n{evil}COPY --from=same /got /got\n"
    built(store, tmp_path / "evil", evil)
    lock = built(store, tmp_path / "own", f"{BASE}\n{step}")
    assert (store.root(lock.digest) / "got").read_text() == "1\n"
