"""Packs a study into one archive: files, images, and optionally Argosy's packages and tools."""

import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import argosy
from argosy.bundle.actions import BundledRun
from argosy.bundle.archive import (
    CRATE,
    DESCRIPTION,
    BundleDescription,
    BundledImage,
    BundleWriter,
    Progress,
    is_bundle,
    writing,
)
from argosy.bundle.contents import Contents, Member, find_contents, refuse_secrets
from argosy.bundle.crate import Study, crate
from argosy.report.runs.study_tables import open_study
from argosy.report.topics.usage import Usage, usage
from argosy.results.errors import ResultsError
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.models import RunFolderError
from argosy_common.errors import ArgosyError, some
from argosy_common.files import json_text, replacing
from argosy_common.reading import read_object
from argosy_common.units import amount
from argosy_images import ImageLock, Store, Tools, export_image

WHEELS, TOOLS = "wheels", "container-tools.tar.gz"
LOCK = "requirements.lock"
_TOOL_FOLDERS = ("bin", "lib", "doc")
_BUILD_BACKEND = "setuptools>=77"
"""The build backend in pyproject.toml, to install Argosy itself from its source."""


def of_environment(project: Path, work: Path, say: Callable[[str], None]) -> Iterator[Member]:
    """Yield wheels of the pinned packages and a tarball of udocker's tools, created below `work`.

    Raises:
        ArgosyError: if a package cannot be downloaded, or the container tools are missing.
    """
    if not (project / LOCK).is_file():
        raise ArgosyError(f"there is no {LOCK} here", "bundle without --environment")
    folder = work / WHEELS
    say("fetching the packages of Argosy's environment")
    _wheels(project, folder, ["--require-hashes", "--requirement", str(project / LOCK)])
    _wheels(project, folder, [_BUILD_BACKEND])
    for path in sorted(folder.glob("*.whl")):
        yield _member_of(path, work)
    yield _member_of(_tools(Store.of_project(project), work / TOOLS), work)


def _wheels(project: Path, folder: Path, wanted: list[str]) -> None:
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "--quiet",
        "--use-pep517",
    ]
    command = [*pip, "--no-deps", "--wheel-dir", str(folder), *wanted]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        raise ArgosyError(f"cannot download the packages of {LOCK}:  pip: {said}")


def _tools(store: Store, target: Path) -> Path:
    """Write the store's container tools in the layout that udocker installs."""
    if not (store.udocker / "lib" / "VERSION").is_file():
        raise ArgosyError(f"{store.udocker}: the container tools are missing", "run: argosy setup")
    with tarfile.open(target, "w:gz") as archive:
        for name in _TOOL_FOLDERS:
            if (store.udocker / name).is_dir():
                archive.add(store.udocker / name, f"udocker_dir/{name}")
        # A distribution's proot is elsewhere; nodes without user namespaces need it.
        proot = Tools(store).find_proot()
        if proot and not proot.is_relative_to(store.udocker):
            archive.add(proot.resolve(), f"udocker_dir/bin/proot-{Tools.machine()}")
    return target


def _member_of(path: Path, top: Path) -> Member:
    return Member(path.relative_to(top).as_posix(), path, top, path.lstat())


Say = Callable[[str], None]
_SUMMARY_BYTES = 256 << 20


@dataclass(frozen=True)
class Request:
    """A request for a bundle.

    Args:
        sites: folders of results/ to include; empty: all sites with results.
        excluded: patterns of files to exclude, as in .gitignore.
        with_images: whether to add images, or only their digests.
        with_environment: whether to add packages and tools for an offline machine.
        license: address of the study's licence; None if not stated.
    """

    project: Path
    sites: Sequence[str]
    excluded: Sequence[str] = ()
    with_images: bool = True
    with_environment: bool = False
    license: str | None = None


def write_bundle(request: Request, target: Path, say: Say) -> list[str]:
    """Write the bundle to `target` atomically; return lines about its content.

    Raises:
        ArgosyError: if there is no study, a file may contain a secret, or an image is not in the store.
    """
    if target.is_dir():
        raise ArgosyError(f"{target}: this is a folder", "name the file to write: study.zip")
    if target.exists() and not is_bundle(target):
        raise ArgosyError(f"{target}: exists and is not a bundle", "name another file")
    sites = request.sites or _sites_with_results(request.project)
    contents = find_contents(request.project, sites, request.excluded)
    if not any(member.name == "Snakefile" for member in contents.members):
        raise ArgosyError("there is no Snakefile here", "change to the project's folder")
    size = amount(sum(member.size for member in contents.members))
    say(f"searching {len(contents.members):,} files ({size}) for secrets")
    refuse_secrets(contents.members)
    locks = _locks(request.project, sites)
    if target.exists():
        say(f"{target}: replacing the existing bundle")
    with (
        TemporaryDirectory(dir=_folder_of(target), prefix=f".{target.name}.") as work,
        replacing(target) as temporary,
        writing(temporary) as writer,
    ):
        progress = Progress(sum(member.size for member in contents.members), say)
        for member in contents.members:
            with member.open() as file:
                progress.add(writer.add_file(member.name, file))
        if request.with_environment:
            for member in of_environment(request.project, Path(work), say):
                with member.open() as file:
                    writer.add_file(member.name, file)
        images = [_add_image(request, lock, writer, Path(work), say) for lock in locks]
        _describe(writer, request, sites, contents, images)
    return _summary_lines(target, sites, contents, locks, request)


