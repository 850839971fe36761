"""Snakemake's options and modes of use work as its users expect."""

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from workspace import BIN, Workspace

EXPERIMENT = {
    "runtime": "native",
    "launcher": "plain",
    "command": "bash -c 'echo rate 5'",
    "throughput": "rate ([0-9]+)",
    "scale": {"nodes": [1], "repeats": 2},
    "resources": {"time": "2m"},
}
RUNS = ["nodes1-ranks1-repeat1", "nodes1-ranks1-repeat2"]
ALL_RULES = [
    "all",
    "figures",
    "image",
    "pack_image",
    "plan_runs",
    "preflight",
    "run",
    "tables",
    "write_report",
]


@pytest.fixture(scope="module")
def finished(make_workspace: Callable[[str], Workspace]) -> Workspace:
    """A study of one size without an image, measured."""
    workspace = make_workspace("a project; with $(odd) 'name'")
    workspace.configure({"quick": EXPERIMENT})
    succeed(workspace, "--quiet", "host")
    return workspace


def succeed(workspace: Workspace, *arguments: str | Path) -> str:
    """Run snakemake, and return what it printed."""
    status, output = workspace.run(BIN / "snakemake", *arguments)
    assert status == 0, output
    return output


def jobs_of(workspace: Workspace, run: str) -> int:
    """Return how many jobs a run has had."""
    content = (workspace.run_dir("quick", run) / "job.json").read_text()
    return len(json.loads(content)["jobs"])


def counts(output: str) -> dict[str, int]:
    """Return the jobs by rules of a dry run's table."""
    return {rule: int(n) for rule, n in re.findall(r"^(\w+) +(\d+)$", output, flags=re.MULTILINE)}


def test_a_dry_run_counts_the_jobs_and_makes_nothing(
    make_workspace: Callable[[str], Workspace],
) -> None:
    workspace = make_workspace("dry")
    workspace.configure({"quick": EXPERIMENT})
    wanted = {"all": 1, "plan_runs": 1, "run": 2, "tables": 1, "write_report": 1, "total": 6}
    assert counts(succeed(workspace, "-n")) == wanted
    assert not workspace.run_dir("quick", RUNS[0]).exists()


def test_rules_are_listed(finished: Workspace) -> None:
    status, output = finished.run(BIN / "snakemake", "--list-rules")
    assert status == 0, output
    assert sorted(line for line in output.splitlines() if line in ALL_RULES) == ALL_RULES


def test_the_graph_is_dots(finished: Workspace) -> None:
    output = succeed(finished, "--dag")
    assert "digraph snakemake_dag {" in output
    for rule in ("plan_runs", "run", "tables", "write_report", "all"):
        assert f'label = "{rule}' in output, output


