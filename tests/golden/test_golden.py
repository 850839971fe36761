"""Every batch script as a whole text, made the way a user's is; and what a shell says of it.

UPDATE_GOLDEN=1 writes the texts anew; look at the difference before it is kept.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from golden_cases import ODD_FOLDER, SITES, Case, Kept, cases

import argosy
from argosy.errors import ArgosyError
from argosy.images.config import ImageConfig
from argosy.images.store.lockfile import ImageLock, LockedBase
from argosy.jobs import planning
from argosy.jobs.building import Build, write_script
from argosy.jobs.planning import Project, Target, plan_runs, write_runs
from argosy.schedulers import slurm
from argosy.schedulers.slurm.shared_jobs import script_text
from argosy.site.models import read_site
from argosy.study.models import Checkpoints, Resources
from argosy.study.runs import Run

GOLDEN = Path(__file__).parent
UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"
KEPT = [case for case in cases() if case.refused is None]
REFUSED = [case for case in cases() if case.refused is not None]


def script_of(case: Case) -> Path:
    return GOLDEN / case.site / f"{case.name}.sbatch"


def build_of(site: str) -> Path:
    return GOLDEN / site / "build.sbatch"


def allocation_of(site: str) -> Path:
    return GOLDEN / site / "allocation.sbatch"


SHARING = [case for case in KEPT if case.same_allocation]
SCRIPTS = [
    *(script_of(case) for case in KEPT),
    *(build_of(site) for site in SITES),
    *(allocation_of(case.site) for case in SHARING),
]
LOCK = ImageLock(
    name="torch",
    digest="sha256:" + "0123456789abcdef" * 4,
    architecture="x86_64",
    base=LockedBase(reference="debian", source="archive", diff_id=f"sha256:{0:064}"),
    steps=(),
    config=ImageConfig(),
)


def named(case: Case) -> str:
    return f"{case.site}/{case.name}"


def render(case: Case, root: Path, sites: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The script as it would be in a project in /project, whose user filled in the site's file."""
    (script,) = write([case], root, sites, monkeypatch)
    return script.read_text(encoding="utf-8").replace(str(root), "/project")


def write(
    cases: list[Case], root: Path, sites: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Path]:
    """Write the scripts of cases of one site and folder."""
    project = Project(root / cases[0].folder)
    copy_site(sites, project.slurm_dir, cases[0].site)
    monkeypatch.setattr(argosy, "__file__", "/project/argosy/__init__.py")
    monkeypatch.setattr(sys, "executable", "/project/.venv/bin/python")
    words = Path("/project/argosy/schedulers/slurm/log_words.py")
    monkeypatch.setattr(slurm, "LOG_WORDS", words)
    monkeypatch.setattr(planning, "nvml_module", lambda: "/project/.venv/pynvml.py")
    monkeypatch.setattr(planning, "describe_provenance", lambda *_: {})
    where = Target(cases[0].site, cases[0].hardware)
    return write_runs(
        project, plan_runs(project, where, [run_of(case) for case in cases], {LOCK.name: LOCK})
    )


