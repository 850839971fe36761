"""Which registries on this machine may be given a login, and to whom no login goes."""

from pathlib import Path

import pytest

from argosy.errors import ArgosyError
from argosy.images.registry.client import Client
from argosy.images.registry.insecure import is_said_insecure
from argosy.images.registry.reference import Reference
from argosy.images.registry.tokens import Challenge

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
    with pytest.raises(ArgosyError, match=f"^{path}: not a file of registries"):
        is_said_insecure(
            Reference.parse("localhost:5000/a"), {"CONTAINERS_REGISTRIES_CONF": str(path)}
        )


@pytest.mark.parametrize("realm", ["http://localhost:99/token", "https://127.0.0.1/token"])
def test_a_registry_elsewhere_sends_no_login_here(realm: str) -> None:
    client = Client(Reference.parse("registry.example.org/team/tool:1"))
    with pytest.raises(ArgosyError, match="which is this machine; no login is sent there"):
        client._answer(Challenge("bearer", realm, "", ""))