def _describe(
    writer: BundleWriter,
    request: Request,
    sites: Sequence[str],
    contents: Contents,
    images: Sequence[BundledImage],
) -> None:
    """Add the bundle's description and the crate's metadata."""
    description = BundleDescription(
        argosy=argosy.__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        sites=tuple(sites),
        inputs={site: _inputs(request.project, site) for site in sites},
        images=tuple(images),
        executable=tuple(member.name for member in contents.members if member.executable),
    )
    writer.add_text(DESCRIPTION, json_text(description.model_dump(mode="json")))
    # Runs that were not excluded.
    runs = [run for run in _runs(request.project, sites) if f"{run.path}/run.json" in writer.names]
    for run in runs:
        writer.add_folder(run.path)
    study = Study(description, runs, writer.names, version("snakemake"), request.license)
    writer.add_text(CRATE, json_text(crate(study)))


def _add_image(
    request: Request, lock: ImageLock, writer: BundleWriter, work: Path, say: Say
) -> BundledImage:
    path = ImageLock.path_of(Path(), lock.name)
    with (request.project / path).open("rb") as file:
        writer.add_file(str(path), file)
    if not request.with_images:
        return BundledImage(name=lock.name, digest=lock.digest, archive=None)
    say(f"adding the image {lock.name}")
    archive, name = work / "image.oci.tar", f"{path.parent}/{lock.name}.oci.tar"
    export_image(Store.of_project(request.project), lock, archive)
    with archive.open("rb") as file:
        size = writer.add_file(name, file)
    archive.unlink()
    say(f"added the image {lock.name}, {amount(size)}")
    return BundledImage(name=lock.name, digest=lock.digest, archive=name)


def _sites_with_results(project: Path) -> list[str]:
    return sorted(path.parent.name for path in project.glob("results/*/study.json"))


def _locks(project: Path, sites: Sequence[str]) -> list[ImageLock]:
    """Return the locks of the images that the sites' runs use; all locks if there are no runs."""
    locks = [ImageLock.read(path) for path in sorted(project.glob("resources/images/*/image.lock"))]
    runs = _readable_runs(project, sites)
    used = {run.spec.image.name for run in runs if run.spec.image}
    return [lock for lock in locks if lock.name in used or not runs]


def _runs(top: Path, sites: Sequence[str]) -> list[BundledRun]:
    used = {site: _usage(top / "results" / site) for site in sites}
    return [
        BundledRun(run, used[run.site.name].get((run.spec.experiment, run.spec.run_id)))
        for run in _readable_runs(top, sites)
    ]


def _readable_runs(top: Path, sites: Sequence[str]) -> list[RunFolder]:
    """Return the sites' runs, sorted by name, without unreadable folders."""
    found: list[RunFolder] = []
    for site in sites:
        for path in sorted((top / "results" / site).glob("*/*/run.json")):
            run = RunFolder(path.parent)
            with suppress(RunFolderError):
                _ = run.spec
                found.append(run)
    return found


def _usage(results: Path) -> Mapping[tuple[str, str], Usage]:
    """Return resource usage by (experiment, run); empty without tables of this version."""
    try:
        with open_study(results / "tables") as tables:
            return usage(tables)
    except ResultsError:
        return {}


def _inputs(top: Path, site: str) -> str | None:
    """Return the digest of a study's inputs from its report."""
    folder = top / "results" / site
    try:
        found = read_object(folder / "summary.json", folder, _SUMMARY_BYTES).get("inputs")
    except (OSError, ValueError):
        return None
    return found if isinstance(found, str) else None


def _summary_lines(
    target: Path,
    sites: Sequence[str],
    contents: Contents,
    locks: Sequence[ImageLock],
    request: Request,
) -> list[str]:
    kind = "images" if request.with_images else "digests of the images"
    images = f"{kind} {', '.join(lock.name for lock in locks)}" if locks else "no images"
    lines = [
        f"{target}: {len(contents.members):,} files, results of {', '.join(sites) or 'no site'}, {images}; "
        f"{amount(target.stat().st_size)}"
    ]
    if contents.left_out:
        lines.append(f"left out (links, special files, odd names): {some(contents.left_out, 3)}")
    return lines


def _folder_of(target: Path) -> Path:
    folder = target.absolute().parent
    if not folder.is_dir():
        raise ArgosyError(f"{target}: there is no folder {folder}")
    return folder