def render_allocation(case: Case, root: Path, sites: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The script of a job that runs of one and of two nodes share."""
    sizes = [replace(case, nodes=nodes, folder=ODD_FOLDER) for nodes in (1, 2)]
    runs = [script.parent for script in write(sizes, root, sites, monkeypatch)]
    text = script_text(runs[0].parent / "allocation-repeat1", runs)
    return re.sub("[0-9a-f]{64}", "0" * 64, text.replace(str(root), "/project"))


def render_build(site: str, root: Path, sites: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The script of a build by a job, made in the same way."""
    project = Project(root / ODD_FOLDER)
    copy_site(sites, project.slurm_dir, site)
    monkeypatch.setattr(sys, "executable", "/project/.venv/bin/python")
    build = Build(project, site, "torch", root / "image.lock", root / "build.log")
    script = write_script(build, read_site(project.slurm_dir / site))
    return script.read_text(encoding="utf-8").replace(str(root), "/project")


def copy_site(sites: Path, target: Path, site: str) -> None:
    for folder in ("templates", site):
        shutil.copytree(sites / folder, target / folder)
    path = target / site / "site.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if site in SITES:
        fill_in(content, SITES[site].written)
    path.write_text(yaml.safe_dump(content, sort_keys=False, width=1000), encoding="utf-8")


def fill_in(content: dict[str, Any], written: Mapping[str, Any]) -> None:
    for key, value in written.items():
        if isinstance(value, Mapping):
            fill_in(content.setdefault(key, {}), value)
        else:
            content[key] = value


def run_of(case: Case) -> Run:
    return Run(
        experiment="digits",
        nodes=case.nodes,
        ranks_per_node=case.ranks_per_node,
        repeat=1,
        scaling="strong",
        image="torch",
        command=("python3", "/workloads/torch/digits.py"),
        launcher="horovod",
        runtime=case.runtime,
        resources=Resources(
            cpus_per_rank=case.cpus,
            gpus_per_rank=case.gpus,
            memory_per_rank=1024,
            time=1800,
            same_allocation=case.same_allocation,
        ),
        checkpoints=Checkpoints(warning=case.warning) if case.warning else None,
        throughput=None,
    )


@pytest.mark.parametrize("case", KEPT, ids=named)
def test_script(case: Case, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(render(case, tmp_path, project / "slurm", monkeypatch), script_of(case))


def compare(text: str, golden: Path) -> None:
    """The text is the kept one, or becomes it."""
    if UPDATE:
        assert os.environ.get("CI") != "true", "in CI the texts are compared"
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("site", SITES)
def test_script_of_a_build(
    site: str, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(render_build(site, tmp_path, project / "slurm", monkeypatch), build_of(site))


@pytest.mark.parametrize("case", SHARING, ids=named)
def test_script_of_a_job_of_several_runs(
    case: Case, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = render_allocation(case, tmp_path, project / "slurm", monkeypatch)
    compare(text, allocation_of(case.site))


def test_an_image_in_memory_is_asked_for(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = Kept(written={"images": {"stage": "memory"}})
    monkeypatch.setitem(SITES, "testbed", changed)
    text = render(Case("testbed", "memory"), tmp_path, project / "slurm", monkeypatch)
    assert "\n    --stage memory\n    --bind " in text
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize("case", REFUSED, ids=named)
def test_what_a_site_does_not_have_is_refused(
    case: Case, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ArgosyError) as problem:
        render(case, tmp_path, project / "slurm", monkeypatch)
    assert str(problem.value).startswith(f"slurm/{case.site}/site.yaml: ")
    assert case.refused is not None
    assert case.refused in str(problem.value)
    assert "\n" not in str(problem.value)
    assert not script_of(case).exists()


def test_every_site_and_every_text_belongs_to_a_case(project: Path) -> None:
    folders = {path.parent.name for path in (project / "slurm").glob("*/site.yaml")}
    assert {*SITES, "local"} <= folders
    assert set(GOLDEN.glob("*/*.sbatch")) == {*SCRIPTS}


def test_bash_reads_every_script() -> None:
    for script in SCRIPTS:
        subprocess.run(["bash", "-n", script], check=True)


@pytest.mark.thorough
@pytest.mark.slow
def test_shellcheck_finds_nothing() -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("the program shellcheck is not installed (Debian package shellcheck)")
    scripts = [str(script) for script in SCRIPTS]
    # Single quotes are meant where a text is for the shells of the nodes.
    command = ["shellcheck", "--exclude=SC2016", *scripts]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == ""
    assert done.returncode == 0


def test_an_odd_path_stays_a_value(tmp_path: Path) -> None:
    for site in SITES:
        text = (GOLDEN / site / "odd-path.sbatch").read_text(encoding="utf-8")
        assigned = next(line for line in text.splitlines() if line.startswith("run_dir="))
        done = subprocess.run(
            ["bash", "-c", f'{assigned}\nprintf %s "$run_dir"'],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        run_dir = f"/project/{ODD_FOLDER}/results/{site}/digits/nodes1-ranks1-repeat1"
        assert done.stdout == run_dir
    assert list(tmp_path.iterdir()) == []
