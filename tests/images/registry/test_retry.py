"""Retries."""

import time

import pytest

from argosy_common.errors import ArgosyError
from argosy_images.registry.retry import (
    LONGEST_WAIT_S,
    PassingError,
    Patience,
    UnreachableError,
    UnusableProxyError,
)


class Flaky:
    """Raises these errors in turn, and then returns."""

    def __init__(self, *problems: ArgosyError) -> None:
        self.problems = list(problems)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.problems:
            raise self.problems.pop(0)
        return "done"


def test_what_passes_is_tried_again() -> None:
    flaky = Flaky(PassingError("a"), UnreachableError("b"))
    said: list[str] = []
    assert Patience((0.0, 0.01), said.append).retry(flaky) == "done"
    assert said == ["a; trying again in 0 s", "b; trying again in 0 s"]


def test_in_the_end_it_says_how_often() -> None:
    flaky = Flaky(PassingError("a"), PassingError("b"), UnreachableError("c"))
    with pytest.raises(UnreachableError, match=r"^c \(tried 3 times\)$"):
        Patience((0.0, 0.0)).retry(flaky)


def test_other_problems_do_not_pass() -> None:
    flaky = Flaky(ArgosyError("no"))
    with pytest.raises(ArgosyError, match=r"^no$"):
        Patience((0.0, 0.0)).retry(flaky)
    assert flaky.calls == 1


def test_it_waits_as_long_as_it_is_asked_to_but_not_for_ever() -> None:
    began = time.monotonic()
    Patience((0.0,)).retry(Flaky(PassingError("busy", 0.3)))
    assert time.monotonic() - began >= 0.3
    flaky = Flaky(PassingError("busy", LONGEST_WAIT_S + 1))
    with pytest.raises(PassingError, match=r"^busy$"):
        Patience((0.0,)).retry(flaky)
    assert flaky.calls == 1


def test_a_proxy_that_cannot_be_used_is_not_tried_again() -> None:
    flaky = Flaky(UnusableProxyError("SOCKS"))
    with pytest.raises(UnusableProxyError, match=r"^SOCKS$"):
        Patience((60.0,)).retry(flaky)
    assert flaky.calls == 1


def test_a_stop_ends_the_pauses() -> None:
    patience = Patience((60.0,))
    patience.stop.set()
    with pytest.raises(PassingError):
        patience.retry(Flaky(PassingError("a")))
