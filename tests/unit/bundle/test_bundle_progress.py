"""A word now and then."""

import time

import pytest

from argosy.bundle.archive import Progress


def test_a_word_after_a_while_and_none_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    said: list[str] = []
    progress = Progress(4 << 30, said.append)
    for second in range(25):
        now[0] = 100.0 + second
        progress.add(100 << 20)
    assert said == ["1.17 GiB of 4 GiB", "2.25 GiB of 4 GiB"]
