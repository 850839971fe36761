"""Data of the user's: seen by the ranks in a container and without one, checked, and noted."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from workspace import BIN, Workspace

pytestmark = pytest.mark.container

PROGRAM = """
import os, sys
weather, kept, weights = sys.argv[1:]
print([each for each in os.listdir(weather) if each != "new"], open(weights).read())
try:
    open(f"{weather}/new", "w")
except OSError as problem:
    print("refused:", problem.strerror)
open(f"{kept}/of-rank-{os.environ['RANK']}", "w").write(os.environ["CACHE"])
print("64 samples/s")
"""
RUN = "nodes2-ranks1-repeat1"
WEATHER = {"here": "1981.nc", "there": "1982.nc", "far": "1983.nc"}


@pytest.fixture(scope="module")
def scratch(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of data, where $SCRATCH of the sites leads; nodes of `staging` copy it."""
    scratch = tmp_path_factory.mktemp("scratch") / "of $(one) 'user'"
    for name, file in WEATHER.items():
        (scratch / name).mkdir(parents=True)
        (scratch / name / file).write_text("warm")
    (scratch / "kept").mkdir()
    (scratch / "weights.bin").write_text("weights")
    (scratch / "weather").symlink_to("here")
    workspace.environment["SCRATCH"] = str(scratch)
    for site in ("other", "staging"):
        shutil.copytree(workspace.path / "slurm/local", workspace.path / "slurm" / site)
    (workspace.path / "slurm/local/data.yaml").write_text("weather: $SCRATCH/weather\n")
    (workspace.path / "slurm/other/data.yaml").write_text("weather: ${SCRATCH}/there\n")
    far = "weather: {from: $SCRATCH/far, stage: node}\n"
    (workspace.path / "slurm/staging/data.yaml").write_text(far)
    (scratch / "disk").mkdir()
    with (workspace.path / "slurm/staging/site.yaml").open("a") as file:
        file.write("images: {folder: $SCRATCH/disk}\n")
    (workspace.path / "containers/workloads/reads.py").write_text(PROGRAM)
    configure(workspace)
    return scratch


def configure(workspace: Workspace, **changed: Any) -> None:
    data = {
        "/data/weather": {"from": "weather", "digest": True},
        "/data/of/kept": {"from": "$SCRATCH/kept", "write": True},
        "/data/weights.bin": "$SCRATCH/weights.bin",
    }
    experiment: dict[str, Any] = {
        "image": "torch-cpu",
        "runtime": ["container", "native"],
        "launcher": "plain",
        "independent": True,
        "command": "python3 /workloads/reads.py /data/weather /data/of/kept /data/weights.bin",
        "environment": {"CACHE": "/data/of/kept/cache:/data/weather-of-another"},
        "throughput": "([0-9]+) samples/s",
        "scale": {"nodes": [2], "repeats": 1},
        "resources": {"time": "2m", "memory_per_rank": "500M"},
        "data": {**data, **changed},
    }
    workspace.configure({"reads": experiment})


def last_attempt(folder: Path) -> str:
    return (folder / "attempt").read_text().strip()


def noted(folder: Path) -> dict[str, Any]:
    """What the last attempt of a run noted of its data."""
    path = folder / f"attempts/{last_attempt(folder)}/data.json"
    data: dict[str, Any] = json.loads(path.read_text())["data"]
    return data


def printed(folder: Path) -> str:
    return (folder / f"logs/{last_attempt(folder)}/ranks/rank-1.log").read_text()


