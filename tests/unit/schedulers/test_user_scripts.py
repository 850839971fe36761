"""`argosy init --from` makes an experiment and a site of a batch script, and names each of its lines."""

import os
import re
import shlex
from pathlib import Path

import pytest
import yaml

from argosy.results.hidden_values import SECRET_NAME
from argosy.schedulers.slurm.user_script.conversion import Converted, convert, convert_launch
from argosy.schedulers.slurm.user_script.lines import Script
from argosy.shipped.new_project import config_text
from argosy.site.models import Site, read_site
from argosy_common.errors import ArgosyError

SCRIPTS = Path(__file__).parent / "user_scripts"
PROGRAMS = {
    "lightning_train.py": "import lightning",
    "ddp_train.py": "import torch.distributed",
    "nlp/ddp_train.py": "import torch.distributed",
    "keras_train.py": "import horovod.tensorflow.keras",
    "hvd_train.py": "import horovod.torch",
    "mymodel/train.py": "import torch.distributed",
    "vae.py": "import torch",
    "solve.py": "from mpi4py import MPI",
    **dict.fromkeys(("plot.py", "configs/base.yaml", "configs/ds.json", "env/bin/activate"), ""),
    **dict.fromkeys(("activateEnvironment.sh", "export_vars.sh"), ""),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with programs."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("USER", "me")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    for name, text in PROGRAMS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def converted(project: Path, text: str, image: str | None = None) -> Converted:
    """Convert a script's text."""
    (project / "job.sbatch").write_text(text)
    return convert(project / "job.sbatch", project, "mycluster", image, SECRET_NAME)


def shown(found: Converted, project: Path) -> str:
    """Return all that a script becomes."""
    config, _, _ = config_text({found.name: found.experiment}, "").partition("    # The report")
    parts = [f"== config/config.yaml\n{config}"]
    parts += [
        f"== {name}\n{text}" for name, text in found.site_files.items() if "config" not in name
    ]
    for title, notes in (("taken", found.taken), ("not taken", found.left)):
        lines = "".join(f"{each.line} | {each.text} | {each.said}\n" for each in notes)
        parts.append(f"== {title}\n{lines}")
    return "\n".join(parts).replace(str(project), "/PROJECT")


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.sbatch")), ids=lambda path: path.stem)
def test_scripts_become_studies(project: Path, script: Path) -> None:
    found = convert(script, project, "mycluster", None, SECRET_NAME)
    expected = script.with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(shown(found, project))
    assert shown(found, project) == expected.read_text()
    for name, text in found.site_files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    assert isinstance(read_site(project / "slurm/mycluster"), Site)
    named = set[int]()
    for note in (*found.taken, *found.left):
        first, _, last = note.line.partition("-")
        named |= set(range(int(first), int(last or first) + 1))
    for number, line in enumerate(script.read_text().splitlines(), 1):
        is_command = line.strip() and not re.match(r"\s*#(?!SBATCH)", line)
        assert not is_command or number in named, f"{script}:{number}: {line}"


def experiment(project: Path, *lines: str) -> dict[str, object]:
    return {**converted(project, "\n".join(("#!/bin/bash", *lines))).experiment}


@pytest.mark.parametrize(
    ("lines", "nodes", "ranks", "gpus"),
    [
        (["srun -N 4 -n 8 python ddp_train.py"], [1, 2, 4], 2, 0),
        (["#SBATCH -N3", "srun --ntasks-per-node=2 python ddp_train.py"], [1, 2, 3], 2, 0),
        (
            ["#SBATCH --nodes=2-4 -G 8", "torchrun --nproc-per-node=gpu ddp_train.py"],
            [1, 2, 4],
            2,
            1,
        ),
        (["#SBATCH --gres=gpu", "torchrun --nproc_per_node $N ddp_train.py"], [1], 1, 1),
        (["#SBATCH --gpus-per-node=8", "torchrun --standalone ddp_train.py"], [1], 1, 8),
        (["python -u -m torch.distributed.launch --nproc_per_node=3 ddp_train.py"], [1], 3, 0),
        (["#SBATCH -N 2", "mpirun -np 6 python ddp_train.py"], [1, 2], 3, 0),
        (["X=5", "mpiexec.hydra -ppn ${X} python ddp_train.py"], [1], 5, 0),
        (["#SBATCH -N 2 --gres=gpu:4", "accelerate launch ddp_train.py"], [1, 2], 4, 1),
        (["#SBATCH --ntasks=8 --gpus-per-task=2 -N 2", "srun ./solve.py"], [1, 2], 4, 2),
    ],
)
def test_sizes_come_from_the_job_and_from_its_launcher(
    project: Path, lines: list[str], nodes: list[int], ranks: int, gpus: int
) -> None:
    found = experiment(project, *lines)
    scale, resources = found["scale"], found["resources"]
    assert isinstance(scale, dict) and isinstance(resources, dict)
    assert (scale["nodes"], scale["ranks_per_node"]) == (nodes, ranks)
    assert resources.get("gpus_per_rank", 0) == gpus


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (
            "python3.11 ddp_train.py --a=configs",
            "python3 /workloads/ddp_train.py --a=/workloads/configs",
        ),
        ("env A=1 torchrun -m mymodel.train --b 2", "python3 -m mymodel.train --b 2"),
        ("torchrun --no-python ./solve.py x", "/workloads/solve.py x"),
        ("srun -l -c2 --mpi pmix $PWD/solve.py '$x' \"y;z\"", "/workloads/solve.py '$x' 'y;z'"),
        ("cd nlp; srun python ddp_train.py", "python3 /workloads/nlp/ddp_train.py"),
        ("podman-hpc run --rm -v /a:/b x/y:1 python vae.py", "python3 /workloads/vae.py"),
        ("singularity run --nv docker://x/y:1 python vae.py", "python3 /workloads/vae.py"),
        ("python vae.py > a.txt 2>&1 & sleep 5", "python3 /workloads/vae.py"),
        ("srun bash -c 'python vae.py --x 1 2>&1 | tee a'", "python3 /workloads/vae.py --x 1"),
        ("python vae.py --all $SLURM_NTASKS", "python3 /workloads/vae.py --all {ranks}"),
        ("python plot.py\nsrun python vae.py", "python3 /workloads/vae.py"),
        (
            "E=${E:-3}\npython vae.py --e $E ${LR:-0.1} ${1-x}",
            "python3 /workloads/vae.py --e 3 0.1 x",
        ),
        ("X=\npython vae.py \"${X:-a b}\" ${Y:='c'}", "python3 /workloads/vae.py 'a b' c"),
        (
            '#SBATCH -c 4\npython vae.py $SLURM_CPUS_PER_TASK ${SLURM_ARRAY_TASK_ID:-0} "$@"',
            "python3 /workloads/vae.py 4 0",
        ),
        (
            "O=out/${SLURM_JOB_ID:-0}\npython vae.py $O ${SLURM_JOB_NAME}",
            "python3 /workloads/vae.py out/{nodes}x{ranks_per_node}-{repeat} {experiment}",
        ),
        (
            "srun python vae.py $SLURM_PROCID $SCRATCH",
            "python3 /workloads/vae.py $SLURM_PROCID $SCRATCH",
        ),
        (
            'A="--x 1 --y \'b\'"\npython vae.py $A "$A"',
            "python3 /workloads/vae.py --x 1 --y \\'b\\' ...",
        ),
    ],
)
def test_a_launch_line_becomes_a_command(project: Path, line: str, command: str) -> None:
    found = shlex.split(str(experiment(project, line)["command"]))
    wanted = shlex.split(command)
    if wanted[-1] == "...":
        assert found[: len(wanted) - 1] == wanted[:-1] and found[-1] == "--x 1 --y 'b'"
    else:
        assert found == wanted


