"""`argosy init`, `argosy site add` and `argosy image eject` write files and overwrite none."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.cli.projects import experiment_of
from argosy.shipped.files import SHIPPED
from argosy.shipped.new_project import (
    CONFIG,
    add_site,
    config_text,
    eject_image,
    first_experiment,
    write_project,
)
from argosy.shipped.program import Program
from argosy.study.models import Config
from argosy.validation import AS_WRITTEN
from argosy_common.errors import ArgosyError


def init(folder: Path, command: str = "python train.py") -> list[str]:
    """Make a project, as `argosy init --command` does."""
    program = Program.of_text(folder, command)
    text = config_text({program.name: first_experiment(program, program.image)}, "--command")
    return write_project(folder, {CONFIG: text})


def experiment(folder: Path, command: str) -> tuple[str, dict[str, Any]]:
    """Return name and keys of the experiment written for a command."""
    init(folder, command)
    content = yaml.safe_load((folder / "config/config.yaml").read_text())
    Config.model_validate(content, context=AS_WRITTEN)
    [(name, keys)] = content["experiments"].items()
    return name, keys


@pytest.mark.parametrize("rest", ["&& python3 b.py", "| tee log.txt", "> log.txt"])
def test_what_only_a_shell_carries_out_makes_no_project(tmp_path: Path, rest: str) -> None:
    command = f"python3 a.py {rest}"
    (tmp_path / "a.py").touch()
    with pytest.raises(ArgosyError, match="which only a shell carries out"):
        experiment_of(Program.of_text(tmp_path, command), command, None)


@pytest.mark.parametrize(
    ("program", "launcher"),
    [
        ("import horovod.torch as hvd", "horovod"),
        ("import torch.distributed as dist", "torch"),
        ("import lightning as L", "torch"),
        ("from accelerate import Accelerator", "torch"),
        ("import jax\njax.distributed.initialize()", "jax"),
        ("tf.distribute.MultiWorkerMirroredStrategy()", "tensorflow"),
        ("from mpi4py import MPI", "mpi"),
        ("import numpy\nimport ray", "ray"),
        ("from flwr.serverapp import ServerApp", "flower"),
        ("print('an array')", "plain"),
        ("import torch", "plain"),
        ("", "plain"),
    ],
)
def test_the_launcher_is_that_of_the_program(tmp_path: Path, program: str, launcher: str) -> None:
    (tmp_path / "train.py").write_text(program)
    keys = experiment(tmp_path, "python train.py")[1]
    assert (keys["launcher"], keys["image"]) == (launcher, "torch-cpu")


@pytest.mark.parametrize(
    "program", ["import keras", "from tensorflow import keras", "import horovod.tensorflow as hvd"]
)
def test_a_program_for_tensorflow_gets_its_image(tmp_path: Path, program: str) -> None:
    (tmp_path / "train.py").write_text(f"import os\n{program}\n")
    assert experiment(tmp_path, "python train.py")[1]["image"] == "tensorflow-cpu"


@pytest.mark.parametrize(
    ("command", "name", "words"),
    [
        ("python train.py --lr 1e-3", "train", "python3 /workloads/train.py --lr 1e-3"),
        ("python3.12 src/run.py", "run", "python3 /workloads/src/run.py"),
        (
            "python train.py --config src/a b.yaml",
            "train",
            "python3 /workloads/train.py --config src/a b.yaml",
        ),
        ("python 'my train.py'", "my-train", "python3 '/workloads/my train.py'"),
        ("flwr run src --stream", "src", "flwr run /workloads/src --stream"),
        ("python -m package.train", "training", "python3 -m package.train"),
        ("python ../outside.py", "training", "python3 ../outside.py"),
        (
            "python train.py --out . --name ''",
            "train",
            "python3 /workloads/train.py --out . --name ''",
        ),
        ("./src/run.py --fast", "run", "/workloads/src/run.py --fast"),
        (f"mytool {'x' * 300}", "training", f"mytool {'x' * 300}"),
        ("mytool --steps 5", "training", "mytool --steps 5"),
        # Names of result folders are avoided.
        ("python figures.py", "figures-run", "python3 /workloads/figures.py"),
    ],
)
def test_paths_of_the_folder_are_those_in_the_container(
    tmp_path: Path, command: str, name: str, words: str
) -> None:
    (tmp_path / "src").mkdir()
    for path in ("train.py", "src/run.py", "my train.py", "figures.py"):
        (tmp_path / path).touch()
    found, keys = experiment(tmp_path, command)
    assert (found, keys["command"]) == (name, words)
    assert keys.get("environment") == ({"PYTHONPATH": "/workloads"} if "-m" in command else None)


@pytest.mark.parametrize("name", ["Snakefile", "config/config.yaml"])
def test_a_workflow_that_is_there_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine\n")
    with pytest.raises(ArgosyError, match=f"{name}: this file exists already"):
        init(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [Path(name).name]


def test_other_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "slurm/local").mkdir(parents=True)
    (tmp_path / "slurm/local/site.yaml").write_text("mine\n")
    (tmp_path / ".gitignore").write_text("*.pt\n/results/\n")
    written = init(tmp_path)
    assert written == [
        "Snakefile",
        "config/config.yaml",
        "profiles/default/config.yaml",
        ".gitignore",
    ]
    assert (tmp_path / "slurm/local/site.yaml").read_text() == "mine\n"
    ignored = "*.pt\n/results/\n/.argosy\n/.snakemake/\n/resources/\n/logs/\n"
    assert (tmp_path / ".gitignore").read_text() == ignored


def test_a_gitignore_in_another_encoding_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"caf\xe9\r\n/logs/")
    assert ".gitignore" in init(tmp_path)
    ignored = b"caf\xe9\r\n/logs/\n/.argosy\n/.snakemake/\n/results/\n/resources/\n"
    assert (tmp_path / ".gitignore").read_bytes() == ignored


def test_an_interrupted_start_goes_on(tmp_path: Path) -> None:
    first = init(tmp_path)
    assert init(tmp_path) == []
    for name in ("config/config.yaml", "slurm/local/site.yaml"):
        (tmp_path / name).unlink()
    assert init(tmp_path) == ["config/config.yaml", "slurm/local/site.yaml"]
    assert all((tmp_path / name).is_file() for name in first)


def test_a_command_that_would_be_refused_makes_no_project(tmp_path: Path) -> None:
    with pytest.raises(ArgosyError, match=r"--command: experiments.*remove srun and its options"):
        init(tmp_path, "srun python train.py")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgosyError, match="--command: is empty"):
        init(tmp_path, "")
    assert list(tmp_path.iterdir()) == []


def test_an_image_comes_with_the_images_that_it_is_made_of(tmp_path: Path) -> None:
    assert eject_image(tmp_path, "torch-cpu") == [
        Path("containers/torch-cpu"),
        Path("containers/horovod"),
    ]
    for name in ("torch-cpu", "horovod"):
        own = tmp_path / "containers" / name / "Containerfile"
        assert own.read_bytes() == (SHIPPED / "containers" / name / "Containerfile").read_bytes()
    with pytest.raises(ArgosyError, match="containers/torch-cpu: exists already"):
        eject_image(tmp_path, "torch-cpu")
    with pytest.raises(ArgosyError, match="containers/nothing: does not come with Argosy"):
        eject_image(tmp_path, "nothing")


def test_a_cluster_is_copied_once(tmp_path: Path) -> None:
    assert add_site(tmp_path, "lumi") == [Path("slurm/lumi")]
    assert (tmp_path / "slurm/lumi/site.yaml").is_file()
    with pytest.raises(ArgosyError, match="slurm/lumi: exists already"):
        add_site(tmp_path, "lumi")
    with pytest.raises(ArgosyError, match=r"slurm/lumy: does not come .*did you mean lumi"):
        add_site(tmp_path, "lumy")
    for name in ("../lumi", "templates", ""):
        with pytest.raises(ArgosyError, match="does not come with Argosy"):
            add_site(tmp_path, name)
