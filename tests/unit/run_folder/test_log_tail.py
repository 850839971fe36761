"""The last line of a log, safe to print."""

from pathlib import Path

import pytest

from argosy.run_folder.log_tail import last_line

OF_TORCH = (
    "[rank0]:[W1126 22:51:45.839839477 ProcessGroupNCCL.cpp:1575] Warning: WARNING: "
    "destroy_process_group() was not called before program exit, which can leak resources."
)
OF_TENSORFLOW = (
    "2026-11-26 22:51:45.839839: W tensorflow/core/framework/local_rendezvous.cc:404] "
    "Local rendezvous is aborting"
)
OF_ABSEIL = (
    "W0000 00:00:1795733505.412389   12345 gpu_device.cc:2342] Cannot dlopen some GPU libraries."
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\ntwo\n\n", "two"),
        ("10 %\r20 %\r30 %\n", "30 %"),
        ("\x1b[31mERRO\x1b[0m[0000] no clone\x07\n\x1b[0m\n", "ERRO[0000] no clone"),
        ("x" * 10_000_000 + "\nend", "end"),
        ("", ""),
        ("\n \n", ""),
        (f"[rank0]: Duplicate GPU detected\n{OF_TORCH}\n", "[rank0]: Duplicate GPU detected"),
        (f"it does not fit\n{OF_TENSORFLOW}\n{OF_ABSEIL}\n", "it does not fit"),
        (f"\n{OF_TORCH}\n", OF_TORCH),
        ("W1 is not initialised\n", "W1 is not initialised"),
    ],
)
def test_last_line(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    assert last_line(path, tmp_path) == line


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    assert last_line(tmp_path / "none", tmp_path) == ""
