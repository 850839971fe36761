"""The choice of an image from an index, and rejected manifests."""

import json
import re
from typing import Any

import pytest
from registries import OCI, Answer, Request, digest_of, serving

from argosy_common.errors import ArgosyError
from argosy_images.oci import architecture
from argosy_images.registry.client import Client
from argosy_images.registry.manifests import (
    DOCKER_LIST_TYPE,
    DOCKER_MANIFEST_TYPE,
    Contents,
    read_contents,
)
from argosy_images.registry.reference import Reference
from argosy_images.registry.retry import Patience

LAYER = {"mediaType": f"{OCI}.layer.v1.tar", "digest": digest_of(b"layer"), "size": 5}
CONFIG = {"mediaType": f"{OCI}.config.v1+json", "digest": digest_of(b"{}"), "size": 2}
MANIFEST = {"schemaVersion": 2, "config": CONFIG, "layers": [LAYER, LAYER]}


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    path = tmp_path / "auth.json"
    path.write_text("{}")
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(path))


def contents(
    documents: dict[str, tuple[bytes, str]], wanted: str = ":1", **headers: str
) -> Contents:
    """Read an image from a registry with these documents, by tag or digest."""

    def answer(request: Request, _: int) -> Answer:
        assert request.path.startswith("/v2/a/b/manifests/")
        content, kind = documents[request.path.rpartition("/")[2]]
        return Answer(200, {"Content-Type": kind, **headers}, content)

    with serving(answer) as server:
        reference = Reference.parse(f"{server.address}/a/b{wanted}")
        return read_contents(Client(reference, Patience(())))


def document(value: Any, kind: str = f"{OCI}.manifest.v1+json") -> tuple[bytes, str]:
    return json.dumps(value).encode(), kind


def entry(content: bytes, machine: str, system: str = "linux") -> dict[str, Any]:
    platform = {"os": system, "architecture": machine}
    return {"digest": digest_of(content), "size": len(content), "platform": platform}


@pytest.mark.parametrize(
    ("kind", "is_read"),
    [
        ("", True),
        (f"{OCI}.layer.v1.tar+zstd", True),
        (f"{OCI}.layer.nondistributable.v1.tar+gzip", True),
        ("application/vnd.docker.image.rootfs.diff.tar.gzip", True),
        ("application/vnd.docker.container.image.rootfs.diff+x-gtar", True),
        (f"{OCI}.layer.v1.tar+gzip+encrypted", False),
        ("application/vnd.sylabs.image.layer.v1.squashfs", False),
        ("application/vnd.in-toto+json", False),
    ],
)
def test_layers_that_are_no_readable_tar_are_refused_by_their_type(
    kind: str, is_read: bool
) -> None:
    found = document({**MANIFEST, "layers": [LAYER, {**LAYER, "mediaType": kind}]})
    if is_read:
        assert contents({"1": found})
    else:
        with pytest.raises(ArgosyError, match=rf"a layer of type {re.escape(kind)} cannot be"):
            contents({"1": found})


@pytest.mark.parametrize("kind", [f"{OCI}.index.v1+json", DOCKER_LIST_TYPE])
def test_the_one_for_this_machine_is_chosen_and_the_index_pinned(kind: str) -> None:
    mine, mine_kind = document(MANIFEST, DOCKER_MANIFEST_TYPE)
    other, _ = document({**MANIFEST, "layers": []})
    entries = [
        entry(other, "s390x"),
        entry(other, architecture(), "windows"),
        entry(other, "unknown", "unknown"),
        entry(mine, architecture()),
    ]
    index = document({"schemaVersion": 2, "manifests": entries}, kind)
    found = contents({"1": index, digest_of(mine): (mine, mine_kind)})
    assert (found.reference.tag, found.reference.digest) == ("1", digest_of(index[0]))
    assert (found.manifest, found.kind) == (mine, DOCKER_MANIFEST_TYPE)
    # A layer that occurs twice is listed once.
    assert [blob.digest for blob in found.blobs] == [CONFIG["digest"], LAYER["digest"]]