@pytest.mark.parametrize(
    "text",
    [
        *("", "#SBATCH -N 2", "srun hostname", "echo python train.py", "python -c 'import torch'"),
        *("python -m venv env", "a='", "\x01", "cat <<END\npython vae.py\nEND"),
        "for i in 1 2; do\n  srun python vae.py\ndone",
    ],
)
def test_a_script_without_a_launch_line_is_refused(project: Path, text: str) -> None:
    with pytest.raises(ArgosyError, match="no line starts a program"):
        converted(project, f"{text}\n")


def test_a_file_with_nul_bytes_is_no_script(project: Path) -> None:
    with pytest.raises(ArgosyError, match="contains a NUL byte"):
        converted(project, "module load 'a\0'\nsrun python vae.py\n")


def test_a_named_image_wins_over_modules(project: Path) -> None:
    found = converted(project, "module load a\nsrun python vae.py\n", "torch-cpu")
    assert found.experiment["image"] == "torch-cpu" and "runtime" not in found.experiment
    assert [(note.line, note.text) for note in found.left] == [("1", "module load a")]
    assert "slurm/mycluster/job.sbatch.j2" not in found.site_files


@pytest.mark.parametrize(
    "line",
    [
        "module load $(touch x)",
        "source `touch x`/activate",
        "module load '{% include \"x\" %}'",
        "module load ${A[0]}",
        "export X=$(touch x)$HOME",
    ],
)
def test_what_a_command_prints_is_in_no_script(project: Path, line: str) -> None:
    found = converted(project, f"module load a\n{line}\nsrun python vae.py\n")
    assert "touch" not in "".join(found.site_files.values())
    assert "include" not in found.site_files["slurm/mycluster/job.sbatch.j2"]
    assert "2" in [note.line for note in found.left]


