"""Losses that are not finite, in what a rank prints."""

from __future__ import annotations

import re
import time

_QUICK = (b"nan", b"NaN", b"NAN", b"inf", b"Inf")
_COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")
_LOSS = re.compile(
    rb"(?:loss(?!_?scal)|(?<![a-z])(?:nll|mse|mae|cost|ppl|perplexity)(?![a-z]))\w*[ \t\"':=()>\]-]*"
    rb"(?:(?:is|was|became|value|tensor|array|of)\b[ \t\"':=(\[-]*){0,3}"
    rb"[+-]?(nan|inf(?:inity)?)(?![a-z])",
    re.IGNORECASE,
)
# `best_loss = inf` is where a search for the least begins.
_OF_A_SEARCH = re.compile(rb"best|min|prev|init|last|old|lowest|thresh", re.IGNORECASE)
_NAME = 16  # bytes before `loss` that may say of what it is
_KEPT = 256
_LONGEST_TEXT = 100


class NotFiniteLosses:
    """Looks for the first loss of a rank that is NaN or infinite."""

    def __init__(self) -> None:
        self._rest = b""
        self.found: dict[str, object] | None = None
        """`text`, the line, and `at`, when it came (unix)."""

    def take(self, data: bytes) -> None:
        """Take what the rank has printed just now."""
        if self.found:
            return
        data = self._rest + data
        if any(word in data for word in _QUICK):
            self._search(_COLOUR.sub(b"", data) if b"\x1b" in data else data)
        self._rest = data[-_KEPT:]

    def _search(self, data: bytes) -> None:
        for match in _LOSS.finditer(data):
            start, end = match.span()
            name = data[max(0, start - _NAME) : start]
            if match[1][:1] in b"iI" and _OF_A_SEARCH.search(name):
                continue
            begin = max(data.rfind(b"\n", 0, start), data.rfind(b"\r", 0, start)) + 1
            begin = max(begin, end - _LONGEST_TEXT)
            text = data[begin:end].decode("utf-8", "replace").strip()
            self.found = {"text": text, "at": time.time()}
            return
