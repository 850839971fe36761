"""The host's pip configuration, proxies and certificates in a build."""

from pathlib import Path

import pytest

from argosy_images.builder.hostconfig import HostConfig, read_host_config


def read(tmp_path: Path) -> HostConfig:
    for name in ("host", "secrets"):
        (tmp_path / name).mkdir()
    return read_host_config(tmp_path / "host", tmp_path / "secrets")


@pytest.fixture(autouse=True)
def plain_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only the test's own configuration."""
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    for name in ("FIND_LINKS", "CERT", "EXTRA_INDEX_URL", "INDEX_URL", "CONSTRAINT"):
        monkeypatch.delenv(f"PIP_{name}", raising=False)


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
    # The index links to files beside it, so its parent is mounted.
    index = f"file://{mounted[tmp_path / 'mirror']}/simple"
    assert config.environment["PIP_EXTRA_INDEX_URL"] == index
    assert config.environment["PIP_TIMEOUT"] == "7"


def test_where_this_host_s_packages_go_is_not_the_image_s_affair(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nrequire-virtualenv = true\n[install]\nuser = true\ntarget = /home/one/lib\n"
    )
    environment = read(tmp_path).environment
    assert not {"PIP_USER", "PIP_TARGET", "PIP_REQUIRE_VIRTUALENV"} & environment.keys()


def test_files_that_pip_is_told_to_read_are_seen_inside(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text(f"{name}<2\n")
    (tmp_path / "pip.conf").write_text(
        f"[global]\nconstraint = {tmp_path}/one.txt\n  file://{tmp_path}/two.txt\n"
        "[install]\nrequirement = https://example.org/more.txt\n"
    )
    environment = read(tmp_path).environment
    inside = [Path(word) for word in environment["PIP_CONSTRAINT"].split()]
    assert {path.parent for path in inside} == {Path("/dev/argosy/host")}
    texts = [(tmp_path / "host" / path.name).read_text() for path in inside]
    assert texts == ["one<2\n", "two<2\n"]
    assert environment["PIP_REQUIREMENT"] == "https://example.org/more.txt"


INSTALLS = ["uv sync", "/opt/venv/bin/pip install x", "python3 -m pip list", "PIP_X=1 ./a"]
OTHERS = ["set -o pipefail; make", "./install.sh", "apt-get install -y gripper", "echo souvlaki"]


@pytest.mark.parametrize("command", [*INSTALLS, *OTHERS])
def test_logins_of_indexes_are_for_steps_that_ask_them(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cert.pem").write_text("a key")
    (tmp_path / "pip.conf").write_text(f"[global]\nclient-cert = {tmp_path}/cert.pem\n")
    monkeypatch.setenv("PIP_INDEX_URL", "https://one:word@a.example.org/simple")
    monkeypatch.setenv(
        "PIP_EXTRA_INDEX_URL", "https://b.example.org/x https://token@c.example.org/"
    )
    seen = read(tmp_path).for_command(command)
    said = str(dict(seen.environment))
    files = [path.read_text() for bind in seen.binds for path in bind.source.iterdir()]
    asks = command in INSTALLS
    assert ["word" in said, "token" in said, "a key" in files] == [asks] * 3
    # The URL without its login is no secret.
    assert "a.example.org/simple" in said
    assert "https://c.example.org/" in said or asks
    certificate = "/dev/argosy/secrets/client-cert-0" if asks else None
    assert seen.environment.get("PIP_CLIENT_CERT") == certificate


def test_a_base_system_is_configured_without_the_host_s_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://one:word@a.example.org/simple")
    monkeypatch.setenv("https_proxy", "http://one:word@proxy.example.org")
    assert [*read(tmp_path).for_base().environment] == ["APT_CONFIG"]


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


def test_steps_see_nothing_of_the_store(tmp_path: Path) -> None:
    config = read(tmp_path)
    # Images must not share pip's cache: a program of one image would run files of another.
    assert [bind.source for bind in config.binds] == [tmp_path / "host"]
