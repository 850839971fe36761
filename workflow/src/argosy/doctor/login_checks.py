"""Checks on the login node, before anything is submitted."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from argosy.doctor.findings import Finding, ok, warning, wrong
from argosy.schedulers.batch_system import BatchSystem
from argosy.schedulers.script_template import ScriptTemplate
from argosy.yaml_file import read_yaml
from argosy_common.errors import ArgosyError
from argosy_common.units import amount
from argosy_images import ImageLock, Store

TEMPLATE = "job.sbatch.j2"
LITTLE_BYTES = 1 << 30
"""Bytes of free space below which images and records soon fill the disk."""


def profile(site_dir: Path) -> Finding:
    """Check that the Snakemake profile chooses this site."""
    check, path = "profile", site_dir / "config.yaml"
    name = f"slurm/{site_dir.name}/config.yaml"
    wanted = f"config: [site={site_dir.name}]"
    if not path.exists():
        return wrong(check, f"{name}: missing", f"write into it: {wanted}")
    try:
        content = read_yaml(path)
    except ArgosyError as problem:
        return wrong(check, problem.problem, f"correct it; it needs: {wanted}")
    chosen = content.get("config") if isinstance(content, dict) else None
    words = chosen if isinstance(chosen, list) else [chosen]
    if f"site={site_dir.name}" not in words:
        said = f"config is {chosen}" if chosen else "it has no `config`"
        return wrong(
            check, f"{name}: {said}, so it belongs to another site", f"write into it: {wanted}"
        )
    return ok(check, f"{name} chooses this site")


def template(system: BatchSystem, site_dir: Path) -> Finding:
    """Check that the batch script's template can be read."""
    try:
        ScriptTemplate(system, site_dir, TEMPLATE)
    except ArgosyError as problem:
        return wrong("template", problem.problem, problem.hint or "correct the template")
    return ok("template", "the batch script's template can be read")


def nearest(path: Path) -> Path:
    """Return the path, or its nearest existing parent: the first image makes the store."""
    return next(each for each in (path, *path.parents) if os.path.lexists(each))


def folders(project: Path, store: Store) -> Iterator[Finding]:
    """Check that the store and the project are writable and have free space."""
    for check, path in (("store", store.path), ("project", project)):
        there = nearest(path)
        try:
            with tempfile.TemporaryFile(dir=there) as file:
                file.write(b"\0" * 65_536)
                os.fsync(file.fileno())
        except OSError as problem:
            yield wrong(
                check,
                f"{path} is not writable: {problem.strerror}",
                "free some of your quota there, or move it"
                + (" (ARGOSY_STORE names the store)" if check == "store" else ""),
            )
            continue
        size = os.statvfs(there)
        room = size.f_bavail * size.f_frsize
        if room < LITTLE_BYTES:
            yield warning(check, f"{path} has {amount(room)} free", "free space there")
        else:
            yield ok(check, f"{path} is writable; {amount(room)} free")


def images(project: Path, store: Store) -> Finding:
    """Check that the project's locked images are in the store."""
    check, missing, there = "images", [], 0
    for path in sorted((project / "resources/images").glob("*/image.lock")):
        try:
            lock = ImageLock.read(path)
        except ArgosyError as problem:
            return wrong(check, problem.problem, problem.hint)
        if store.root(lock.digest).is_dir():
            there += 1
        else:
            missing.append(path.parent.name)
    if missing:
        return wrong(
            check,
            f"resources/images/: the store lacks {', '.join(missing)}",
            f"argosy image build {missing[0]}, or import it again",
        )
    return ok(check, f"{there} locked images are in the store")
