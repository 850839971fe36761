"""After a change, one command measures the affected runs again, and no others."""

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import step_files
from workspace import BIN, Workspace

PROGRAM = Path(__file__).parent / "programs/waiting.py"
OPTIONS = "--compute 0.01 --interconnect 0 --network 0 --prepare 0 --fetch 0"
RUN = "nodes1-ranks1-repeat1"


def configure(workspace: Workspace, steps: str, repeats: int = 1, nodes: int = 1) -> None:
    """Ask for a training of so many steps."""
    workspace.configure(
        {
            "changing": {
                "runtime": "native",
                "launcher": "plain",
                "command": f"python3 /workloads/waiting.py {OPTIONS} --steps {steps}",
                "independent": True,
                "scale": {"nodes": [*range(1, nodes + 1)], "repeats": repeats},
                "resources": {"time": "2m"},
            }
        }
    )


def run(workspace: Workspace, steps: str, repeats: int = 1, nodes: int = 1) -> tuple[int, str]:
    """Snakemake, once, with a training of so many steps."""
    configure(workspace, steps, repeats, nodes)
    return workspace.run(BIN / "snakemake", "--quiet", "host", "progress")


def jobs(workspace: Workspace) -> int:
    """How many there have been of the run."""
    content = (workspace.run_dir("changing", RUN) / "job.json").read_text()
    return len(json.loads(content)["jobs"])


def steps_measured(workspace: Workspace) -> int:
    folder = workspace.run_dir("changing", RUN)
    attempt = json.loads((folder / "result.json").read_text())["attempt"]
    return step_files.count(folder / "records" / attempt / "rank-0.steps")


def test_one_command_measures_what_changed(workspace: Workspace) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    status, output = run(workspace, "none")
    assert status != 0 and "invalid int value: 'none'" in output, output
    # Mended after it had failed; the old script looks new to Snakemake.
    configure(workspace, "12")
    status, output = workspace.run(BIN / "snakemake", "--touch")
    assert status == 0, output
    status, output = run(workspace, "12")
    assert status == 0, output
    assert (steps_measured(workspace), jobs(workspace)) == (12, 2)
    # Changed after it was completed, and with it the report.
    status, output = run(workspace, "13")
    assert status == 0, output
    assert (steps_measured(workspace), jobs(workspace)) == (13, 3)
    # Of the site, what decides no outcome: a new script, and nothing measured again.
    site = workspace.path / "slurm/local/site.yaml"
    site.write_text(site.read_text() + "operator: nobody\n")
    status, output = run(workspace, "13")
    assert status == 0, output
    assert "Planning the runs of local" in output and "Running changing" not in output
    assert jobs(workspace) == 3
    status, output = workspace.run(BIN / "snakemake", "--dry-run")
    assert status == 0 and "Nothing to be done" in output, output


@pytest.mark.thorough
def test_more_runs_leave_the_others_as_they_were_measured(workspace: Workspace) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    status, output = run(workspace, "12")
    assert status == 0, output
    before = {path: path.stat().st_mtime_ns for path in measured(workspace)}
    assert len(before) == 3
    status, output = run(workspace, "12", repeats=3)
    assert status == 0, output
    assert output.count("Planning ") == 1 and output.count("Running changing") == 2, output
    assert {path: path.stat().st_mtime_ns for path in measured(workspace)} == before
    status, output = run(workspace, "12", repeats=3, nodes=2)
    assert status == 0 and output.count("Running changing nodes2") == 3, output
    assert output.count("Running changing") == 3, output
    summary = json.loads((workspace.path / "results/local/summary.json").read_text())
    assert [point["ranks"] for point in summary["experiments"][0]["points"]] == [1, 2]
    # A run that somebody removed is measured again with the next that are asked for.
    shutil.rmtree(workspace.run_dir("changing", RUN))
    status, output = run(workspace, "12", repeats=4)
    assert status == 0, output
    assert output.count("Running changing") == 2, output
    assert all(path.is_file() for path in measured(workspace))


