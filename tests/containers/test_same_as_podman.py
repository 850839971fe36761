"""Ordinary Dockerfiles give the same image as with podman."""

import hashlib
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from podman import Podman, own_podman

from argosy_common.disk import remove_tree
from argosy_images.builder.builder import build_image
from argosy_images.interchange.exporting import export_image
from argosy_images.interchange.importing import import_image
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

BASE = "docker.io/library/debian:bookworm-slim"
pytestmark = [
    pytest.mark.container,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not shutil.which("podman"), reason="no podman"),
]

APPLICATION = f"""FROM {BASE}
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN apt-get update \\
    && apt-get install --yes --no-install-recommends python3-minimal \\
    && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY requirements.txt .
COPY . .
RUN python3 -c "print(6 * 7)" > answer && chmod 640 answer
EXPOSE 8000
USER nobody
CMD ["python3", "main.py"]
"""

COMPILED = f"""ARG SUITE=bookworm-slim
FROM docker.io/library/debian:${{SUITE}} AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
WORKDIR /src
COPY hello.c .
RUN gcc -O2 -static -o /hello hello.c && strip /hello && rm -rf /src/*
FROM {BASE} AS unneeded
RUN exit 1
FROM scratch
COPY --from=build /hello /bin/
COPY --from=build /etc/os-release /etc/
ENTRYPOINT ["/bin/hello"]
CMD ["world"]
"""

SERVICE = f"""FROM {BASE}
LABEL maintainer="somebody" org.opencontainers.image.title="A service"
ARG UID=1500
RUN groupadd --gid $UID service && useradd --uid $UID --gid service --create-home service \\
    && mkdir -p /var/lib/service/data && chown -R service:service /var/lib/service \\
    && chmod 2770 /var/lib/service/data && cp /bin/ls /usr/local/bin/as-owner \\
    && chown service /usr/local/bin/as-owner && chmod u+s /usr/local/bin/as-owner
COPY --chmod=755 --chown=service:service entrypoint.sh /usr/local/bin/
VOLUME /var/lib/service/data
STOPSIGNAL SIGQUIT
ENTRYPOINT ["entrypoint.sh"]
"""

CLUSTER = f"""FROM {BASE}
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN apt-get update && apt-get install -y --no-install-recommends openssh-client dbus \\
    # Comments between continued lines are left out.
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/lib/dbus/machine-id /etc/machine-id
ARG STRICT=no
RUN sed -i "s/#   StrictHostKeyChecking ask/    StrictHostKeyChecking ${{STRICT:-ask}}/" \\
    /etc/ssh/ssh_config | cat
ENV PREFIX=/opt/tool \\
    OTHER='single $PREFIX'
ENV PATH="$PREFIX/bin:$PATH" GREETING=hello\\ there
RUN mkdir -p "$PREFIX/bin" && ln -s /usr/bin/ssh "$PREFIX/bin/remote"
CMD ["remote", "-V"]
"""

FILES = f"""FROM {BASE}
WORKDIR /srv
WORKDIR files
ADD bundle.tar.gz ./unpacked/
COPY bundle.tar.gz data/*.csv data/[a-b]?.txt ./
COPY data/ nested/deeper/
COPY ["with space.txt", "/srv/with space/"]
COPY --chmod=0600 link /srv/from-link
RUN rm -r /srv/files/nested/deeper/sub && mkdir /srv/files/nested/deeper/sub \\
    && rm /etc/motd && mv /etc/issue /etc/issue.old && touch -d 2001-01-01 /srv/old
RUN rm -rf /usr/share/doc /srv/old && ln -s /srv/files /latest && mkfifo /srv/pipe
"""

DATA_ONLY = """FROM scratch AS data
COPY data /data
FROM scratch
COPY --from=data /data/sub /only/sub/
COPY --from=0 /data/one.csv /renamed.csv
ADD --chmod=444 requirements.txt /
LABEL a="1" b="two words"
"""

ORDINARY = {
    "application": APPLICATION,
    "compiled": COMPILED,
    "service": SERVICE,
    "cluster": CLUSTER,
    "files": FILES,
    "data-only": DATA_ONLY,
}

OWN_TIMES = (
    *("var/log/", "var/cache/apt/", "var/cache/ldconfig/", "var/cache/debconf/"),
    *("var/lib/apt/lists/", "etc/passwd-"),
)
"""Files that depend on time or chance; only path and mode are compared."""