def test_one_configuration_reads_the_data_of_each_site(workspace: Workspace, scratch: Path) -> None:
    status, output = workspace.run(BIN / "snakemake", "--quiet", "host", "progress")
    assert status == 0, output
    inside, native = (workspace.run_dir(name, RUN) for name in ("reads", "reads-native"))
    assert printed(inside).splitlines()[:2] == [
        "['1981.nc'] weights",
        "refused: Read-only file system",
    ]
    assert (scratch / "kept/of-rank-0").exists()
    # Without a container it is the user's own folder.
    assert "refused" not in printed(native)
    assert (scratch / "here/new").exists()
    of_last = (scratch / "kept/of-rank-1").read_text()
    assert of_last in (
        "/data/of/kept/cache:/data/weather-of-another",
        f"{scratch}/kept/cache:/data/weather-of-another",
    )
    weather = noted(inside)["/data/weather"]
    assert weather["path"] == str(scratch / "here")
    assert len(weather["sha256"]) == 64
    assert noted(inside)["/data/weights.bin"] | {"newest_unix": 0} == {
        "path": str(scratch / "weights.bin"),
        "files": 1,
        "bytes": 7,
        "newest_unix": 0,
        "is_whole": True,
        "sha256": None,
    }
    status, output = workspace.run(BIN / "argosy", "why", f"local/reads/{RUN}")
    assert status == 0, output
    assert f"data      /data/weights.bin  {scratch}/weights.bin: 1 file, 7 B, changed 20" in output
    config = (workspace.path / "config/config.yaml").read_bytes()

    # Results stay when data goes, and are those of the path.
    (scratch / "weather").unlink()
    status, output = workspace.snakemake()
    assert status == 0, output
    assert "Nothing to be done" in output
    status, output = workspace.snakemake("--quiet", "host", "progress", "--config", "site=other")
    assert status == 0, output
    assert (workspace.path / "config/config.yaml").read_bytes() == config
    other = workspace.path / f"results/other/reads/{RUN}"
    assert "['1982.nc'] weights" in printed(other)
    assert noted(other)["/data/weather"]["path"] == str(scratch / "there")
    (scratch / "weather").symlink_to("here")

    status, output = workspace.snakemake("--quiet", "host", "progress", "--config", "site=staging")
    assert status == 0, output
    assert (workspace.path / "config/config.yaml").read_bytes() == config
    [copy] = (scratch / "disk").glob("argosy-*/data-*/root")
    for name, said in (("reads", "Read-only file system"), ("reads-native", "Permission denied")):
        run = workspace.path / f"results/staging/{name}/{RUN}"
        assert printed(run).splitlines()[:2] == ["['1983.nc'] weights", f"refused: {said}"]
        assert noted(run)["/data/weather"]["path"] == str(scratch / "far")
        status, output = workspace.run(BIN / "argosy", "why", f"staging/{name}/{RUN}")
        assert "; staged on each node in at most " in output
    # The nodes are this machine: one of four copied it.
    logs = workspace.path.glob(f"results/staging/*/{RUN}/logs/*/job.log")
    assert sum(log.read_text().count("/data/weather: copied ") for log in logs) == 1
    assert [each.name for each in copy.iterdir()] == ["1983.nc"]


def test_what_is_not_there_is_said_before_and_at_the_node(
    workspace: Workspace, scratch: Path
) -> None:
    configure(workspace, **{"/data/weights.bin": "weigths"})
    status, output = workspace.snakemake("-n")
    assert status != 0
    key = "experiments.reads.data./data/weights.bin"
    assert f"{key}: slurm/local/data.yaml has no weigths\nhint: there are weather" in output

    (scratch / "nowhere").symlink_to("gone")
    configure(workspace, **{"/data/weights.bin": "$SCRATCH/nowhere"})
    status, output = workspace.snakemake("-n")
    assert status != 0
    assert f"{key}: {scratch}/nowhere is a link to gone, which is missing" in output

    configure(workspace, **{"/data/weights.bin": "$SCRATCH/moved"})
    (scratch / "moved").write_text("0.5")
    status, output = workspace.snakemake("--quiet", "host", "progress", "--until", "plan_runs")
    assert status == 0, output
    (scratch / "moved").unlink()
    for name in ("reads", "reads-native"):
        folder = workspace.run_dir(name, RUN)
        done = subprocess.run(["bash", folder / "job.sbatch"], env=workspace.environment)
        assert done.returncode == 1
        verdict = json.loads((folder / f"attempts/{last_attempt(folder)}/verdict.json").read_text())
        key = f"experiments.{name}.data./data/weights.bin"
        cause = f"it did not start: {key}: {scratch}/moved is missing; write a path that every node"
        assert verdict["failure"]["cause"].startswith(cause)
        assert "/data/weights.bin" not in noted(folder)


def test_runs_before_and_after_a_change_of_the_data_are_no_repeats(
    workspace: Workspace, scratch: Path, tmp_path: Path
) -> None:
    grown = scratch / "grown"
    grown.mkdir()
    experiment = {
        "runtime": "native",
        "launcher": "plain",
        "command": "python3 /workloads/reads.py /data/grown /data/kept /data/grown/0",
        "environment": {"CACHE": "none"},
        "throughput": "([0-9]+) samples/s",
        "data": {
            "/data/grown": "$SCRATCH/grown",
            "/data/kept": {"from": "$SCRATCH/kept", "write": True},
        },
    }
    for repeats in (1, 2):
        (grown / f"{repeats - 1}").write_text("a file more")
        workspace.configure({"grows": {**experiment, "scale": {"nodes": [1], "repeats": repeats}}})
        status, output = workspace.run(BIN / "snakemake", "--quiet", "host", "progress")
        assert status == 0, output
        # The first result stands in the project's new place.
        assert "Measured again" not in output
        assert output.count(f": Running grows nodes1-ranks1-repeat{repeats}") == 1
        if repeats == 1:
            workspace.path.rename(tmp_path / "moved")
            workspace = replace(workspace, path=tmp_path / "moved")
    summary = json.loads((workspace.path / "results/local/summary.json").read_text())
    found = {each["experiment"]: each["setup"]["programs"] for each in summary["experiments"]}
    seen = [found[f"grows #{number}"]["data /data/grown"] for number in (1, 2)]
    # The program writes a file there itself, which no container would allow.
    assert seen == ["1 files, 11 bytes", "3 files, 22 bytes"]
    assert "data /data/kept" not in found["grows #1"]
