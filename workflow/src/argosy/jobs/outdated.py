"""Finds outdated results, which do not match the current request and are measured again."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from argosy.run_folder.models import (
    OtherVersionError,
    RunFolderError,
    Verdict,
    read_model,
    read_object,
)
from argosy.runtime.contract.run import RunSpec
from argosy.runtime.program_files import Program, changed
from argosy_common.errors import plain, some
from argosy_common.reading import site_of

OTHER_PLAN = "the request has changed"
DAMAGED = "its result cannot be read"
MOST_NAMED = 3


@dataclass(frozen=True)
class Programs:
    """Current digests of the user's programs; each is read once."""

    workloads: Path
    _digests: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, spec: RunSpec) -> dict[str, str]:
        """Return the digests of a run's program files (`runtime/program_files.py`)."""
        key = repr((spec.command, spec.launcher_words, spec.rank_environment, spec.runtime))
        if key not in self._digests:
            self._digests[key] = self._program(spec).digests()
        return self._digests[key]

    def changed(self, before: Mapping[str, str], spec: RunSpec) -> list[str]:
        """Return the files of `before` that differ or are gone, even if the program no longer uses them."""
        now, program = self.of(spec), self._program(spec)
        return [
            name
            for name in changed(before, now)
            if name in now or program.digest(name) != before[name]
        ]

    def _program(self, spec: RunSpec) -> Program:
        return Program.of(spec, str(self.workloads))


def why_outdated(folder: Path, spec: RunSpec, programs: Programs) -> str | None:
    """Return why a run's result does not match `spec`; None if it matches, or without a result.

    Raises:
        OtherVersionError: for a result of another version of Argosy, which is kept.
    """
    path = folder / "result.json"
    if not path.is_symlink() and not path.exists():
        return None
    try:
        result = read_model(path, site_of(folder), Verdict)
    except OtherVersionError:
        raise
    except RunFolderError:
        return DAMAGED
    if result.spec != spec.spec:
        _check_version(folder / "run.json")
        return OTHER_PLAN
    names = changed_programs(result, spec, programs)
    return (
        f"{some(names, MOST_NAMED)} {'has' if len(names) == 1 else 'have'} changed"
        if names
        else None
    )


def _check_version(path: Path) -> None:
    """Raise OtherVersionError for a file that another version of Argosy wrote."""
    try:
        read_object(path, site_of(path.parent))
    except OtherVersionError:
        raise
    except RunFolderError:
        return


def changed_programs(result: Verdict, spec: RunSpec, programs: Programs) -> list[str]:
    """Return the program files of `spec` that have changed since a result or verdict."""
    return [] if result.programs is None else programs.changed(result.programs, spec)


def describe_outdated(outdated: Mapping[str, str]) -> list[str]:
    """Return a line for each cause, with the runs that are measured again.

    Args:
        outdated: the causes by `EXPERIMENT/RUN`.
    """
    by_cause: defaultdict[str, list[str]] = defaultdict(list)
    for run, cause in outdated.items():
        by_cause[cause].append(run)
    return [
        plain(f"Measured again, since {cause}: {some(runs, MOST_NAMED)}")
        for cause, runs in by_cause.items()
    ]
