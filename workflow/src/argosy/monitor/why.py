"""Describes the inputs of a run's result, and whether the run would be measured again."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from argosy.jobs.outdated import Programs, why_outdated
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.models import RunFolderError, SeenData, StagedData, Verdict
from argosy.runtime.contract.run import RunSpec
from argosy_common.errors import plain
from argosy_common.units import amount

_DIGITS = 12
"""Number of digits shown of a digest."""


def describe_dependencies(folder: Path, workloads: Path) -> Iterator[str]:
    """Yield a line for each input of a run's result, then whether the result is still valid.

    Raises:
        RunFolderError: if run.json cannot be read.
    """
    run = RunFolder(folder)
    spec, result = run.spec, _result(run)
    programs = Programs(workloads)
    cause = why_outdated(folder, spec, programs)
    image = f"{spec.image.name} {_short(spec.image.digest)}" if spec.image else "none"
    facts = {
        "result": f"of attempt {result.attempt}" if result else "none yet",
        "spec": _short(spec.spec or "unknown"),
        "image": f"{image}, without a container" if spec.is_native else image,
        "hardware": spec.hardware or "the site's only kind",
        "launcher": spec.launcher or "unknown",
        "command": shlex.join(spec.command),
        **({"bind": spec.bind} if spec.bind else {}),
    }
    # A value may be a secret.
    lines = [*facts.items(), *(("variable", name) for name in spec.rank_environment)]
    yield from (plain(f"{name:10}{value}") for name, value in lines)
    yield from _describe_programs(spec, result, programs)
    yield from _describe_data(run, result)
    yield ""
    if cause:
        yield plain(f"The next snakemake measures it again, since {cause}.")
    elif result:
        yield "The result is up to date with the newest plan and the programs."
    yield "To compare the result with a changed configuration, run: snakemake -n"


def _describe_programs(spec: RunSpec, result: Verdict | None, programs: Programs) -> Iterator[str]:
    """Yield the program's files with their digests, marking those that changed since the result."""
    now = programs.of(spec)
    before = (result and result.programs) or {}
    changed = {*programs.changed(before, spec)}
    for name in sorted({*now, *changed}):
        word = "  has changed" if name in changed else ""
        yield plain(f"{'program':10}{_short(now.get(name, 'gone')):{_DIGITS}}  {name}{word}")
    if not now:
        watched = "only in its image" if spec.image and not spec.is_native else "not watched"
        yield f"{'program':10}{watched}: the command names no file of yours"


def _describe_data(run: RunFolder, result: Verdict | None) -> Iterator[str]:
    """Yield the data that the result was measured with, or else the data of the request."""
    seen = run.data(result.attempt) if result else {}
    nodes = run.nodes(result.attempt) if result else []
    for target, asked in (run.spec.data or {}).items():
        found = seen.get(target)
        staged = [node.staged[target] for node in nodes if target in node.staged]
        line = f"{target}  {_of_data(found) if found else asked.path}{_of_copies(staged)}"
        yield plain(f"{'data':10}{line}")


def _of_copies(staged: Sequence[StagedData]) -> str:
    if not staged:
        return ""
    took = max(each.seconds for each in staged)
    there = sum(each.was_there for each in staged)
    return (
        f"; staged on each node in at most {took:.1f} s, already there on {there} of {len(staged)}"
    )


def _of_data(seen: SeenData) -> str:
    files = f"{seen.files:,} file{'' if seen.files == 1 else 's'}, {amount(seen.bytes)}"
    changed = datetime.fromtimestamp(seen.newest_unix, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    digest = f", sha256 {_short(seen.sha256)}" if seen.sha256 else ""
    return f"{seen.path}: {'' if seen.is_whole else 'at least '}{files}, changed {changed}{digest}"


def _result(run: RunFolder) -> Verdict | None:
    try:
        return run.result
    except RunFolderError:
        return None


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:_DIGITS]
