"""The ends of logs: short, harmless, and cheap however long the log."""

import json
import os
import time
from pathlib import Path

import pytest
from study_files import plan

from argosy.report import write_report
from argosy.report.page.page import (
    ALL_CHARACTERS,
    LINE_LENGTH,
    LINES,
    NoExcerptError,
    excerpt,
    with_excerpts,
)
from argosy.report.summary.models import FailureSummary
from argosy.results import collect


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def failure(log_file: str | None) -> FailureSummary:
    return FailureSummary("digits", "run", "100.0", "failed", 0, 0, "killed", None, log_file)


def test_the_last_lines_are_shown(tmp_path: Path) -> None:
    log = written(tmp_path / "a.log", "".join(f"line {number}\n" for number in range(1000)))
    assert excerpt(log, tmp_path).splitlines() == [
        f"line {number}" for number in range(1000 - LINES, 1000)
    ]


def test_a_short_log_is_shown_whole(tmp_path: Path) -> None:
    assert excerpt(written(tmp_path / "a.log", "\n\nonly this\n\n\n"), tmp_path) == "\n\nonly this"


def test_of_a_log_of_5_gb_only_the_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "sparse.log"
    with log.open("wb") as file:
        file.seek(5 * 1024**3)
        file.write(b"\nthe last\nlines\n")
    began = time.perf_counter()
    found = excerpt(log, tmp_path).splitlines()
    assert time.perf_counter() - began < 1
    assert found == ["the last", "lines"]


def test_one_endless_line_is_cut(tmp_path: Path) -> None:
    found = excerpt(written(tmp_path / "a.log", "x" * 10**6), tmp_path)
    assert len(found) == LINE_LENGTH
    assert found.endswith("x…")


def test_nothing_that_a_terminal_or_a_page_would_act_on_is_left(tmp_path: Path) -> None:
    log = written(
        tmp_path / "a.log",
        b"\x1b[31mred\x1b[0m\x1b]0;title\x07\n"
        b" 10 %\r 50 %\r100 %\r\n"
        b"nul\x00 bell\x07 \xff tab\there\n" + "\u202eturned\u2028".encode(),
    )
    assert excerpt(log, tmp_path).split("\n") == [
        "red",
        "100 %",
        "nul\ufffd bell\ufffd \ufffd tab    here",
        "\ufffdturned",
    ]


def test_what_cannot_be_shown_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    written(tmp_path / "empty.log", "\n \n")
    for name, why in (
        ("none.log", "none.log: No such file or directory"),
        ("empty.log", "empty.log is empty"),
        ("pipe.log", "pipe.log is not a regular file of the results"),
        ("", f"{tmp_path.name} is not a regular file of the results"),
    ):
        with pytest.raises(NoExcerptError, match=f"^{why}$"):
            excerpt(tmp_path / name, tmp_path.parent)


def test_all_together_they_stay_small(tmp_path: Path) -> None:
    written(tmp_path / "a.log", ("y" * LINE_LENGTH + "\n") * LINES)
    found = [*with_excerpts([failure("a.log")] * 1000, tmp_path)]
    texts = [one.log_excerpt for one in found if one.log_excerpt]
    assert ALL_CHARACTERS <= sum(map(len, texts)) < 1.01 * ALL_CHARACTERS
    assert found[-1].no_excerpt == "earlier failures used up the space for excerpts"
    assert [*with_excerpts([failure(None)], tmp_path)] == [failure(None)]


def test_the_page_shows_them_beside_the_failure(tmp_path: Path) -> None:
    results = tmp_path / "site"
    for repeat, text in ((1, "OSError: <b>no room</b>\n"), (2, None)):
        run = plan(results, nodes=2, repeat=repeat)
        run.execute(state="failed", failure={"node": 1, "rank": 1, "cause": "exit 1", "at": 1.0})
        log = run.path / "logs/100.0/ranks/rank-1.log"
        if text:
            log.write_text(text)
    collect(results, results / "tables")
    log.unlink()
    written_to = write_report(results)
    html = written_to.html.read_text()
    assert "<pre>OSError: &lt;b&gt;no room&lt;/b&gt;</pre>" in html
    assert "No excerpt: rank-1.log: No such file or directory." in html
    first, second = json.loads(written_to.json.read_text())["failures"]
    assert first["log_excerpt"] == "OSError: <b>no room</b>"
    assert (second["log_excerpt"], second["log_file"].endswith("rank-1.log")) == (None, True)