@pytest.mark.thorough
def test_nothing_else_that_is_there_stands_for_a_result(workspace: Workspace) -> None:
    shutil.rmtree(workspace.path / "results/local/changing", ignore_errors=True)
    program = workspace.path / "containers/workloads/waiting.py"
    program.write_text("raise SystemExit('to be mended')\n")
    status, output = run(workspace, "12")
    assert status != 0 and "to be mended" in output, output
    # What was asked for by hand is newer than all that Snakemake knows of.
    assert workspace.run(BIN / "argosy", "report", "results/local")[0] == 0
    # The program alone is mended: no file that Snakemake knows of has changed.
    shutil.copy(PROGRAM, program)
    status, output = run(workspace, "12")
    result = workspace.run_dir("changing", RUN) / "result.json"
    assert status == 0 and result.is_file() and steps_measured(workspace) == 12, output
    result.unlink()
    assert run(workspace, "12")[0] == 0 and result.is_file()
    # Where Snakemake remembers nothing, as in a clone that results were copied to.
    shutil.rmtree(workspace.path / ".snakemake")
    status, output = run(workspace, "12")
    assert status == 0 and "Running" not in output, output
    shutil.rmtree(workspace.path / ".snakemake")
    status, output = run(workspace, "13")
    assert status == 0 and steps_measured(workspace) == 13, output
    # A result of something else, put there by somebody: a dry run names the run, too.
    result.write_text(result.read_text().replace('"spec": "', '"spec": "0'))
    status, output = workspace.run(BIN / "snakemake", "--dry-run")
    assert status == 0 and f"Running changing {RUN}" in output, output
    before = jobs(workspace)
    assert run(workspace, "13")[0] == 0 and jobs(workspace) == before + 1


@pytest.mark.thorough
def test_what_failed_and_is_asked_for_no_longer_leaves_the_report(workspace: Workspace) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")

    def program(steps: str) -> dict[str, object]:
        command = f"python3 /workloads/waiting.py {OPTIONS} --steps {steps}"
        scale = {"nodes": [1], "repeats": 1}
        return {"runtime": "native", "launcher": "plain", "command": command, "scale": scale}

    def reported() -> list[str]:
        summary = json.loads((workspace.path / "results/local/summary.json").read_text())
        return [experiment["experiment"] for experiment in summary["experiments"]]

    workspace.configure({"good": program("12"), "wrong": program("none")})
    status, output = workspace.snakemake("--keep-going", "--quiet", "host")
    assert status != 0 and {"good", "wrong"} <= {*reported()}, output
    workspace.configure({"good": program("12")})
    status, output = workspace.snakemake("--quiet", "host")
    assert status == 0 and reported() == ["good"], output


@pytest.mark.thorough
def test_a_copy_of_a_project_leaves_the_project_alone(workspace: Workspace) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    status, output = run(workspace, "12")
    assert status == 0, output
    before = jobs(workspace)
    path = workspace.path.with_name("its copy")
    subprocess.run(["cp", "-a", workspace.path, path], check=True)
    copy = dataclasses.replace(workspace, path=path)
    script = copy.run_dir("changing", RUN) / "job.sbatch"
    done = subprocess.run(["bash", script], capture_output=True, text=True)
    assert done.returncode == 2
    said = f"argosy: this script belongs to the run in {workspace.run_dir('changing', RUN)}, not to this"
    assert done.stderr.startswith(said), done.stderr
    (copy.run_dir("changing", RUN) / "result.json").unlink()
    status, output = run(copy, "12")
    assert status == 0 and steps_measured(copy) == 12, output
    assert jobs(workspace) == before and jobs(copy) == before + 1
    assert workspace.run(BIN / "snakemake")[1].count("Nothing to be done") == 1
    # The project itself is gone: its script makes no folder where it was.
    kept = workspace.path.with_name("moved away")
    workspace.path.rename(kept)
    moved = kept / script.relative_to(path)
    assert subprocess.run(["bash", moved], capture_output=True).returncode == 2
    assert not workspace.path.exists()
    kept.rename(workspace.path)


