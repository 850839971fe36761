"""Batch scripts: the whole text, and nothing from a name or a path is ever run."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from argosy.errors import ArgosyError
from argosy.jobs.render import render_script
from argosy.site.models import read_site
from argosy.study.models import Needs

GOLDEN = Path(__file__).parents[2] / "golden"


def values(project: Path, **changes: Any) -> dict[str, Any]:
    run = {
        "run_id": "nodes2-ranks1-repeat1",
        "experiment": "digits",
        "nodes": 2,
        "ranks_per_node": 1,
        "image": {"name": "torch-cpu", "digest": "sha256:0123"},
    }
    return {
        "run": run,
        "needs": Needs(),
        "minutes": 30,
        "site": read_site(project / "slurm/local"),
        "job_name": "argosy-digits-nodes2-ranks1-repeat1",
        "run_dir": "/project/results/local/digits/nodes2-ranks1-repeat1",
        "runtime_dir": "/project/runtime",
        "workloads_dir": "/project/containers/workloads",
        "store": "/project/.argosy",
        "python": "/project/.venv/bin/python",
        **changes,
    }


def test_local_script_is_the_golden_one(project: Path) -> None:
    text = render_script(project / "slurm", "local", values(project))
    assert text == (GOLDEN / "local-2-nodes.sbatch").read_text()


def test_it_is_a_shell_script(project: Path, tmp_path: Path) -> None:
    script = tmp_path / "job.sbatch"
    script.write_text(render_script(project / "slurm", "local", values(project)))
    subprocess.run(["bash", "-n", script], check=True)


def test_names_with_spaces_and_shell_characters_stay_values(project: Path, tmp_path: Path) -> None:
    nasty = tmp_path / "a b; touch pwned $(touch pwned) 'quoted' \"q\" `touch pwned`"
    text = render_script(project / "slurm", "local", values(project, run_dir=nasty))
    assigned = next(line for line in text.splitlines() if line.startswith("run_dir="))
    done = subprocess.run(
        ["bash", "-c", f'{assigned}\nprintf %s "$run_dir"'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == str(nasty)
    assert list(tmp_path.iterdir()) == []


def test_a_template_that_asks_for_what_there_is_not_is_named(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/job.sbatch.j2").write_text("{{ no_such_value }}")
    with pytest.raises(ArgosyError, match=r"job.sbatch.j2: 'no_such_value' is undefined"):
        render_script(tmp_path, "site", {})
    (tmp_path / "templates/job.sbatch.j2").write_text("one\n{% block %}")
    with pytest.raises(ArgosyError, match=r"templates/job.sbatch.j2:2: "):
        render_script(tmp_path, "site", {})
