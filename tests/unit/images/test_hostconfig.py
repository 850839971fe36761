"""The host's pip configuration, proxies and certificates, as a build sees them."""

from pathlib import Path

import pytest

from argosy.images.build.hostconfig import HostConfig, read_host_config


def read(tmp_path: Path) -> HostConfig:
    for name in ("host", "downloads"):
        (tmp_path / name).mkdir()
    return read_host_config(tmp_path / "host", tmp_path / "downloads")


@pytest.fixture(autouse=True)
def plain_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration but the test's own."""
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    for name in (
        "PIP_FIND_LINKS",
        "PIP_CERT",
        "PIP_EXTRA_INDEX_URL",
        "PIP_INDEX_URL",
        "PIP_CONSTRAINT",
    ):
        monkeypatch.delenv(name, raising=False)


def test_local_wheel_folders_are_mounted_and_rewritten(tmp_path: Path) -> None:
    for name in ("my wheels", "mirror/simple"):
        (tmp_path / name).mkdir(parents=True)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (tmp_path / "pip.conf").write_text(
        f"[global]\nfind-links = {wheels}\n  https://wheels.example.org/cpu\n"
        f"extra-index-url = file://{tmp_path}/mirror/simple\ntimeout = 7\n"
    )
    config = read(tmp_path)
    mounted = {bind.source: bind.target for bind in config.binds}
    links = f"{mounted[wheels]} https://wheels.example.org/cpu"
    assert config.environment["PIP_FIND_LINKS"] == links
    # The index links to files beside it, so its parent is what is mounted.
    index = f"file://{mounted[tmp_path / 'mirror']}/simple"
    assert config.environment["PIP_EXTRA_INDEX_URL"] == index
    assert config.environment["PIP_TIMEOUT"] == "7"


def test_files_that_pip_is_told_of_are_copied(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("numpy<3\n")
    (tmp_path / "pip.conf").write_text(
        f"[global]\nconstraint = {tmp_path}/constraints.txt\n  https://site.example.org/c.txt\n"
    )
    environment = read(tmp_path).environment
    inside = "/dev/argosy/host/constraint-0"
    assert environment["PIP_CONSTRAINT"] == f"{inside} https://site.example.org/c.txt"
    assert (tmp_path / "host/constraint-0").read_text() == "numpy<3\n"


def test_where_this_host_s_packages_go_is_not_the_image_s_affair(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nrequire-virtualenv = true\n[install]\nuser = true\ntarget = /home/one/lib\n"
    )
    environment = read(tmp_path).environment
    assert not {"PIP_USER", "PIP_TARGET", "PIP_REQUIRE_VIRTUALENV"} & environment.keys()


def test_the_environment_wins_over_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://one.example.org/simple\n")
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:secret@two.example.org/simple")
    environment = read(tmp_path).environment
    assert environment["PIP_INDEX_URL"] == "https://user:secret@two.example.org/simple"


def test_proxies_and_the_ca_bundle_reach_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "site-ca.pem"
    bundle.write_text("a certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("https_proxy", "http://proxy.example.org:3128")
    config = read(tmp_path)
    assert config.environment["https_proxy"] == "http://proxy.example.org:3128"
    inside = config.environment["SSL_CERT_FILE"]
    assert inside == config.environment["PIP_CERT"] == "/dev/argosy/host/ca-certificates.crt"
    assert (tmp_path / "host/ca-certificates.crt").read_text() == "a certificate"


def test_steps_see_pip_s_downloads_and_no_others(tmp_path: Path) -> None:
    config = read(tmp_path)
    inside = {bind.source: bind.target for bind in config.binds}
    assert inside[tmp_path / "downloads" / "pip"] == config.environment["PIP_CACHE_DIR"]
    # What an image is pulled into must be out of reach of those who run what is in another.
    assert not any((tmp_path / "downloads" / "blobs").is_relative_to(source) for source in inside)
