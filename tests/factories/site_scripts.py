"""Batch scripts as users get them: of each site, in a project in /project, its file filled in."""

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from site_cases import SITES, Case, cases

import argosy
from argosy.jobs import planning
from argosy.jobs.building import Build, write_script
from argosy.jobs.planning import Project, Target, plan_runs, write_runs
from argosy.schedulers import slurm
from argosy.schedulers.slurm.shared_script import script_text
from argosy.site.models import read_site
from argosy.study.runs import Run
from argosy.study.sizes import Checkpoints, Resources
from argosy_images.oci import ImageConfig
from argosy_images.store.lockfile import ImageLock, LockedBase

LOCK = ImageLock(
    name="torch",
    digest="sha256:" + "0123456789abcdef" * 4,
    architecture="x86_64",
    base=LockedBase(reference="debian", source="archive", diff_id=f"sha256:{0:064}"),
    steps=(),
    config=ImageConfig(),
)


def script_of(slurm_dir: Path, case: Case) -> str:
    """The script of a case: a run, a build by a job, or a job that runs of one and of two nodes share."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        root = Path(folder)
        if case.name == "build":
            text = _build(case, root, slurm_dir, patch)
        elif case.name == "allocation":
            sizes = [replace(case, nodes=nodes) for nodes in (1, 2)]
            runs = [script.parent for script in _write(sizes, root, slurm_dir, patch)]
            text = script_text(runs[0].parent / "allocation-repeat1", runs)
            text = re.sub("[0-9a-f]{64}", "0" * 64, text)
        else:
            (script,) = _write([case], root, slurm_dir, patch)
            text = script.read_text(encoding="utf-8")
        return text.replace(str(root), "/project")


def write_all(slurm_dir: Path, folder: Path) -> list[Path]:
    """Write the scripts of all sites and cases below a folder."""
    written = []
    for case in cases():
        if case.refused is None:
            path = folder / case.site / f"{case.name}.sbatch"
            path.parent.mkdir(exist_ok=True)
            path.write_text(script_of(slurm_dir, case), encoding="utf-8")
            written.append(path)
    return written


def _write(
    cases: Sequence[Case], root: Path, slurm_dir: Path, patch: pytest.MonkeyPatch
) -> list[Path]:
    """Write the scripts of cases of one site and folder."""
    project = Project(root / cases[0].folder)
    (project.path / "containers/workloads").mkdir(parents=True)
    _copy_site(slurm_dir, project.slurm_dir, cases[0].site)
    patch.setattr(argosy, "__file__", "/project/argosy/__init__.py")
    patch.setattr(sys, "executable", "/project/.venv/bin/python")
    patch.setattr(slurm, "LOG_WORDS", Path("/project/argosy/schedulers/slurm/log_words.py"))
    patch.setattr(planning, "nvml_module", lambda: "/project/.venv/pynvml.py")
    patch.setattr(planning, "describe_provenance", lambda *_: {})
    where = Target(cases[0].site, cases[0].hardware)
    runs = [_run_of(case) for case in cases]
    return write_runs(project, plan_runs(project, where, runs, {LOCK.name: LOCK}))


def _build(case: Case, root: Path, slurm_dir: Path, patch: pytest.MonkeyPatch) -> str:
    project = Project(root / case.folder)
    _copy_site(slurm_dir, project.slurm_dir, case.site)
    patch.setattr(sys, "executable", "/project/.venv/bin/python")
    build = Build(project, case.site, "torch", root / "image.lock", root / "build.log")
    script = write_script(build, read_site(project.slurm_dir / case.site))
    return script.read_text(encoding="utf-8")


def _copy_site(slurm_dir: Path, target: Path, site: str) -> None:
    for folder in ("templates", site):
        shutil.copytree(slurm_dir / folder, target / folder)
    path = target / site / "site.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if site in SITES:
        _fill_in(content, SITES[site].written)
    path.write_text(yaml.safe_dump(content, sort_keys=False, width=1000), encoding="utf-8")


def _fill_in(content: dict[str, Any], written: Mapping[str, Any]) -> None:
    for key, value in written.items():
        if isinstance(value, Mapping):
            _fill_in(content.setdefault(key, {}), value)
        else:
            content[key] = value


def _run_of(case: Case) -> Run:
    return Run(
        experiment="digits",
        nodes=case.nodes,
        ranks_per_node=case.ranks_per_node,
        repeat=1,
        scaling="strong",
        image="torch",
        command=("python3", "/workloads/torch/digits.py"),
        launcher=case.launcher,
        runtime=case.runtime,
        resources=Resources(
            cpus_per_rank=case.cpus,
            gpus_per_rank=case.gpus,
            memory_per_rank=1024,
            time=1800,
            same_allocation=case.same_allocation,
        ),
        checkpoints=Checkpoints(warning=case.warning, restarts=case.restarts)
        if case.warning
        else None,
        least_nodes=case.least_nodes,
        throughput=None,
        data=case.data,
    )
