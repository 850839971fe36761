"""A small project with results, to be bundled, and the bundle's files as a reader sees them."""

import getpass
import hashlib
import json
import zipfile
from pathlib import Path

from study_files import plan

from argosy.bundle.bundling import Request, write_bundle
from argosy.report import write_report
from argosy.results import collect

SITE = "testbed"
RUN = f"results/{SITE}/digits/nodes1-ranks1-repeat1"


def make_project(top: Path, command: str = "python3 train.py") -> Path:
    """A project without images: runs on one and two nodes, one failed run, tables and report."""
    files = {
        "Snakefile": "# The rules.\n",
        "README.md": "# A study\n",
        "config/config.yaml": "experiments: {}\n",
        f"slurm/{SITE}/site.yaml": "scheduler: slurm\nslurm: {account: grant-77}\n",
        "containers/workloads/train.py": "print('training')\n",
        "workflow/rules/run.smk": "# A rule.\n",
    }
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    results = top / "results" / SITE
    for nodes in (1, 2):
        for repeat in (1, 2):
            run = plan(results, "digits", nodes, 1, repeat, command=command)
            run.execute()
            run.steps(steps=30)
            run.telemetry(0, gpus=1)
    failed = plan(results, "digits", 4, 1, 1, command=command)
    failed.execute(state="failed", failure={"node": 0, "rank": 0, "cause": "exit code 1"})
    study = {"schema_version": 1, "project": str(top), "store": f"/scratch/{getpass.getuser()}"}
    (results / "study.json").write_text(json.dumps(study))
    collect(results, results / "tables")
    write_report(results)
    return top


def bundled(project: Path, target: Path, **more: object) -> Path:
    """The project's bundle, without images."""
    request = Request(project=project, sites=(), with_images=False, **more)  # type: ignore[arg-type]
    write_bundle(request, target, lambda line: None)
    return target


def contents(bundle: Path) -> dict[str, bytes]:
    """The files of a bundle, by name."""
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def forged(
    target: Path,
    files: dict[str, bytes],
    *,
    comment: bytes | None = None,
    checksums: bytes = b"",
    method: int = zipfile.ZIP_STORED,
) -> Path:
    """A bundle whose checksums are right, whatever is in it."""
    listed = {name: content for name, content in files.items() if name != "manifest-sha256.txt"}
    lines = (f"{hashlib.sha256(c).hexdigest()}  {n}\n" for n, c in sorted(listed.items()))
    checksums = checksums or "".join(lines).encode()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in listed.items():
            archive.writestr(name, content)
        archive.writestr("manifest-sha256.txt", checksums)
        digest = hashlib.sha256(checksums).hexdigest()
        archive.comment = comment or f"argosy bundle 1 sha256:{digest}".encode()
    return target