def test_words_of_the_block_are_quoted(project: Path) -> None:
    found = converted(project, "module load 'a; touch x' \"$B c\"\nsrun python vae.py\n")
    lines = found.site_files["slurm/mycluster/job.sbatch.j2"].splitlines()
    assert "module load 'a; touch x' \"${B} c\"" in lines


@pytest.mark.parametrize(
    ("start", "data"),
    [
        ("singularity exec -B /a:/b:rw,/c:/d:ro,/e", {"/b": "/a rw", "/d": "/c", "/e": "/e"}),
        (
            "apptainer exec --bind=$SCRATCH/a:/b --bind ~/c:/d",
            {"/b": "$SCRATCH/a", "/d": "$HOME/c"},
        ),
        ("singularity exec -B nlp:/b,gone:/c,$(pwd)/x:/d", {"/b": "/PROJECT/nlp"}),
        ("apptainer exec -B /a:/usr/local,/a:/workloads,/a:/b,/c:/b/d", {"/b": "/a"}),
        (
            "srun --container-mounts=/a:/b:ro+rprivate,${DATA}:/c --container-image=",
            "/b=/a /c=${DATA}",
        ),
        ("shifter -V '/a:/b;/c:/d' --volume=/e:/f --image=", "/b=/a /d=/c /f=/e"),
        ("podman-hpc run --rm -e A=1 -v /a:/b:rw,z -v named:/c", {"/b": "/a rw"}),
        ("APPTAINER_BIND=/a:/b apptainer exec", {"/b": "/a"}),
    ],
)
def test_binds_become_data(project: Path, start: str, data: dict[str, str] | str) -> None:
    wanted = dict(each.split("=") for each in data.split()) if isinstance(data, str) else data
    line = f"{start}{'' if start.endswith('=') else ' '}docker://x/y:1 python vae.py"
    found = converted(project, line)
    text = {
        target: f"{source['from']} rw" if isinstance(source, dict) else source
        for target, source in found.experiment.get("data", {}).items()
    }
    assert {key: each.replace(str(project), "/PROJECT") for key, each in text.items()} == wanted
    config_text({found.name: found.experiment}, "")
    said = [note.said for note in found.left if "`data` refuses it" in note.said]
    assert len(said) == len(re.findall(r":/usr|:/workloads|:/b/d|gone|pwd|named", start))


def test_a_bind_of_the_project_is_the_project(project: Path) -> None:
    start = "singularity exec -B $PWD:/code --bind $SLURM_SUBMIT_DIR x.sif"
    found = converted(project, f"{start} python /code/hvd_train.py --config=/code/configs")
    wanted = "python3 /workloads/hvd_train.py --config=/workloads/configs"
    assert (found.name, found.experiment["command"]) == ("hvd_train", wanted)
    assert found.experiment["launcher"] == "horovod" and "data" not in found.experiment
    assert sum("shows the project" in note.said for note in found.taken) == 2


@pytest.mark.parametrize(
    ("command", "launcher", "nodes", "ranks"),
    [
        ("torchrun --nproc-per-node 2 --nnodes 3 ddp_train.py --a 1", "torch", [1, 2, 3], 2),
        ("accelerate launch --num_processes 4 ddp_train.py --a 1", "torch", [1], 4),
        ("python -m torch.distributed.run --nproc_per_node=2 ddp_train.py --a 1", "torch", [1], 2),
        ("mpirun -np 4 --bind-to core python ddp_train.py --a 1", "torch", [1], 4),
        ("horovodrun -np 2 python ddp_train.py --a 1", "horovod", [1], 2),
        ("srun -N2 -n 4 python ddp_train.py --a 1", "torch", [1, 2], 2),
        ("B=1 python ddp_train.py --a 1", "torch", [1], 1),
    ],
)
def test_a_typed_launch_line_is_taken_apart(
    project: Path, command: str, launcher: str, nodes: list[int], ranks: int
) -> None:
    found = convert_launch(command, project, None, SECRET_NAME)
    assert found and found.experiment["command"] == "python3 /workloads/ddp_train.py --a 1"
    assert (found.name, found.experiment["launcher"]) == ("ddp_train", launcher)
    scale = found.experiment["scale"]
    assert (scale["nodes"], scale["ranks_per_node"]) == (nodes, ranks)
    config_text({found.name: found.experiment}, "")
    assert not found.left


@pytest.mark.parametrize("command", ["python vae.py", "solve --x 1", "bash -c 'python vae.py'", ""])
def test_other_commands_are_taken_as_they_are(project: Path, command: str) -> None:
    assert convert_launch(command, project, None, SECRET_NAME) is None