def test_the_variant_that_all_nodes_run_is_chosen() -> None:
    mine, kind = document(MANIFEST)
    other = document({**MANIFEST, "layers": []})[0]

    def chosen(*entries: dict[str, Any]) -> bytes:
        index = document({"manifests": entries})
        return contents({"1": index, digest_of(mine): (mine, kind)}).manifest

    newer = [variant(entry(other, architecture()), each) for each in ("v4", "v3")]
    baseline = {"amd64": "v1"}.get(architecture(), "v8")
    alias = {"amd64": "x86_64"}.get(architecture(), "aarch64")
    artifact = {**entry(other, architecture()), "artifactType": "application/spdx+json"}
    bare = {"digest": digest_of(mine), "size": len(mine)}
    assert chosen(*newer, entry(mine, architecture())) == mine
    assert chosen(*newer, variant(entry(mine, alias, "Linux"), baseline)) == mine
    assert (
        chosen(artifact, {**bare, "digest": digest_of(other)}, entry(mine, architecture())) == mine
    )
    assert chosen(artifact, *newer, bare, {**bare, "digest": digest_of(other)}) == mine
    own = f"linux/{architecture()}"
    with pytest.raises(ArgosyError, match=f"not available for every {own}") as problem:
        chosen(artifact, *newer)
    assert f"{own}/v3, {own}/v4; if all nodes can run a variant" in str(problem.value)
    assert f"/a/b@{digest_of(other)}" in str(problem.value)


def variant(one: dict[str, Any], name: str) -> dict[str, Any]:
    return {**one, "platform": {**one["platform"], "variant": name}}


def test_an_image_for_other_machines_is_refused_by_their_names() -> None:
    entries = [entry(b"1", "s390x"), entry(b"2", "ppc64le"), entry(b"3", "s390x")]
    with pytest.raises(ArgosyError, match="available for: linux/ppc64le, linux/s390x"):
        contents({"1": document({"manifests": entries})})


def test_indexes_in_indexes_end() -> None:
    inner, kind = document(MANIFEST)
    documents = {digest_of(inner): (inner, kind)}
    for _ in range(3):
        inner, kind = document({"manifests": [entry(inner, architecture())]})
        documents[digest_of(inner)] = (inner, kind)
    assert contents({**documents, "1": (inner, kind)}).manifest == document(MANIFEST)[0]
    outer = document({"manifests": [entry(inner, architecture())]})
    with pytest.raises(ArgosyError, match="nested image indexes"):
        contents({**documents, "1": outer})


def test_what_came_must_be_what_its_digest_says() -> None:
    content, kind = document(MANIFEST)
    good, bad = digest_of(content), digest_of(b"other")
    assert contents({good: (content, kind)}, f"@{good}").reference.digest == good
    with pytest.raises(ArgosyError, match=f"received {good} instead of {bad}"):
        contents({bad: (content, kind)}, f"@{bad}")
    with pytest.raises(ArgosyError, match=f"received {good} instead of {bad}"):
        contents({"1": (content, kind)}, **{"Docker-Content-Digest": bad})
    index = document({"manifests": [{**entry(content, architecture()), "digest": bad}]})
    with pytest.raises(ArgosyError, match=f"received {good} instead of {bad}"):
        contents({"1": index, bad: (content, kind)})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"schemaVersion": 1, "fsLayers": []}, r"obsolete format \(schema 1\)"),
        ([], "that it is a registry"),
        ({}, "not an image manifest: config: Field required"),
        ({**MANIFEST, "layers": 3}, "not an image manifest: layers"),
        ({**MANIFEST, "config": {**CONFIG, "digest": "sha512:1"}}, r"config\.digest"),
        ({**MANIFEST, "layers": [{**LAYER, "digest": "sha256:../x"}]}, r"layers\.0\.digest"),
        ({**MANIFEST, "layers": [{**LAYER, "size": -1}]}, r"layers\.0\.size"),
        ({**MANIFEST, "config": {**CONFIG, "size": 1 << 40}}, "longer than 16 MiB"),
        (
            {**MANIFEST, "config": {**CONFIG, "mediaType": "application/vnd.cncf.helm"}},
            "not a container image, but application/vnd.cncf.helm",
        ),
        ({"manifests": []}, "available for: nothing"),
        ({"manifests": [{"digest": 3}]}, "not an image manifest: manifests"),
    ],
)
def test_what_is_no_image_is_refused(value: Any, why: str) -> None:
    with pytest.raises(ArgosyError, match=why):
        contents({"1": document(value)})


def test_a_page_is_no_registry_and_a_flood_is_no_manifest() -> None:
    with pytest.raises(ArgosyError, match="is not a registry: it answers with a web page"):
        contents({"1": (b"<html>", "text/html; charset=utf-8")})
    with pytest.raises(ArgosyError, match="does not answer with a manifest"):
        contents({"1": (b"<html>", "text/plain")})
    with pytest.raises(ArgosyError, match="longer than 4 MiB"):
        contents({"1": (b"x" * (5 << 20), f"{OCI}.manifest.v1+json")})
