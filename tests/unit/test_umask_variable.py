"""Permissions of new files: values of ARGOSY_UMASK, and its effect on the login's umask."""

import os
from collections.abc import Iterator

import pytest

from argosy_common.errors import ArgosyError
from argosy_common.files import UMASK_VARIABLE, apply_umask, umask


@pytest.fixture(params=[0o002, 0o022, 0o077])
def login_umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Set the process's umask during the test."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def current() -> int:
    """Return the umask of this process."""
    found = os.umask(0o077)
    os.umask(found)
    return found


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("7", "not an octal umask"),
        ("u=rwx", "not an octal umask"),
        ("770", "not an octal umask"),
        ("007", "others could change your batch scripts"),
        ("000", "others could change your batch scripts"),
    ],
)
def test_a_value_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, value: str, says: str
) -> None:
    monkeypatch.setenv(UMASK_VARIABLE, value)
    with pytest.raises(ArgosyError, match=f"{UMASK_VARIABLE}={value}: {says}"):
        umask()


def test_the_variable_counts_whatever_the_login_says(
    monkeypatch: pytest.MonkeyPatch, login_umask: int
) -> None:
    monkeypatch.setenv(UMASK_VARIABLE, "027")
    apply_umask()
    assert (current(), umask()) == (0o027, 0o027)


def test_without_it_nobody_else_writes_and_results_are_private(
    monkeypatch: pytest.MonkeyPatch, login_umask: int
) -> None:
    monkeypatch.delenv(UMASK_VARIABLE, raising=False)
    apply_umask()
    assert (current(), umask()) == (login_umask | 0o022, 0o077)
