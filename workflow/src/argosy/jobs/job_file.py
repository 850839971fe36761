"""job.json: which jobs were submitted for a run, so that a later driver finds them again."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy.errors import ArgosyError
from argosy.files import write_json
from argosy.reading import open_regular, read_object, site_of

SCHEMA_VERSION = 1
Entry = Mapping[str, Any]


def entries(run_dir: Path) -> list[dict[str, Any]]:
    """The jobs of a run, the newest last.

    Raises:
        ArgosyError: when the file cannot be read, or is of another schema version.
    """
    path = run_dir / "job.json"
    try:
        content = read_object(path, site_of(run_dir))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as problem:
        raise _unusable(path, getattr(problem, "strerror", None) or str(problem)) from None
    if content.get("schema_version") != SCHEMA_VERSION:
        raise ArgosyError(
            f"{path}: schema_version {content.get('schema_version')} is not {SCHEMA_VERSION}; "
            "move this run's folder away and run again"
        )
    found = content.get("jobs")
    if not isinstance(found, list) or not all(map(_is_entry, found)):
        raise _unusable(path, "its jobs are no list of jobs, each with its job_id")
    return found


def _is_entry(found: object) -> bool:
    return isinstance(found, dict) and isinstance(found.get("job_id"), str | int)


def _unusable(path: Path, why: str) -> ArgosyError:
    return ArgosyError(f"{path}: {why}; move this run's folder away and run again")


def newest(run_dir: Path) -> Entry | None:
    """The job that was submitted last."""
    found = entries(run_dir)
    return found[-1] if found else None


def add(run_dir: Path, entry: Entry) -> None:
    """Note a submitted job."""
    _write(run_dir, [*entries(run_dir), dict(entry)])


def change(run_dir: Path, job_id: str, changes: Entry) -> None:
    """Note more about a submitted job; nothing happens where it is not known."""
    found = entries(run_dir)
    if any(entry["job_id"] == job_id for entry in found):
        _write(run_dir, [{**e, **changes} if e["job_id"] == job_id else e for e in found])


def digest(script: Path) -> str:
    """What a job's script was, to know whether it is still the one that would be submitted."""
    with open_regular(script, site_of(script.parent)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(run_dir: Path, jobs: list[dict[str, Any]]) -> None:
    write_json(run_dir / "job.json", {"schema_version": SCHEMA_VERSION, "jobs": jobs})
