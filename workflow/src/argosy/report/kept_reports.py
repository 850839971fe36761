"""Read summary.json and the earlier summaries in `history/`, and keep replaced ones there."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from argosy.report.summary.models import SUMMARY_VERSION, Summary, read_summary
from argosy.report.topics.history.measure import PastSummary, commits, measured_keys, past_summary
from argosy_common.errors import ArgosyError, plain_texts, some
from argosy_common.files import write_text
from argosy_common.reading import NotReadError, entries, json_of, read_bytes, read_object

SUMMARY = "summary.json"
HISTORY = "history"
MOST_REPORTS = 100
"""Maximum number of summaries read from a history; older ones are ignored."""
_MOST_BYTES = 256 << 20
_FEWEST_LETTERS = 4
_DIGITS = 8
"""Shown digits of a commit or digest."""


@dataclass(frozen=True)
class PastReports:
    """Earlier summaries of a site, oldest first, and a message for each ignored file."""

    summaries: list[PastSummary]
    left_out: list[str]


def read_report(folder: Path, path: Path | None = None) -> tuple[dict[str, Any], Summary]:
    """Read a summary.json of a site's folder, the current one or `path`.

    Returns:
        Its JSON content, and the same as a Summary.

    Raises:
        ArgosyError: The file is missing, damaged or has another schema_version.
    """
    again = "name another report of the site" if path else f"run: argosy report {folder}"
    path = path or folder / SUMMARY
    try:
        content = plain_texts(read_object(path, folder, _MOST_BYTES))
        version = content["schema_version"]
        if version != SUMMARY_VERSION:
            raise ArgosyError(
                f"{path}: its schema_version is {version}; this Argosy reads {SUMMARY_VERSION}",
                again,
            )
        return content, read_summary(content)
    except FileNotFoundError:
        raise ArgosyError(f"{path}: there is no report yet", again) from None
    except NotReadError as problem:
        raise ArgosyError(f"{path}: {problem.strerror}", again) from None
    except PermissionError:
        raise
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ArgosyError(f"{path}: is damaged: {key}: {first['msg']}", again) from None
    except (OSError, ValueError, KeyError):
        raise ArgosyError(f"{path}: is damaged", again) from None


def past_reports(folder: Path) -> PastReports:
    """Read the newest MOST_REPORTS summaries of a site's history."""
    paths = _kept(folder)
    found = {path: _past(path, folder) for path in paths[-MOST_REPORTS:]}
    older = len(paths) - len(found)
    return PastReports(
        [past for past in found.values() if past],
        [
            *([f"{folder / HISTORY}: the oldest {older} reports are left out"] if older else ()),
            *(
                f"{path}: is left out, since it is not a summary"
                for path in found
                if not found[path]
            ),
        ],
    )


def keep_replaced(folder: Path, new: Summary, past: Sequence[PastSummary]) -> list[PastSummary]:
    """Copy summary.json to the history, unless `new` and `past` contain all its measurements.

    Returns:
        `past`, and the copied summary if there is one.
    """
    path = folder / SUMMARY
    replaced = _past(path, folder)
    known = measured_keys(new.runs).union(*(measured_keys(each.runs) for each in past))
    if replaced is None or not measured_keys(replaced.runs) - known:
        return [*past]
    content = read_bytes(path, folder, _MOST_BYTES)
    name = f"{_day(replaced)}-{hashlib.sha256(content).hexdigest()[:8]}.json"
    write_text(folder / HISTORY / name, content.decode())
    return [*past, replaced]


def report_called(folder: Path, word: str) -> Summary:
    """Return the newest report of a site that matches `word`.

    Args:
        folder: The site's results.
        word: Prefix of a report's date in the history, of the only commit of its runs, or of an image's
            digest; or an image's name. If an image matches, only its experiments are returned.

    Raises:
        ArgosyError: No report matches, or the report cannot be read.
    """
    there: list[str] = []
    for path in (folder / SUMMARY, *reversed(_kept(folder))):
        past = _past(path, folder)
        if past is None:
            continue
        told = {*commits(past).values()}
        dates = [path.stem] if path.name != SUMMARY else []
        whole = [*dates, *(told if len(told) == 1 else ())]
        images = {one.setup.image for one in past.experiments if _is_of(one.setup.image, word)}
        if images or (word and any(name.startswith(word) for name in whole)):
            _, found = read_report(folder, path)
            kept = [each for each in found.experiments if each.setup.image in images]
            return replace(found, experiments=kept) if images else found
        there += [*dates, *(commit[:_DIGITS] for commit in told)]
        there += [shown for one in past.experiments if (shown := _image_in_short(one.setup.image))]
    names = some([*dict.fromkeys(there)])
    raise ArgosyError(
        f"{folder}: no report matches {word or 'nothing'}",
        f"there are {names}" if there else f"run: argosy report {folder}",
    )


def _is_of(image: str | None, word: str) -> bool:
    name, _, digest = (image or "").rpartition(" ")
    digest = digest.removeprefix("sha256:")
    begin = word.removeprefix("sha256:")
    return bool(word) and (
        word == name or (len(begin) >= _FEWEST_LETTERS and digest.startswith(begin))
    )


def _image_in_short(image: str | None) -> str:
    name, _, digest = (image or "").rpartition(" ")
    return f"{name} ({digest.removeprefix('sha256:')[:_DIGITS]})" if name else ""


def _kept(folder: Path) -> list[Path]:
    """List the files of a history, oldest first."""
    try:
        names = sorted(
            each.name for each in entries(folder / HISTORY, folder) if each.name.endswith(".json")
        )
    except OSError:
        return []
    return [folder / HISTORY / name for name in names]


def _past(path: Path, top: Path) -> PastSummary | None:
    """Read the fields of a summary.json that a history needs; None if it is missing or invalid."""
    try:
        return past_summary(plain_texts(json_of(read_bytes(path, top, _MOST_BYTES))))
    except (OSError, ValueError, RecursionError):
        return None


def _day(summary: PastSummary) -> str:
    starts = [run.started_unix_s for run in summary.runs if run.started_unix_s is not None]
    try:
        return f"{datetime.fromtimestamp(max(starts), UTC):%Y-%m-%dT%H%M}"
    except (ValueError, OverflowError, OSError):
        return "undated"