def test_a_report_of_snakemake_holds_the_page(finished: Workspace) -> None:
    succeed(finished, "--report", "report.zip")
    subprocess.run(["python3", "-m", "zipfile", "-t", finished.path / "report.zip"], check=True)
    listed = subprocess.run(
        ["python3", "-m", "zipfile", "-l", finished.path / "report.zip"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "summary.csv" in listed and "report.html" in listed, listed


@pytest.mark.thorough
def test_until_ends_there(finished: Workspace, tmp_path: Path) -> None:
    results = finished.path / "results/local"
    (results / "report.html").rename(tmp_path / "report.html")
    for table in (results / "tables").iterdir():
        table.unlink()
    succeed(finished, "--until", "tables", "--quiet", "host")
    assert (results / "tables/runs.parquet").is_file()
    assert not (results / "report.html").exists()
    succeed(finished, "--quiet", "host")
    assert (results / "report.html").is_file()


def test_until_runs_is_refused_since_it_would_run_none(
    make_workspace: Callable[[str], Workspace],
) -> None:
    workspace = make_workspace("until")
    workspace.configure({"quick": EXPERIMENT})
    status, output = workspace.run(BIN / "snakemake", "--until", "run")
    assert status and "hint: use --until tables, which ends after all runs" in output, output


@pytest.mark.thorough
def test_a_run_is_forced_to_run_again(finished: Workspace) -> None:
    before = [jobs_of(finished, run) for run in RUNS]
    result = f"results/local/quick/{RUNS[0]}/result.json"
    succeed(finished, "--forcerun", result, "--quiet", "host")
    assert [jobs_of(finished, run) for run in RUNS] == [before[0] + 1, before[1]]


def test_nothing_is_left_to_unlock_or_to_do(finished: Workspace) -> None:
    succeed(finished, "--unlock")
    assert "Nothing to be done" in succeed(finished, "-n")


def test_an_archive_holds_the_workflow_and_the_study(finished: Workspace) -> None:
    """Snakemake archives what git keeps."""
    for command in (
        ["git", "init", "--quiet"],
        ["git", "add", "Snakefile", "workflow", "profiles", "config", "slurm"],
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all"],
    ):
        subprocess.run(command, cwd=finished.path, check=True)
    try:
        succeed(finished, "--archive", "archive.tar.gz")
    finally:
        shutil.rmtree(finished.path / ".git")
    with tarfile.open(finished.path / "archive.tar.gz") as archive:
        names = set(archive.getnames())
    assert {"Snakefile", "workflow/rules/jobs.smk", "config/config.yaml"} <= names


def test_another_executor_is_refused_before_anything_is_done(finished: Workspace) -> None:
    result = finished.run_dir("quick", RUNS[0]) / "result.json"
    result.unlink()
    before = jobs_of(finished, RUNS[0])
    status, output = finished.snakemake("--executor", "local", "--quiet", "host")
    assert status != 0
    (said,) = [line for line in output.splitlines() if "executor" in line]
    assert said.endswith("remove --executor, or write --executor argosy"), output
    assert "Traceback" not in output and "RuleException" not in output, output
    succeed(finished, "--quiet", "host")
    assert jobs_of(finished, RUNS[0]) == before + 1


@pytest.mark.thorough
def test_the_workflow_of_one_folder_runs_the_study_of_another(
    finished: Workspace, make_workspace: Callable[[str], Workspace]
) -> None:
    other = make_workspace("the study alone")
    for entry in ("Snakefile", "workflow", "profiles"):
        path = other.path / entry
        path.unlink() if path.is_file() else shutil.rmtree(path)
    other.configure({"quick": EXPERIMENT})
    command = [BIN / "snakemake", "-s", finished.path / "Snakefile", "-d", other.path]
    done = subprocess.run(
        command, cwd="/", env=other.environment, capture_output=True, text=True
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (other.path / "results/local/report.html").is_file()


DOCUMENTED = "/path/to/argosy/Snakefile"


@pytest.fixture
def outer(project: Path, finished: Workspace, tmp_path: Path) -> Callable[..., Workspace]:
    """Makes the documented workflow that uses this one as a module: Snakefile, site, configuration."""
    page = (project / "docs/as-a-module.md").read_text()
    (documented,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)

    def make(own_config: bool = True, names: str = " as argosy_*") -> Workspace:
        path = tmp_path / "a workflow of its own"
        for folder in ("slurm/local", "slurm/templates"):
            shutil.copytree(finished.path / folder, path / folder)
        study = {"experiments": {"quick": EXPERIMENT}}
        content = {"journal": "any", "argosy": study} if own_config else study
        name = "own.yaml" if own_config else "config.yaml"
        (path / "config").mkdir()
        (path / "config" / name).write_text(yaml.safe_dump(content))
        text = documented.replace(DOCUMENTED, str(finished.path / "Snakefile"))
        text = text.replace(" as argosy_*", names)
        if not own_config:
            text = text.replace('configfile: "config/own.yaml"\n', "")
            text = text.replace('    config:\n        config["argosy"]\n', "")
        (path / "Snakefile").write_text(text)
        return Workspace(path, finished.environment)

    return make


PROFILE = "--workflow-profile"


@pytest.mark.thorough
@pytest.mark.parametrize(("own_config", "names"), [(True, " as argosy_*"), (False, "")])
def test_another_workflow_uses_this_one_as_a_module(
    finished: Workspace, outer: Callable[..., Workspace], own_config: bool, names: str
) -> None:
    workspace = outer(own_config, names)
    profile = finished.path / "profiles/default"
    output = succeed(workspace, PROFILE, profile)
    assert "Running quick nodes1-ranks1-repeat1" in output, output
    page = workspace.path / "results/local/report.html"
    # Its own first rule is the default target.
    assert (workspace.path / "paper.txt").read_bytes() == page.read_bytes()
    assert "Nothing to be done" in succeed(workspace, "-n", PROFILE, profile)


@pytest.mark.thorough
def test_a_module_names_what_failed_and_only_looks_when_it_looks(
    finished: Workspace, outer: Callable[..., Workspace]
) -> None:
    workspace = outer()
    own = workspace.path / "config/own.yaml"
    own.write_text(own.read_text().replace("echo rate 5", "exit 3"))
    profile = finished.path / "profiles/default"
    before = sorted(workspace.path.rglob("*"))
    succeed(workspace, "-n", PROFILE, profile)
    after = [path for path in workspace.path.rglob("*") if ".snakemake" not in path.parts]
    assert sorted(after) == before
    status, output = workspace.run(BIN / "snakemake", PROFILE, profile)
    end = output.partition("At least one job did not complete successfully.")[2]
    assert status != 0 and "2 runs failed:" in end and "exit code 3" in end, output
    assert "Traceback" not in output


def test_a_mistake_in_the_configuration_of_a_module_is_said_to_be_there(
    finished: Workspace, outer: Callable[..., Workspace]
) -> None:
    workspace = outer()
    own = workspace.path / "config/own.yaml"
    own.write_text(own.read_text().replace("repeats: 2", "repeats: two"))
    status, output = workspace.run(BIN / "snakemake", "-n")
    assert status != 0
    assert "config of the module argosy: experiments.quick.scale.repeats" in output, output
    assert "Traceback" not in output


@pytest.mark.thorough
def test_a_rule_that_is_no_run_is_named_to_its_writer(
    finished: Workspace, outer: Callable[..., Workspace]
) -> None:
    workspace = outer()
    snakefile = workspace.path / "Snakefile"
    snakefile.write_text(snakefile.read_text().replace("    localrule: True\n", ""))
    status, output = workspace.run(BIN / "snakemake", PROFILE, finished.path / "profiles/default")
    assert status != 0
    assert "rule paper: the executor argosy submits only the runs of a study" in output, output
    assert "Traceback" not in output, output


@pytest.mark.thorough
def test_without_handlers_a_second_driver_is_refused_when_it_submits(
    finished: Workspace, outer: Callable[..., Workspace]
) -> None:
    workspace = outer()
    snakefile, own = workspace.path / "Snakefile", workspace.path / "config/own.yaml"
    snakefile.write_text(snakefile.read_text().partition("onstart:")[0])
    own.write_text(own.read_text().replace("echo rate 5", "sleep 12; echo rate 5"))
    command = [BIN / "snakemake", PROFILE, finished.path / "profiles/default"]
    first = workspace.start(*command)
    while "Running quick" not in (line := str(first.stdout and first.stdout.readline())):
        assert line, "it ended before it had run anything"
    status, output = workspace.run(*command)
    assert status != 0
    assert f"another snakemake manages the runs of local (process {first.pid} on " in output, output
    assert "Traceback" not in output, output
    printed, _ = first.communicate()
    assert first.returncode == 0, printed
