"""registries.conf: mirrors, and registries on this machine that get no login."""

from pathlib import Path

import pytest

from argosy_common.errors import ArgosyError
from argosy_images.registry.client import Client
from argosy_images.registry.credentials import Challenge
from argosy_images.registry.reference import Reference
from argosy_images.registry.registries_conf import is_said_insecure, places_of

TEXT = """
unqualified-search-registries = ["docker.io"]
[[registry]]
location = "localhost:5000"
insecure = true
[[registry]]
prefix = "127.0.0.1:80/team"
location = "elsewhere.org"
insecure = true
[[registry]]
location = "127.0.0.1:81"
"""


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("localhost:5000/a:1", True),
        ("localhost:5001/a:1", False),
        ("localhost:50/a:1", False),
        ("127.0.0.1:80/team/a:1", True),
        ("127.0.0.1:80/teams/a:1", False),
        ("127.0.0.1:81/a:1", False),
    ],
)
def test_what_the_users_file_says(tmp_path: Path, reference: str, said: bool) -> None:
    path = tmp_path / ".config/containers/registries.conf"
    variables = {"HOME": str(tmp_path)}
    assert not is_said_insecure(Reference.parse(reference), variables)
    path.parent.mkdir(parents=True)
    path.write_text(TEXT)
    assert is_said_insecure(Reference.parse(reference), variables) is said
    path.rename(path.with_name("mine.conf"))
    variables["CONTAINERS_REGISTRIES_CONF"] = str(path.with_name("mine.conf"))
    assert is_said_insecure(Reference.parse(reference), variables) is said


@pytest.mark.parametrize("text", ["[[registry]", "registry = 3", 'registry = ["a"]'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.conf"
    path.write_text(text)
    with pytest.raises(ArgosyError, match=f"^{path}: not a valid registries.conf"):
        is_said_insecure(
            Reference.parse("localhost:5000/a"), {"CONTAINERS_REGISTRIES_CONF": str(path)}
        )


@pytest.mark.parametrize("realm", ["http://localhost:99/token", "https://127.0.0.1/token"])
def test_a_registry_elsewhere_sends_no_login_here(realm: str) -> None:
    client = Client(Reference.parse("registry.example.org/team/tool:1"))
    with pytest.raises(ArgosyError, match="which is this machine, so no login is sent"):
        client._answer(Challenge("bearer", realm, "", ""))


MIRRORS = """
[[registry]]
prefix = "docker.io"
location = "docker.io"
[[registry.mirror]]
location = "mirror.site:5000/hub"
[[registry.mirror]]
location = "localhost:5001"
insecure = true
[[registry]]
prefix = "docker.io/team"
location = "elsewhere.org/ours"
[[registry]]
location = "closed.org"
blocked = true
[[registry]]
prefix = "bad.org"
location = "Not A Place"
"""


@pytest.mark.parametrize(
    ("reference", "places"),
    [
        (
            "debian:12",
            [
                "mirror.site:5000/hub/library/debian:12",
                "localhost:5001/library/debian:12",
                "docker.io/library/debian:12",
            ],
        ),
        ("team/tool:1", ["elsewhere.org/ours/tool:1"]),
        ("teams/tool:1", None),
        (f"team/tool@sha256:{'0' * 64}", [f"elsewhere.org/ours/tool@sha256:{'0' * 64}"]),
        ("quay.io/tool:1", ["quay.io/tool:1"]),
    ],
)
def test_where_an_image_is_asked_for(
    tmp_path: Path, reference: str, places: list[str] | None
) -> None:
    variables = {"CONTAINERS_REGISTRIES_CONF": str(tmp_path / "mine.conf")}
    wanted = Reference.parse(reference)
    assert places_of(wanted, variables) == (wanted,)
    (tmp_path / "mine.conf").write_text(MIRRORS)
    found = [str(place) for place in places_of(wanted, variables)]
    assert found == places if places else found[-1] == f"docker.io/{reference}"
    assert is_said_insecure(Reference.parse("localhost:5001/library/debian:12"), variables)


def test_what_is_blocked_or_makes_no_sense_is_said_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "mine.conf").write_text(MIRRORS)
    variables = {"CONTAINERS_REGISTRIES_CONF": str(tmp_path / "mine.conf")}
    with pytest.raises(ArgosyError, match=f"{tmp_path}/mine.conf blocks closed.org"):
        places_of(Reference.parse("closed.org/a:1"), variables)
    with pytest.raises(ArgosyError, match=f"^{tmp_path}/mine.conf: bad.org: "):
        places_of(Reference.parse("bad.org/a:1"), variables)
