"""FROM a real registry on loopback: Debian's docker-registry, filled by skopeo."""

import gzip
import hashlib
import json
import platform
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from argosy.images import tools
from argosy.images.archive import layer_tar
from argosy.images.build.builder import build_image
from argosy.images.layers import read_overlay
from argosy.images.store import Store

pytestmark = pytest.mark.udocker


@contextmanager
def registry(store: Store, folder: Path) -> Iterator[str]:
    """A registry with its data in `folder`; gives its HOST:PORT."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": address},
    }
    (folder / "registry.json").write_text(json.dumps(settings))
    program = tools.require(store, "docker-registry", print)
    with (folder / "registry.log").open("wb") as log:
        server = subprocess.Popen(
            [program, "serve", folder / "registry.json"],
            env=tools.environment(store),
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(address)
        yield address
    finally:
        server.terminate()
        server.wait()


def wait_for(address: str) -> None:
    host, _, port = address.partition(":")
    for _ in range(100):
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"nobody listens on {address}")


def oci_layout(folder: Path, layer: Path) -> Path:
    """An OCI image layout of one layer, with an environment of its own."""
    blobs = folder / "oci" / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(content: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {
            "mediaType": f"application/vnd.oci.image.{kind}",
            "digest": f"sha256:{digest}",
            "size": len(content),
        }

    data = layer.read_bytes()
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
        "os": "linux",
        "config": {"Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "FROM_THE_BASE=yes it is"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(data).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(config).encode(), "config.v1+json"),
        "layers": [blob(gzip.compress(data, 1), "layer.v1.tar+gzip")],
    }
    entry = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    index = {"schemaVersion": 2, "manifests": [entry]}
    (folder / "oci" / "index.json").write_text(json.dumps(index))
    (folder / "oci" / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder / "oci"


def test_a_base_is_pulled_and_built_upon(
    store: Store, project_store: Store, base_layer: tuple[str, Path], tmp_path: Path
) -> None:
    diff, layer = base_layer[1] / "diff", tmp_path / "layer.tar"
    with layer_tar(diff, read_overlay(diff)) as stream:
        layer.write_bytes(stream.read())
    layout = oci_layout(tmp_path, layer)
    auth = tmp_path / "auth.json"
    auth.write_text("{}")
    skopeo = tools.require(project_store, "skopeo", print)
    with registry(project_store, tmp_path) as address:
        reference = f"{address}/library/debian:test"
        command = [skopeo, "--insecure-policy", "copy", "--dest-tls-verify=false"]
        subprocess.run(
            [*command, f"oci:{layout}", f"docker://{reference}"],
            # Its own place for logins may be somebody else's.
            env={**tools.environment(project_store), "REGISTRY_AUTH_FILE": str(auth)},
            check=True,
        )
        folder = tmp_path / "image"
        folder.mkdir()
        (folder / "Containerfile").write_text(
            f'FROM {reference}\nENV MORE=1\nRUN echo "$FROM_THE_BASE" > /said && id joe || useradd joe\n'
        )
        lock = build_image(store, folder, folder / "image.lock", folder / "build.log")
    assert (lock.base.source, lock.base.reference) == ("registry", reference)
    assert lock.config.environment["FROM_THE_BASE"] == "yes it is"
    assert lock.config.environment["MORE"] == "1"
    root = store.root(lock.digest)
    assert (root / "said").read_text() == "yes it is\n"
    assert (root / "etc/debian_version").exists()
    assert list((store.udocker / "containers").iterdir()) == []
