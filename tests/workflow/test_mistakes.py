"""A user's mistakes: one line with place and remedy, and unchanged earlier results."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from workspace import Workspace

pytestmark = pytest.mark.container
HOST = socket.gethostname()
RUN = "nodes1-ranks1-repeat1"


def experiment(command: str, **more: Any) -> dict[str, Any]:
    return {
        "image": "torch-cpu",
        "command": command,
        "launcher": "plain",
        "scale": {"nodes": [1], "repeats": 1},
        **more,
    }


def failure(workspace: Workspace, name: str, command: str, **more: Any) -> str:
    """Run a failing program; return the line with the cause."""
    workspace.configure({name: experiment(command, **more)})
    status, output = workspace.snakemake()
    assert status != 0
    assert "Traceback" not in output
    return next(line for line in output.splitlines() if f"local/{name}/{RUN}: " in line)


def test_a_command_that_the_image_lacks(workspace: Workspace) -> None:
    line = failure(workspace, "missing", "no-such-program --now")
    assert f"node 0 ({HOST}): command not found in the image: no-such-program" in line


@pytest.mark.thorough
def test_a_program_that_fails_after_many_words(workspace: Workspace) -> None:
    program = "[print(f'line {n} of many') for n in range(60000)]; raise SystemExit('a reason')"
    workspace.configure({"fails": experiment(f'python3 -c "{program}"')})
    status, output = workspace.snakemake()
    lines = output.splitlines()
    assert status != 0 and len(lines) < 200
    assert f"rank 0 (node 0, {HOST}): exit code 1: a reason" in output
    # Argosy prints the last lines: the failed rank, the cause and the report's path.
    last = lines[lines.index("At least one job did not complete successfully.") + 1 :]
    (log,) = workspace.run_dir("fails", RUN).glob("logs/*/ranks/rank-0.log")
    name = str(log.relative_to(workspace.path))
    assert last[0] == f"The last lines of {name}:"
    assert last[1:41] == [*(f"    line {n} of many" for n in range(59961, 60000)), "    a reason"]
    assert last[41:43] == ["", "1 run failed:"]
    assert last[43].startswith(f"  fails/{RUN}: rank 0 (node 0, {HOST}): ")
    assert last[43].endswith(f": exit code 1: a reason; see {name}")
    assert last[44:] == ["Report of the completed runs: results/local/report.html"]
    assert (workspace.path / "results/local/report.html").is_file()


@pytest.mark.thorough
def test_a_program_that_records_nothing(workspace: Workspace) -> None:
    line = failure(workspace, "silent", "echo hello")
    assert "recorded no steps" in line
    assert "'throughput' pattern" in line


def test_a_program_that_knows_nothing_of_argosy_is_measured_by_its_output(
    workspace: Workspace,
) -> None:
    line = "Total img/sec on 1 CPU(s): {}"
    program = f"[print('{line}'.format(n), flush=True) for n in (10.0, 14.0)]"
    pattern = r"Total img/sec .*: ([0-9.]+)"
    workspace.configure({"printed": experiment(f'python3 -c "{program}"', throughput=pattern)})
    status, output = workspace.snakemake()
    assert status == 0, output
    summary = json.loads((workspace.path / "results/local/summary.json").read_text())
    (point,) = summary["experiments"][0]["points"]
    # The first of two numbers is warm-up.
    assert point["runs_samples_per_s"] == [14.0]


def test_shell_characters_in_a_command_are_only_characters(workspace: Workspace) -> None:
    program = "import sys; print('rate', 1.0, *sys.argv[1:])"
    command = (
        f"""python3 -c "{program}" '; touch /job/pwned' '1 $(touch /job/pwned)' '2 `id`' 'a b'"""
    )
    workspace.configure({"odd": experiment(command, throughput="rate ([0-9.]+)")})
    status, output = workspace.snakemake()
    assert status == 0, output
    folder = workspace.run_dir("odd", RUN)
    (log,) = folder.glob("logs/*/ranks/rank-0.log")
    assert log.read_text() == "rate 1.0 ; touch /job/pwned 1 $(touch /job/pwned) 2 `id` a b\n"
    assert not (folder / "pwned").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"comand": "x"}, "experiments.odd.comand: no such key; did you mean command?"),
        ({"image": "no-image"}, "containers/no-image/Containerfile: there is no Containerfile"),
    ],
)
def test_a_wrong_configuration_touches_nothing(
    workspace: Workspace, change: dict[str, Any], message: str
) -> None:
    before = contents(workspace.path / "results")
    workspace.configure({"odd": {**experiment("true"), **change}})
    status, output = workspace.snakemake()
    assert status != 0
    assert "Traceback" not in output
    assert len([line for line in output.splitlines() if message in line]) == 1
    assert contents(workspace.path / "results") == before


def test_the_file_with_the_mistake_is_named(workspace: Workspace) -> None:
    workspace.configure({"odd": experiment("true")})
    (workspace.path / "my.yaml").write_text("experiments: {odd: {scale: {repeat: 2}}}\n")
    status, output = workspace.snakemake("--configfile", "my.yaml")
    assert status != 0 and "Traceback" not in output
    assert "my.yaml: experiments.odd.scale.repeat: no such key; did you mean repeats?" in output
    config = workspace.path / "config/config.yaml"
    config.rename(config.with_suffix(".away"))
    (workspace.path / "my.yaml").write_text("experiments: {}\n")
    status, output = workspace.snakemake("--configfile", "my.yaml")
    assert status != 0 and "Traceback" not in output
    assert "my.yaml: experiments: needs 1 or more" in output
    config.with_suffix(".away").rename(config)


def test_an_unknown_site_names_those_there_are(workspace: Workspace) -> None:
    workspace.configure({"odd": experiment("true")})
    status, output = workspace.snakemake("--config", "site=atlantis")
    assert status != 0
    assert (
        "slurm/atlantis/site.yaml: there is no such site\nhint: there are adastra, archer2, "
        in output
    )


def test_a_configuration_that_loses_the_site_of_the_profile(workspace: Workspace) -> None:
    workspace.configure({"odd": experiment("true")})
    before = contents(workspace.path / "results")
    command = ("-n", "--profile", "slurm/testbed", "--config", "only=[odd]")
    status, output = workspace.snakemake(*command)
    assert status != 0
    assert "so the runs would go to local\nhint: add site=testbed to --config" in output
    assert contents(workspace.path / "results") == before
    status, output = workspace.snakemake(*command, "site=testbed")
    assert status == 0, output


def test_results_of_an_older_schema_are_told_and_kept(workspace: Workspace) -> None:
    folder = workspace.run_dir("odd", RUN)
    result = folder / "result.json"
    result.write_text(result.read_text().replace('"schema_version": 2', '"schema_version": 1'))
    before = contents(folder)
    status, output = workspace.run(".venv/bin/argosy", "report", "results/local")
    assert status == 0, output
    assert "1 unreadable" in output
    status, output = workspace.run(".venv/bin/argosy", "summary", "results/local")
    assert status == 0, output
    said = " ".join(output.split())
    assert f"Could not be read: odd/{RUN}: " in said
    named = "result.json: its schema_version is 1; this Argosy reads 2; it was written by Argosy "
    assert named in said
    # Planning would take away what is of something else, so it says so and leaves it.
    status, output = workspace.snakemake("--quiet", "host")
    assert status != 0 and "Traceback" not in output
    assert named in " ".join(output.split())
    assert contents(folder) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