@pytest.mark.parametrize(
    ("image", "wanted"),
    [
        ("x.sif", "x.sif"),
        ("$PWD/images/x.sif", "images/x.sif"),
        ("~/x.sif", "/home/me/x.sif"),
        ("/apps/x.sif", "/apps/x.sif"),
        ("$SCRATCH/x.sif", "torch-cpu"),
        ("/apps/x.sqsh", "torch-cpu"),
        ("library://a/x.sif", "torch-cpu"),
    ],
)
def test_a_sif_file_is_an_image(project: Path, image: str, wanted: str) -> None:
    line = f"singularity exec --env A=1 {image} python vae.py"
    found = converted(project, line)
    assert (found.experiment["image"], found.experiment["environment"]) == (wanted, {"A": "1"})
    assert ("image: is torch-cpu" in "".join(note.said for note in found.left)) is (
        wanted == "torch-cpu"
    )
    assert converted(project, line, "torch-cpu").experiment["image"] == "torch-cpu"


def test_options_of_pyxis_and_shifter_may_be_the_jobs(project: Path) -> None:
    lines = (
        "#SBATCH --container-image=a/b:1 --container-mounts=/a:/b,/c:/d:rw\nsrun python vae.py\n"
    )
    found = converted(project, lines)
    assert found.experiment["image"] == "docker://a/b:1"
    assert found.experiment["data"] == {"/b": "/a", "/d": {"from": "/c", "write": True}}
    assert "container" not in found.site_files["slurm/mycluster/site.yaml"]


@pytest.mark.parametrize("site", ["local", "templates", "../x", ""])
def test_the_name_of_the_site_is_checked(project: Path, site: str) -> None:
    with pytest.raises(ArgosyError, match="cannot be the name of a cluster"):
        convert(SCRIPTS / "mpirun.sbatch", project, site, None, SECRET_NAME)


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("30", "30m"), ("0:30", "1m"), ("1-0:30", "1d30m"), ("0", None), ("UNLIMITED", None)],
)
def test_times_are_slurms(project: Path, time: str, seconds: str | None) -> None:
    found = experiment(project, f"#SBATCH -t {time}", "python vae.py")
    resources = found["resources"]
    assert isinstance(resources, dict) and resources.get("time") == seconds


def test_marks_of_what_is_not_known_stay_whole(project: Path) -> None:
    found = converted(project, "srun -$-mpi=pmi2 --x=$Y \ue0009\ue001 python vae.py $- $Z\n")
    texts = "".join(f"{note.text}{note.said}" for note in (*found.taken, *found.left))
    assert "\ue000" not in f"{found.experiment}{texts}" and "$-mpi" in texts


def test_reading_a_long_script_takes_no_time(project: Path) -> None:
    script = Script.read("echo '" + "x\n" * 3000 + "'\n" + "if x; then\n" * 3000, {})
    assert len(script.left) == 1


def test_the_files_are_yaml_of_plain_values(project: Path) -> None:
    text = "#SBATCH --comment='a: {b}' -p 'x'\nsrun python vae.py\n"
    site = yaml.safe_load(converted(project, text).site_files["slurm/mycluster/site.yaml"])
    assert site["options"]["comment"] == "a: {{b}}"


@pytest.mark.timeout(60)
def test_a_word_of_digits_is_read_once(project: Path) -> None:
    """Digits may belong to a redirection behind them."""
    found = converted(project, f"srun python ddp_train.py {'9' * 160_000} 2>err\n", "torch-gpu")
    assert "9" * 1000 in found.experiment["command"]


def test_one_part_of_a_job_of_several_becomes_an_experiment(project: Path) -> None:
    found = converted(
        project,
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4 --partition=big\n#SBATCH hetjob\n"
        "#SBATCH --nodes=1 --partition=small\n"
        "srun --het-group=0 ./solve.py --a 1 : --het-group=1 python plot.py\n",
    )
    assert found.experiment["command"] == "/workloads/solve.py --a 1"
    assert found.experiment["scale"]["nodes"] == [1, 2]
    assert "partition: big" in found.site_files["slurm/mycluster/site.yaml"]
    left = {each.text: each.said for each in found.left}
    assert "another component of a heterogeneous job" in left["#SBATCH --nodes=1 --partition=small"]
    assert "all ranks start one program" in left["srun : --het-group=1 python plot.py"]


def test_a_backslash_keeps_a_variable_for_the_inner_shell(project: Path) -> None:
    line = r'srun bash -c "python vae.py --out runs/\$SLURM_JOB_ID --seed \$SLURM_PROCID"'
    command = str(experiment(project, line)["command"])
    assert "runs/{nodes}x{ranks_per_node}-{repeat}" in command and "${RANK}" in command