@pytest.mark.thorough
def test_the_executor_of_runs_is_argosy_wherever_snakemake_is_started(
    workspace: Workspace,
) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    status, output = run(workspace, "14")
    assert status == 0, output
    before = jobs(workspace)
    result = workspace.run_dir("changing", RUN) / "result.json"
    result.unlink()
    status, output = workspace.snakemake("--executor", "local", "--quiet", "host")
    assert status != 0 and not result.exists()
    assert "runs need Snakemake's executor argosy" in output, output
    snakefile = workspace.path / "Snakefile"
    command = [BIN / "snakemake", "-s", snakefile, "-d", workspace.path]
    elsewhere = subprocess.run(
        command, cwd="/", env=workspace.environment, capture_output=True, text=True
    )
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert result.is_file() and jobs(workspace) == before + 1


@pytest.mark.thorough
def test_an_image_that_was_locked_again_measures_nothing_again(
    workspace: Workspace, torch_digest: str
) -> None:
    workspace.configure(
        {
            "contained": {
                "image": "torch-cpu",
                "launcher": "plain",
                # Braces are the program's own; Snakemake knows them, too.
                "command": "python3 -c 'print(\"{name} 7 samples/s\")'",
                "throughput": r"(\d{1,3}) samples/s",
                "environment": {"CHECKPOINT": "epoch-{epoch}.pt"},
                "scale": {"nodes": [1], "repeats": 1},
            }
        }
    )
    status, output = workspace.snakemake("--quiet", "host")
    assert status == 0, output
    result = workspace.run_dir("contained", RUN) / "result.json"
    before = result.stat().st_mtime_ns
    lock = workspace.path / "resources/images/torch-cpu/image.lock"
    content = lock.read_bytes()
    lock.unlink()
    lock.write_bytes(content)
    status, output = workspace.snakemake("--quiet", "host", "--forcerun", "plan_runs")
    assert status == 0 and "Planning" in output and "Running" not in output, output
    assert result.stat().st_mtime_ns == before
    # Another image under the same name.
    lock.write_text(content.decode().replace(torch_digest, f"sha256:{'0' * 64}"))
    status, output = workspace.snakemake("--dry-run")
    assert status == 0 and "Running contained" in output, output
    lock.write_bytes(content)


def measured(workspace: Workspace) -> list[Path]:
    """What says how the first run was measured, and what came of it."""
    folder = workspace.run_dir("changing", RUN)
    return [folder / name for name in ("run.json", "provenance.json", "result.json")]


def test_a_changed_program_is_measured_again_and_said_to_be(workspace: Workspace) -> None:
    shutil.rmtree(workspace.path / "results/local/changing", ignore_errors=True)
    program = workspace.path / "containers/workloads/waiting.py"
    shutil.copy(PROGRAM, program)
    status, output = run(workspace, "12", repeats=2)
    assert status == 0, output
    before = program.read_text()
    beside = program.with_name("not_of_it.py")
    beside.write_text("")
    program.write_text(f"{before}# Another.\n")
    said = "Measured again, since /workloads/waiting.py has changed: "
    named = f"{said}changing/{RUN}, changing/nodes1-ranks1-repeat2"
    # A dry run measures nothing, and says what would be.
    status, output = workspace.run(BIN / "snakemake", "--dry-run", "--quiet", "host")
    assert status == 0 and output.count(named) == 1, output
    # As it was, it is the program of the results again.
    program.write_text(before)
    status, output = run(workspace, "12", repeats=2)
    assert status == 0 and said not in output and "Running" not in output, output
    program.write_text(f"{before}# Another.\n")
    status, output = run(workspace, "12", repeats=2)
    assert status == 0 and output.count(said) == 1, output
    assert output.count("Running changing") == 2 and jobs(workspace) == 2, output
    # They are of one program again, and the report has one setup.
    summary = json.loads((workspace.path / "results/local/summary.json").read_text())
    assert [each["experiment"] for each in summary["experiments"]] == ["changing"]
    status, output = run(workspace, "12", repeats=2)
    assert status == 0 and "Running" not in output and said not in output, output


