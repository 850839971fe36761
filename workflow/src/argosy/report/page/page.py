"""Render the report's page, with sanitised excerpts of failed runs' logs."""

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from argosy.report import sizes
from argosy.report.overview import overview_drawing, sparkline
from argosy.report.page.html import rendered
from argosy.report.sizes import states
from argosy.report.summary.models import FailureSummary, Summary
from argosy.report.topics import (
    allreduces,
    first_pictures,
    first_tables,
    further_pictures,
    further_tables,
    losses,
    methods,
    sentences,
    setups,
    slowness,
    sweep,
    to_know,
)
from argosy.report.topics.answer import advice, answer
from argosy.report.topics.history import says as history
from argosy.report.topics.laws.choice import CONTRADICTED
from argosy.report.topics.laws.says import NAMES, parameter_texts
from argosy.report.topics.runs import remarks
from argosy.report.topics.scaling import measured_sizes
from argosy_common.reading import NotReadError, read_end

LINES = 20
LINE_LENGTH = 240
READ_BYTES = 16 * 1024
ALL_CHARACTERS = 512 * 1024
"""Maximum total length of a report's excerpts."""
_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


class NoExcerptError(Exception):
    """A log has no excerpt; the message ends the sentence "No excerpt: …"."""


def with_excerpts(
    failures: Sequence[FailureSummary], results_dir: Path
) -> Iterator[FailureSummary]:
    """Yield failures with the last lines of their logs; paths are relative to `results_dir`."""
    left = ALL_CHARACTERS
    for failure in failures:
        if failure.log_file is None:
            yield failure
            continue
        try:
            if left <= 0:
                raise NoExcerptError("earlier failures used up the space for excerpts")
            text = excerpt(results_dir / failure.log_file, results_dir)
        except NoExcerptError as reason:
            yield replace(failure, no_excerpt=str(reason))
        else:
            left -= len(text)
            yield replace(failure, log_excerpt=text)


def excerpt(path: Path, top: Path) -> str:
    """Return up to `LINES` last lines within the last `READ_BYTES` of a log.

    Terminal codes are removed, other control characters replaced, long lines cut.

    Raises:
        NoExcerptError: The file is missing, unreadable, empty, not regular, or outside `top`; an untrusted
            table may name any path.
    """
    try:
        tail, is_whole = read_end(path, top, READ_BYTES)
    except NotReadError as error:
        raise NoExcerptError(f"{path.name} is not a regular file of the results") from error
    except OSError as error:
        raise NoExcerptError(f"{path.name}: {error.strerror}") from error
    lines = tail.decode(errors="replace").rstrip().split("\n")
    if not is_whole and len(lines) > 1:
        del lines[0]
    shown = [_printable(line) for line in lines[-LINES:]]
    if not any(shown):
        raise NoExcerptError(f"{path.name} is empty")
    return "\n".join(shown)


def _printable(line: str) -> str:
    # A progress bar rewrites one line: keep its last state.
    last = _TERMINAL.sub("", line.rstrip("\r").rpartition("\r")[2])
    plain = "".join(_plain(character) for character in last.expandtabs(4)).rstrip()
    return plain if len(plain) <= LINE_LENGTH else f"{plain[: LINE_LENGTH - 1]}…"


def _plain(character: str) -> str:
    """Return the character, or U+FFFD instead of a control character."""
    return "\ufffd" if unicodedata.category(character)[0] == "C" else character


def page(summary: Summary, results_dir: Path, out_dir: Path) -> str:
    """Render the report as self-contained HTML.

    Links to logs are relative to `out_dir`, the folder of the page, and point into `results_dir`.
    """
    to_results = Path(os.path.relpath(results_dir, out_dir)).as_posix()
    return rendered(
        "report.html.j2",
        summary=summary,
        link=lambda path: _link(to_results, path),
        states=states,
        facts=setups.facts,
        footer=setups.footer,
        answer=answer,
        advice=advice,
        to_know=to_know,
        sentences=sentences,
        size=sizes.size,
        sparkline=sparkline,
        overview_drawing=overview_drawing,
        first_pictures=first_pictures,
        further_pictures=further_pictures,
        scaling_tables=first_tables,
        allreduce_tables=allreduces.tables,
        loss_tables=losses.tables,
        further_tables=further_tables,
        measured_sizes=measured_sizes,
        remarks=remarks,
        slow_host_sentences=slowness.host_sentences,
        mixtures=setups.mixtures,
        sweep_tables=sweep.tables,
        methods=methods,
        law_names=NAMES,
        parameter_texts=parameter_texts,
        contradicted=CONTRADICTED,
        history_sentences=history.sentences,
        shown=setups.shown,
    )


def _link(to_results: str, path: str) -> str:
    """Return a link to a file of the results, or `#` if an untrusted table names a file outside."""
    parts = Path(path)
    return "#" if parts.is_absolute() or ".." in parts.parts else quote(f"{to_results}/{path}")
