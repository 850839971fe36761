"""The choice of an image in an archive by name and platform, in the notations of other tools."""

import json
from pathlib import Path
from typing import Any

import pytest
from registries import digest_of

from argosy_common.errors import ArgosyError
from argosy_images.interchange.incoming import IncomingImage, describe
from argosy_images.interchange.opening import Folder
from argosy_images.oci import CONFIG_TYPE, NAME_ANNOTATION, architecture
from argosy_images.registry.manifests import DOCKER_MANIFEST_TYPE

CONTAINERD = "io.containerd.image.name"


class Layout:
    """An image layout without layers."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "blobs/sha256").mkdir(parents=True)

    def blob(self, value: Any) -> dict[str, Any]:
        content = json.dumps(value).encode()
        digest = digest_of(content)
        (self.place / "blobs" / digest.replace(":", "/")).write_bytes(content)
        return {"digest": digest, "size": len(content)}

    def image(self, label: str, **said: Any) -> dict[str, Any]:
        """Add an image with a layer of this label; `said` extends its configuration."""
        config = {"rootfs": {"diff_ids": [digest_of(label.encode())]}, **said}
        layers = [{"digest": digest_of(label.encode()), "size": 1}]
        return self.blob({"config": self.blob(config), "layers": layers})

    def take(self, *entries: dict[str, Any], wanted: str = "") -> IncomingImage:
        (self.place / "index.json").write_text(json.dumps({"manifests": entries}))
        return describe(Folder(self.place), wanted)

    def taken(self, *entries: dict[str, Any], wanted: str = "") -> str:
        """Return the label of the chosen image: `a`, `b` or `c`."""
        digest = self.take(*entries, wanted=wanted).layers[0].diff_id
        return next(label for label in "abc" if digest == digest_of(label.encode()))

    def refused(self, *entries: dict[str, Any], wanted: str = "") -> str:
        with pytest.raises(ArgosyError) as problem:
            self.take(*entries, wanted=wanted)
        assert str(problem.value).startswith(f"{self.place}: ")
        return str(problem.value)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "layout")


def named(entry: dict[str, Any], name: str, key: str = NAME_ANNOTATION) -> dict[str, Any]:
    return {**entry, "annotations": {**entry.get("annotations", {}), key: name}}


def on(entry: dict[str, Any], variant: str = "", **platform: str) -> dict[str, Any]:
    own = {
        "os": "linux",
        "architecture": architecture(),
        **({"variant": variant} if variant else {}),
    }
    return {**entry, "platform": {**own, **platform}}


def test_one_image_under_several_names_is_one(layout: Layout) -> None:
    a = layout.image("a")
    found = layout.take(named(a, "app:1"), named(a, "app:latest"))
    assert found.reference == "app:1"
    for name, reference in (("app:latest", "app:latest"), (a["digest"], "app:1")):
        found = layout.take(named(a, "app:1"), named(a, "app:latest"), wanted=name)
        assert found.reference == reference


def test_of_several_images_one_is_named(layout: Layout) -> None:
    a, b = layout.image("a"), layout.image("b")
    entries = (named(a, "app:1"), named(named(b, "2"), "docker.io/library/app:2", CONTAINERD))
    said = layout.refused(*entries)
    assert "it must contain one image for linux/" in said
    assert "it contains: app:1, 2" in said
    assert f"argosy image import {layout.place}:app:1 NAME" in said
    for name in ("2", "docker.io/library/app:2"):
        assert layout.taken(*entries, wanted=name) == "b"
    assert "an image 'app:3'" in layout.refused(*entries, wanted="app:3")
    hostile = layout.refused(named(a, "$(touch evil)"), b)
    assert f"argosy image import '{layout.place}:$(touch evil)' NAME" in hostile
    # Images without a name are listed by digest.
    assert a["digest"] in layout.refused(a, b)
    assert layout.taken(a, b, wanted=b["digest"]) == "b"


def test_of_variants_the_one_that_all_nodes_run_is_taken(layout: Layout) -> None:
    a, b, c = (layout.image(label) for label in "abc")
    variants = [on(b, "v4"), on(c, "v3"), on(a)]
    assert layout.taken(*variants) == "a"
    assert layout.taken(on(b, "v9"), on(a, {"amd64": "v1"}.get(architecture(), "v8"))) == "a"
    # The same holds for a nested index, and for one name.
    index = layout.blob({"manifests": variants})
    assert layout.taken(named(index, "app:1")) == layout.taken(index) == "a"
    assert layout.taken(*(named(one, "app:1") for one in variants)) == "a"
    said = layout.refused(*variants[:2])
    assert f"it contains: an image for linux/{architecture()}/v3, " in said


def test_what_is_no_image_for_this_machine_is_passed_over(layout: Layout) -> None:
    a, b = layout.image("a"), layout.image("b")
    artifact = layout.blob(
        {"config": {"mediaType": "application/vnd.oci.empty.v1+json"}, "layers": []}
    )
    sbom = {**layout.image("c"), "artifactType": "application/spdx+json"}
    attestation = on(artifact, os="unknown", architecture="unknown")
    # An archive may lack blobs of other platforms' images.
    absent = on({"digest": digest_of(b"absent")}, architecture="s390x")
    others = (sbom, artifact, attestation, absent)
    assert layout.taken(*others, on(a)) == "a"
    assert layout.taken(layout.blob({"manifests": [*others, b, on(a)]})) == "a"
    # Without an image for this platform, the first one without a platform is used.
    assert layout.taken(layout.blob({"manifests": [*others, b, a]})) == "b"
    assert "it contains: an image for linux/s390x" in layout.refused(*others)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"os": "linux"},
        {"os": "Linux", "architecture": {"amd64": "x86_64"}.get(architecture(), "aarch64")},
        {"architecture": {"amd64": "X86-64"}.get(architecture(), "ARM64"), "variant": "v2"},
        {"os": "", "architecture": ""},
        {"os": None, "architecture": None},
    ],
)
def test_a_machine_is_known_by_all_its_names_or_by_none(
    layout: Layout, said: dict[str, Any]
) -> None:
    assert layout.taken(layout.image("a", **said)) == "a"
    assert layout.taken({**layout.image("a", **said), "platform": {**said, "variant": None}}) == "a"


def test_another_machine_is_refused_by_its_name(layout: Layout) -> None:
    assert "made for linux/s390x, but this machine is linux/" in layout.refused(
        layout.image("a", architecture="s390x")
    )
    assert "made for windows/" in layout.refused(layout.image("a", os="windows"))


def test_docker_s_list_may_name_one_image_twice_or_several(tmp_path: Path) -> None:
    for label in "ab":
        config = {"rootfs": {"diff_ids": [digest_of(label.encode())]}}
        (tmp_path / f"{label}.json").write_text(json.dumps(config))

    def take(*entries: tuple[str, list[str] | None], wanted: str = "") -> IncomingImage:
        images = [
            {"Config": f"{label}.json", "RepoTags": tags, "Layers": [f"{label}.tar"]}
            for label, tags in entries
        ]
        (tmp_path / "manifest.json").write_text(json.dumps(images))
        return describe(Folder(tmp_path), wanted)

    assert take(("a", ["app:1"]), ("a", ["app:2"])).reference == "app:1"
    assert take(("a", None)).reference == tmp_path.name
    several = (("a", ["app:1", "app:latest"]), ("b", ["app:2"]))
    assert take(*several, wanted="app:latest").layers[0].member == "a.tar"
    assert take(*several, wanted="app:2").layers[0].member == "b.tar"
    with pytest.raises(ArgosyError, match="it contains: app:1, app:2"):
        take(*several)


def test_a_folder_of_skopeo_s_dir_is_taken(tmp_path: Path) -> None:
    def write(value: Any, name: str = "") -> str:
        content = json.dumps(value).encode()
        digest = digest_of(content)
        (tmp_path / (name or digest.removeprefix("sha256:"))).write_bytes(content)
        return digest

    config = write({"rootfs": {"diff_ids": [digest_of(b"a")]}})
    manifest = {
        "mediaType": DOCKER_MANIFEST_TYPE,
        "config": {"mediaType": CONFIG_TYPE, "digest": config},
        "layers": [{"digest": digest_of(b"packed")}],
    }
    write(manifest, "manifest.json")
    [layer] = describe(Folder(tmp_path)).layers
    assert layer.member == digest_of(b"packed").removeprefix("sha256:")
    assert (layer.digest, layer.diff_id) == (digest_of(b"packed"), digest_of(b"a"))
    # As `skopeo copy --all` writes it.
    digest = write(manifest)
    (tmp_path / digest.removeprefix("sha256:")).rename(tmp_path / f"{digest[7:]}.manifest.json")
    write({"manifests": [on({"digest": digest})]}, "manifest.json")
    assert describe(Folder(tmp_path)).layers == (layer,)
