"""The last line of a log, as it can be shown."""

from pathlib import Path

import pytest

from argosy.run_folder.log_tail import last_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\ntwo\n\n", "two"),
        ("10 %\r20 %\r30 %\n", "30 %"),
        ("\x1b[31mERRO\x1b[0m[0000] no clone\x07\n\x1b[0m\n", "ERRO[0000] no clone"),
        ("x" * 10_000_000 + "\nend", "end"),
        ("", ""),
        ("\n \n", ""),
    ],
)
def test_last_line(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    assert last_line(path, tmp_path) == line


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    assert last_line(tmp_path / "none", tmp_path) == ""
