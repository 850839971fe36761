"""Which results are not of what is asked for now, and why: those are measured again."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argosy import reading
from argosy.errors import plain
from argosy.reading import site_of
from argosy.runtime.program_files import changed, programs_of

OTHER_PLAN = "what is asked for has changed"
MOST_NAMED = 3


@dataclass(frozen=True)
class Programs:
    """The programs in a project's folder of them as they are now; each is read once."""

    workloads: Path
    _digests: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, description: Mapping[str, Any]) -> dict[str, str]:
        """Digests of the files that a run's program is made of (`runtime/program_files.py`).

        Args:
            description: a run.json.
        """
        key = repr((description.get("command"), description.get("rank_environment")))
        if key not in self._digests:
            self._digests[key] = programs_of(description, str(self.workloads))
        return self._digests[key]


def why_outdated(folder: Path, description: Mapping[str, Any], programs: Programs) -> str | None:
    """Say why a run's result is not of what `description`, a run.json, asks for; None if it is, or is none.

    A result from before results said what they are of is of the run.json beside it, and of any program.
    """
    result = read_own_object(folder / "result.json")
    if result is None:
        return None
    if "spec" in result:
        is_other = result["spec"] != description["spec"]
    else:
        planned = read_own_object(folder / "run.json") or {}
        is_other = {**planned, "spec": description["spec"]} != description
    if is_other:
        return OTHER_PLAN
    names = changed_programs(result, description, programs)
    return f"{_some(names)} {'has' if len(names) == 1 else 'have'} changed" if names else None


def changed_programs(
    result: Mapping[str, Any], description: Mapping[str, Any], programs: Programs
) -> list[str]:
    """The files of the program of `description`, a run.json, that are not those of a result or verdict."""
    before = result.get("programs")
    return changed(before, programs.of(description)) if isinstance(before, dict) else []


def describe_outdated(outdated: Mapping[str, str]) -> list[str]:
    """Say which runs are measured again, one line for each cause.

    Args:
        outdated: the causes by `EXPERIMENT/RUN`.
    """
    by_cause: defaultdict[str, list[str]] = defaultdict(list)
    for run, cause in outdated.items():
        by_cause[cause].append(run)
    return [
        plain(f"Measured again, since {cause}: {_some(runs)}") for cause, runs in by_cause.items()
    ]


def read_own_object(path: Path) -> Mapping[str, Any] | None:
    """The JSON object in a file; None without a file, and an empty one for what is damaged."""
    try:
        return reading.read_object(path, site_of(path.parent))
    except FileNotFoundError:
        return None
    except (ValueError, reading.NotReadError):
        return {}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