def test_a_program_of_the_project_itself_is_watched_and_looked_for(workspace: Workspace) -> None:
    (workspace.path / "train.py").write_text("import near\nprint('rate', near.rate)\n")
    (workspace.path / "near.py").write_text("rate = 5\n")
    (workspace.path / "torch").mkdir()
    (workspace.path / "torch/far.py").write_text("")

    def own(command: str) -> None:
        scale = {"nodes": [1], "repeats": 1}
        kind = {"runtime": "native", "launcher": "plain", "throughput": "rate ([0-9]+)"}
        workspace.configure({"own": {"command": command, "scale": scale, **kind}})

    own("python3 trian.py")
    status, output = workspace.snakemake("--dry-run")
    assert status != 0 and "Traceback" not in output
    assert "experiments.own.command: trian.py: no such file or folder" in output, output
    assert "hint: did you mean train.py?" in output and "Building DAG" not in output, output
    own("python3 train.py")
    status, output = workspace.snakemake("--quiet", "host")
    assert status == 0, output
    (workspace.path / "torch/far.py").write_text("# Another.\n")
    status, output = workspace.snakemake("--dry-run")
    assert status == 0 and "Nothing to be done" in output, output
    (workspace.path / "near.py").write_text("rate = 6\n")
    status, output = workspace.snakemake("--dry-run")
    assert status == 0, output
    assert f"Measured again, since near.py has changed: own/{RUN}" in output, output
    status, output = workspace.run(BIN / "argosy", "why", f"own/{RUN}")
    assert status == 0 and "near.py  has changed" in output, output


def test_a_dry_run_names_the_runs_without_a_result_beside_the_planning(
    workspace: Workspace,
) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    status, output = run(workspace, "12", repeats=2)
    assert status == 0, output
    (workspace.run_dir("changing", RUN) / "result.json").unlink()
    site = workspace.path / "slurm/local/site.yaml"
    site.write_text(site.read_text() + "contact: nobody\n")
    status, output = workspace.snakemake("--dry-run", "--quiet", "host")
    assert status == 0 and "Planning the runs" in output, output
    assert f"Running changing {RUN}" in output and output.count("Running changing") == 1, output
    before = jobs(workspace)
    status, output = run(workspace, "12", repeats=2)
    assert status == 0 and output.count("Running changing") == 1, output
    assert jobs(workspace) == before + 1


def test_a_planned_file_that_is_gone_is_made_again(workspace: Workspace) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    status, output = run(workspace, "12")
    assert status == 0, output
    for name in ("run.json", "job.sbatch", "../../runs.txt"):
        planned = workspace.run_dir("changing", RUN) / name
        before = planned.read_bytes()
        planned.unlink()
        status, output = run(workspace, "12")
        assert status == 0 and "Planning" in output and "Running changing" not in output, output
        assert planned.read_bytes() == before, name


def test_what_another_snakemake_plans_meanwhile_is_not_taken_for_ones_own(
    workspace: Workspace,
) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    status, output = run(workspace, "12")
    assert status == 0, output
    before = (workspace.path / "config/config.yaml").read_text()
    configure(workspace, "13")
    (workspace.path / "config/config.yaml").rename(workspace.path / "config/other.yaml")
    (workspace.path / "config/config.yaml").write_text(before + "# The same.\n")
    # It plans its own study anew, between another's reading of the old plan and its look at times.
    remark = "open('slurm/local/site.yaml', 'a').write('tried: never\\n')"
    planning = "snakemake --quiet all --until plan_runs"
    second = workspace.path / "second.smk"
    second.write_text(
        "import os, subprocess\n"
        + (workspace.path / "Snakefile").read_text()
        + f"\n{remark}\nsubprocess.run('{planning}', shell=True, check=True)\n"
    )
    arguments = ("-n", "-s", "second.smk", "--configfile", "config/other.yaml")
    status, output = workspace.snakemake(*arguments)
    second.unlink()
    assert status == 0 and f"Running changing {RUN}" in output, output
    assert "Nothing to be done" not in output, output
