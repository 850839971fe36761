"""Output as a terminal shows it, required literal text of patterns, and losses that are not finite."""

import re
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from argosy.runtime.agent.processes.measurements import PrintedThroughput
from argosy.runtime.agent.processes.output import LineSplitter, NotFiniteLosses
from argosy.runtime.agent.processes.searched_text import needed_text, shown


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("1234.5 samples/s", ["1234.5 samples/s"]),
        ("\x1b[32m1234.5\x1b[0m samples/s", ["1234.5 samples/s"]),
        ("\x1b[38;2;1;2;3m12\x1b[m34.5\x1b[39;49m samples/s", ["1234.5 samples/s"]),
        ("\x9b1m1234.5\x9bm samples/s", ["1234.5 samples/s"]),
        ("\x1b]0;title 7\x071234.5 samples/s", ["1234.5 samples/s"]),
        ("\x1b]8;;http://h/7\x1b\\1234.5\x1b]8;;\x1b\\ samples/s", ["1234.5 samples/s"]),
        ("\x1b[01;31m\x1b[K12\x1b[m\x1b[K34", ["1234"]),
        ("12\x0034\u200b5\u00ad6\x7f7", ["1234567"]),
        ("99\b\b12", ["99", "12"]),
        ("rate: 10\b\b20 s", ["rate: 20 s"]),
        ("1\b12\b23\b3", ["123"]),
        ("|\b/\b-\b\\ 5", ["\\ 5"]),
        ("10 s" + "\b" * 4 + "12 s", ["10 s", "12 s"]),
        ("abc\x1b[2Dxy", ["axy"]),
        ("a\x1b[3Cb", ["a   b"]),
        ("1 s\x1b[2K\x1b[1G2 s", ["1 s", "", "2 s"]),
        ("1 s\x1b[1A2 s", ["1 s", "2 s"]),
        ("\ttab", ["\ttab"]),
        ("\x1b[3", ["3"]),
    ],
)
def test_what_a_terminal_shows(line: str, texts: list[str]) -> None:
    assert shown(line) == texts


@pytest.mark.parametrize(
    "part", ["\x1b]", "\x1b[1", "a\b", "\b", "\x1b[999D", "\x1b[999C", "\x1bP1"]
)
def test_a_megabyte_of_escapes_is_read_at_once(part: str) -> None:
    began = time.process_time()
    shown(part * (2**20 // len(part)))
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        (r"([0-9.]+) samples/s", b" samples/s"),
        (r"throughput.*([0-9.]+)", b"throughput"),
        (r"(?:img|image)s?/s: ([0-9.]+)", b"/s: "),
        (r"^(\d+) (?:it)+/s", b"it"),
        (r"(\d+) (?:it)?/s", b"/s"),
        (r"(?x) (\d+) \ img", b" img"),
        (r"(?i)img ([0-9]+)", b""),
        (r"(?:(?i:img) )([0-9]+)", b" "),
        (r"a(\d)|b", b""),
        (r"(\d+) 世界", b" "),
    ],
)
def test_what_all_matches_contain(pattern: str, needed: bytes) -> None:
    assert needed_text(re.compile(pattern)) in (needed, b"")
    assert needed_text(re.compile(pattern)) == needed or needed == b" "


@pytest.mark.parametrize(
    "line",
    [
        *(
            "step 3 loss nan",
            "loss: NaN",
            "{'loss': nan, 'lr': 1}",
            '{"loss": NaN}',
            "train_loss=nan",
        ),
        *("Loss is nan, stopping", "Loss: tensor(nan, device='cuda:0')", "loss : inf", "loss=-inf"),
        *("val/loss_ce\tnan", "lm loss: \x1b[31mnan\x1b[0m", "nll nan", "ppl: inf", "loss (nan)"),
    ],
)
@pytest.mark.parametrize("cut", [0, 3, 11, 14])
def test_a_loss_that_is_not_finite_is_found(line: str, cut: int) -> None:
    losses, splitter, data = (
        NotFiniteLosses(),
        LineSplitter(),
        f"step 2 loss 0.5\n{line}\n".encode(),
    )
    losses.search(splitter.feed(data[: 16 + cut]))
    losses.search(splitter.feed(data[16 + cut :]))
    assert losses.found is not None
    assert "step 2" not in str(losses.found["text"])
    assert abs(float(str(losses.found["at"])) - time.time()) < 60


@pytest.mark.parametrize(
    "line",
    [
        *(
            "loss 0.5",
            "best_loss: inf",
            "best val loss = inf",
            "min loss inf",
            "loss info",
            "nano 5",
        ),
        *(
            "val_loss improved from inf to 2.3",
            "loss scale: inf",
            "loss_scale=inf",
            "acc nan loss 0.5",
        ),
        *("check the loss for nan", "infiniband", "loss of information", "loss is not nan"),
    ],
)
def test_other_words_are_no_such_loss(line: str) -> None:
    losses = NotFiniteLosses()
    losses.search([f"{line}\n".encode()])
    assert losses.found is None


def test_lines_without_the_patterns_words_cost_little() -> None:
    """Searching must not slow a program down: it costs little more than splitting lines."""
    lines = [b"step %d loss 0.%d and other words\n" % (n, n) for n in range(2000)]
    data, pattern = b"".join(lines), re.compile("([0-9.]+) samples/s")
    settings = SimpleNamespace(
        throughput=pattern, printed=None, metrics={}, record="/nowhere/{}".format, nodes=1, ranks=1
    )
    printed = PrintedThroughput(cast(Any, settings), 0, print)

    def seconds(act: Callable[[], object]) -> float:
        began = time.process_time()
        for _ in range(100):
            act()
        return time.process_time() - began

    of_search = min(seconds(lambda: printed.search(lines)) for _ in range(3))
    assert of_search < 3 * min(seconds(lambda: LineSplitter().feed(data)) for _ in range(3))
