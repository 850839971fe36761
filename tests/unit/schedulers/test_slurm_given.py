"""What a job's variables say that Slurm gave, held against the options of its script."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from argosy.schedulers.slurm import given

ASKED = {"nodes": "2", "cpus-per-task": "4", "mem": "8000M"}
GIVEN = {"SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "4", "SLURM_MEM_PER_NODE": "8000"}
GPUS = {"gres": "gpu:a100:2,tmpfs:1T"}
BY_CPU = {"SLURM_MEM_PER_NODE": ""}


def short(asked: dict[str, str | None], has: dict[str, str]) -> list[str]:
    """The keys of what is less than asked for."""
    return [key for key, _ in given.shortfalls({**ASKED, **asked}, {**GIVEN, **has})]


@pytest.mark.parametrize(
    ("asked", "has"),
    [
        ({}, {}),
        # A larger job that several runs share, or whole nodes.
        ({}, {"SLURM_JOB_NUM_NODES": "4", "SLURM_CPUS_ON_NODE": "64", "SLURM_MEM_PER_NODE": "0"}),
        ({"mem": "0"}, {"SLURM_MEM_PER_NODE": "100"}),
        # Slurm divides memory among CPUs, and rounds.
        ({"mem": "8003M"}, {**BY_CPU, "SLURM_MEM_PER_CPU": "2000"}),
        ({"mem": "8003M"}, {**BY_CPU, "SLURM_MEM_PER_CPU": "500", "SLURM_CPUS_ON_NODE": "16"}),
        ({"mem": "", "mem-per-cpu": "2000"}, {**BY_CPU, "SLURM_MEM_PER_CPU": "2000"}),
        ({"mem": "7G"}, {}),
        (GPUS, {"SLURM_GPUS_ON_NODE": "2"}),
        # An older Slurm counts none.
        (GPUS, {"SLURM_JOB_GPUS": "0,1"}),
        ({"gpus": "8"}, {}),
        # Other variables, or none, prove nothing.
        ({"nodes": "1-2", "cpus-per-task": None}, {"SLURM_CPUS_ON_NODE": "many"}),
    ],
)
def test_as_much_as_was_asked_for(asked: dict[str, str | None], has: dict[str, str]) -> None:
    assert short(asked, has) == []


@pytest.mark.parametrize(
    ("asked", "has", "key"),
    [
        ({}, {"SLURM_JOB_NUM_NODES": "1"}, "scale.nodes"),
        ({}, {"SLURM_CPUS_ON_NODE": "2"}, "resources.cpus_per_rank"),
        ({}, {"SLURM_MEM_PER_NODE": "7000"}, "resources.memory_per_rank"),
        ({}, {**BY_CPU, "SLURM_MEM_PER_CPU": "1000"}, "resources.memory_per_rank"),
        (
            {**GPUS, "mem": "", "mem-per-gpu": "4G"},
            {**BY_CPU, "SLURM_MEM_PER_GPU": "2048", "SLURM_GPUS_ON_NODE": "2"},
            "resources.memory_per_rank",
        ),
        (GPUS, {"SLURM_GPUS_ON_NODE": "1"}, "resources.gpus_per_rank"),
        (GPUS, {}, "resources.gpus_per_rank"),
        ({"gpus-per-node": "a100:4"}, {"SLURM_GPUS_ON_NODE": "2"}, "resources.gpus_per_rank"),
    ],
)
def test_less_than_was_asked_for(
    asked: dict[str, str | None], has: dict[str, str], key: str
) -> None:
    assert short(asked, has) == [key]


def test_the_program_names_all_that_is_missing_in_one_line(tmp_path: Path) -> None:
    script = tmp_path / "results/bed/digits/nodes2/job.sbatch"
    script.parent.mkdir(parents=True)
    script.write_text(
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --mem=8G\n#SBATCH --partition='a,b'\n"
    )
    has = {"SLURM_JOB_NUM_NODES": "1", "SLURM_MEM_PER_NODE": "512", "SLURM_JOB_PARTITION": "c"}
    command = [sys.executable, "-E", "-S", given.__file__, script]
    said = subprocess.run(
        command, env={**os.environ, **has}, capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr == (
        "argosy: config.yaml: experiments.digits.scale.nodes: the job asked for 2 nodes and Slurm gave it "
        "1: request as much as the site gives; config.yaml: experiments.digits.resources."
        "memory_per_rank: "
        "the job asked for 8192 MiB of memory of each node and Slurm gave it 512: "
        "request as much as the site gives; "
        "slurm/bed/site.yaml: the job asked for the partition a,b and Slurm gave it c, whose nodes may "
        "differ\n"
    )
    has = {"SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_PARTITION": "b"}
    assert subprocess.run(command, env={**os.environ, **has}, check=False).returncode == 0