OF_THE_FREEZING = (
    "argosy", "data", "dev", "job", "proc", "sys", "tmp", "run", "workloads", "etc/hosts",
    "etc/resolv.conf", "run/argosy", ".bind_host_files", "etc",
)  # fmt: skip
"""Mount points of frozen trees, and podman's leftovers in images."""


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    with own_podman("overlay") as own:
        yield own


@pytest.fixture
def with_base(store: Store, podman: Podman, tmp_path: Path) -> Store:
    """Return the store, after podman got the same base."""
    if podman("images", "--quiet"):
        return store
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "Containerfile").write_text(f"FROM {BASE}\n")
    lock = build_image(store, folder, tmp_path / "base.lock", tmp_path / "log")
    export_image(store, lock, tmp_path / "base.tar")
    podman("load", "--input", tmp_path / "base.tar")
    podman("tag", podman("images", "--quiet").split()[0], BASE)
    return store


def fill(folder: Path) -> None:
    """Make the files that the Dockerfiles copy."""
    (folder / "data/sub").mkdir(parents=True)
    for name in ("requirements.txt", "main.py", "data/one.csv", "data/two.csv", "data/a1.txt"):
        (folder / name).write_text(f"this is {name}\n")
    for name in ("data/c1.txt", "data/sub/inner", "with space.txt", "secret.env", "keep.env"):
        (folder / name).write_text(f"this is {name}\n")
    (folder / "data/sub/inner").chmod(0o400)
    (folder / "data/link").symlink_to("one.csv")
    (folder / "link").symlink_to("data/two.csv")
    (folder / "entrypoint.sh").write_text('#!/bin/sh\nexec "$@"\n')
    (folder / "hello.c").write_text('#include <stdio.h>\nint main(void) { puts("hello"); }\n')
    (folder / ".dockerignore").write_text(
        "*.env\n!keep.env\n**/c?.txt\n.dockerignore\nDockerfile\n"
    )
    with tarfile.open(folder / "bundle.tar.gz", "w:gz") as archive:
        for name, mode in (("a/b/run", 0o755), ("a/readme", 0o640)):
            member = tarfile.TarInfo(name)
            member.size, member.mode = 4, mode
            archive.addfile(member, BytesIO(b"text"))


def listing(root: Path) -> dict[str, tuple[str, str]]:
    """Map each path to its mode, and its content or target."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder) / name
            relative = str(path.relative_to(root))
            found[relative] = (
                _mode(path),
                "" if relative.startswith(OWN_TIMES) else _content(path),
            )
    return {path: each for path, each in found.items() if path not in OF_THE_FREEZING}


def _mode(path: Path) -> str:
    mode = path.lstat().st_mode
    # Folders of frozen trees are read-only, so their write permission is not compared.
    return stat.filemode(mode & ~0o222 if stat.S_ISDIR(mode) else mode)


def _content(path: Path) -> str:
    if path.is_symlink():
        return str(path.readlink())
    if not path.is_file():
        return ""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def by_podman(podman: Podman, folder: Path, tmp_path: Path) -> tuple[Store, ImageLock]:
    """Build by podman and import the result."""
    options = ["--isolation", "chroot", "--network", "host", "--tag", "theirs"]
    # The OCI format has no SHELL, in images and archives.
    podman("build", "--format", "docker", *options, folder)
    podman("save", "--format", "docker-archive", "-o", tmp_path / "theirs.tar", "theirs")
    other = Store(tmp_path / "their store")
    return other, import_image(other, tmp_path / "their project", tmp_path / "theirs.tar", "theirs")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ORDINARY)
def test_the_same_files_modes_and_configuration(
    name: str, with_base: Store, podman: Podman, tmp_path: Path
) -> None:
    folder = tmp_path / "image"
    fill(folder)
    (folder / "Dockerfile").write_text(ORDINARY[name])
    own = build_image(with_base, folder, tmp_path / "image.lock", tmp_path / "build.log")
    other, theirs = by_podman(podman, folder, tmp_path)

    ours, expected = listing(with_base.root(own.digest)), listing(other.root(theirs.digest))
    assert sorted(set(ours) ^ set(expected)) == []
    assert {
        path: (ours[path], expected[path]) for path in ours if ours[path] != expected[path]
    } == {}
    # buildah writes its own name and version into the labels.
    labels = {k: v for k, v in theirs.config.labels.items() if k != "io.buildah.version"}
    expected_config = theirs.config.model_copy(update={"labels": labels})
    assert own.config.model_dump() == expected_config.model_dump()
    remove_tree(other.path)
