"""The last lines of a failure's log, safe to show whatever the log holds, and cheap however long it is."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from argosy.reading import NotReadError, read_end
from argosy.report.summary.models import FailureSummary

LINES = 20
LINE_LENGTH = 240
READ_BYTES = 16 * 1024
ALL_CHARACTERS = 512 * 1024
"""Of all excerpts of a report together, so that a thousand failures do not swell it."""
_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


class NoExcerptError(Exception):
    """Why there is nothing to show of a log; its words end the sentence "No excerpt: …"."""


def with_excerpts(failures: Sequence[FailureSummary], results_dir: Path) -> list[FailureSummary]:
    """Return the failures with the ends of their logs, which are relative to `results_dir`."""
    return list(_excerpted(failures, results_dir))


def _excerpted(failures: Sequence[FailureSummary], results_dir: Path) -> Iterator[FailureSummary]:
    left = ALL_CHARACTERS
    for failure in failures:
        if failure.log_file is None:
            yield failure
            continue
        try:
            if left <= 0:
                raise NoExcerptError("the failures before it have filled the room for excerpts")
            text = excerpt(results_dir / failure.log_file, results_dir)
        except NoExcerptError as reason:
            yield replace(failure, no_excerpt=str(reason))
        else:
            left -= len(text)
            yield replace(failure, log_excerpt=text)


def excerpt(path: Path, top: Path) -> str:
    """Return the last `LINES` lines of a file below `top`, of its last `READ_BYTES` at most.

    Terminal codes are left out, other control characters replaced, long lines cut. Raises
    NoExcerptError when the file is missing, unreadable, empty, no plain file, or not below `top`: which
    file it is may be said by a table from elsewhere.
    """
    try:
        tail, is_whole = read_end(path, top, READ_BYTES)
    except NotReadError as error:
        raise NoExcerptError(f"{path.name} is not a plain file of the results") from error
    except OSError as error:
        raise NoExcerptError(f"{path.name}: {error.strerror}") from error
    lines = tail.decode(errors="replace").rstrip().split("\n")
    if not is_whole and len(lines) > 1:
        del lines[0]
    shown = [_shown(line) for line in lines[-LINES:]]
    if not any(shown):
        raise NoExcerptError(f"{path.name} is empty")
    return "\n".join(shown)


def _shown(line: str) -> str:
    # A progress bar is one line that was written many times over; its last state is what was seen.
    last = _TERMINAL.sub("", line.rstrip("\r").rpartition("\r")[2])
    plain = "".join(_plain(character) for character in last.expandtabs(4)).rstrip()
    return plain if len(plain) <= LINE_LENGTH else f"{plain[: LINE_LENGTH - 1]}…"


def _plain(character: str) -> str:
    """Return the character; the replacement character for one that would be acted on, not shown."""
    return "\ufffd" if unicodedata.category(character)[0] == "C" else character
