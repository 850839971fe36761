"""Configurations of other tools' images: fields that Argosy uses, keeps or rejects."""

import json
from typing import Any

import pytest

from argosy_images.oci import ImageConfig

FOREIGN = {
    "Shell": ["/activate.sh", "-c"],
    "Healthcheck": {"Test": ["CMD", "true"], "Interval": 5},
    "OnBuild": ["RUN echo"],
    "ArgsEscaped": True,
    "StopSignal": "SIGINT",
    "User": "me",
    "Volumes": {"/data": {}},
    "ExposedPorts": {"80/tcp": {}},
    "Labels": {"a": "b"},
    "Entrypoint": ["/e"],
    "Cmd": ["c"],
    "Env": ["PATH=/bin", "EMPTY="],
    "WorkingDir": "/work",
    "SomeField": [1, 2.5, {"of": None}],
}


def test_an_exported_image_has_every_field_as_it_came() -> None:
    config = ImageConfig.from_oci(FOREIGN)
    kept = ImageConfig.model_validate_json(config.model_dump_json())
    assert kept.to_oci(())["config"] == FOREIGN
    assert kept.oci_bytes(()) == config.oci_bytes(())
    assert config.shell == ("/activate.sh", "-c")


def test_the_builder_s_own_container_leaves_nothing() -> None:
    own = {"Hostname": "5434ea5a955a", "Domainname": "x", "Image": "sha256:1", "AttachStdin": False}
    assert ImageConfig.from_oci(own) == ImageConfig()


def test_what_is_not_set_changes_no_digest() -> None:
    nothing = {"Shell": None, "Healthcheck": None, "OnBuild": [], "ArgsEscaped": False}
    assert ImageConfig.from_oci(nothing).oci_bytes(()) == ImageConfig().oci_bytes(())


@pytest.mark.parametrize(
    ("given", "workdir"),
    [("", "/"), ("app", "/app"), ("//a//b/", "/a/b"), ("/a/../..", "/"), (".", "/")],
)
def test_a_working_directory_is_absolute(given: str, workdir: str) -> None:
    assert ImageConfig.from_oci({"WorkingDir": given}).workdir == workdir


@pytest.mark.parametrize(
    "config",
    [
        {"Shell": "/bin/sh"},
        {"Shell": [1]},
        {"Shell": 5},
        {"OnBuild": "RUN x"},
        {"OnBuild": {"a": 1}, "Shell": [None]},
        {"WorkingDir": ["/"]},
        {"WorkingDir": "/a" * 3000},
        {"Healthcheck": float("nan")},
        {"Healthcheck": json.loads("[" * 40 + "]" * 40)},
        {"Healthcheck": {"Interval": 10**5000}},
        [],
    ],
)
def test_what_is_no_configuration_is_refused(config: Any) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        ImageConfig.from_oci(config)
