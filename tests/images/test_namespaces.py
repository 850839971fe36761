"""A function in its own namespaces runs in a child, without the parent's finalizers."""

import gc
import os
from pathlib import Path

import pytest

from argosy_common.errors import ArgosyError
from argosy_images.namespaces import in_own_namespaces


class OfThisProcess:
    """Like a table of DuckDB: a child that destroys it hangs, since its threads are missing there."""

    def __init__(self, marker: Path) -> None:
        self._process, self._marker = os.getpid(), marker
        self._itself = self

    def __del__(self) -> None:
        if os.getpid() != self._process:
            self._marker.touch()


def test_what_this_process_threw_away_is_not_taken_down_in_the_child(tmp_path: Path) -> None:
    def collect() -> str:
        gc.collect()
        return "collected"

    gc.collect()
    gc.disable()
    try:
        OfThisProcess(tmp_path / "taken down")
        assert in_own_namespaces(collect) == "collected"
    finally:
        gc.enable()
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_child_keeps_its_hint() -> None:
    def fail() -> str:
        raise ArgosyError("Containerfile:3: no such file", "add it to the folder")

    with pytest.raises(ArgosyError) as problem:
        in_own_namespaces(fail)
    assert problem.value.lines == "Containerfile:3: no such file\nhint: add it to the folder"
