"""A program that is not there is refused before anything is submitted."""

from pathlib import Path

import pytest
from small_studies import runs_of

from argosy.jobs.program_check import check_programs
from argosy_common.errors import ArgosyError

FILES = (
    *("train.py", "run.sh", "models/__init__.py", "models/resnet.py", "torch/digits.py"),
    *("configs/base.yaml", "app/__main__.py"),
)


@pytest.fixture
def workloads(tmp_path: Path) -> Path:
    folder = tmp_path / "project/containers/workloads"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    for name in ("train.py", "tools/run.sh", "package/__init__.py", "package/start.py"):
        (folder.parents[1] / name).parent.mkdir(exist_ok=True)
        (folder.parents[1] / name).touch()
    return folder


def check(workloads: Path, command: str, native: bool = False, **variables: str) -> None:
    image = {} if native else {"image": "torch-cpu"}
    check_programs(workloads, runs_of(command=command, environment=variables, **image))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "python3 /workloads/trian.py",
            "/workloads/trian.py: no such .*did you mean /workloads/train.py",
        ),
        ("python3 /workloads/modles/resnet.py", "did you mean /workloads/models[?]"),
        ("/workloads/rum.sh", "did you mean /workloads/run.sh"),
        ("python3 /workloads/ap", "/workloads/ap: no such file or folder"),
        ("bash -c 'python3 /workloads/trian.py; true'", "did you mean /workloads/train.py"),
        ("bash -c 'cd /workloads && python3 trian.py'", "did you mean /workloads/train.py"),
        ("python3 /workloads/train.py --config=/workloads/configs/bse.yaml", "configs/base.yaml"),
        ("/workloads/quite/else", "no such file or folder"),
        ("torchrun /workloads/quite/else.py", "containers have your other folders only by `data`"),
    ],
)
def test_what_a_container_would_not_find_is_refused(
    workloads: Path, command: str, said: str
) -> None:
    with pytest.raises(ArgosyError, match=f"experiments.one.command: .*{said}"):
        check(workloads, command)


@pytest.mark.parametrize(
    "command",
    [
        "python3 /workloads/train.py --data /workloads/configs",
        "python3 /workloads/app",
        "python3 /workloads/train.py --data /workloads/weather/1981",
        "bash -c 'test -f /workloads/extra.yaml && echo yes'",
        "bash -c 'python3 /workloads/$PROGRAM.py /workloads/*.py'",
        "python3 -m torch.distributed.run /workloads/train.py",
        "python3 train.py",
        "mytool --out out.py",
        "python3 -m pytest",
    ],
)
def test_what_may_be_there_is_taken(workloads: Path, command: str) -> None:
    check(workloads, command)
    check(workloads, "true", PYTHONPATH="/workloads:/opt/x", FILE="/workloads/{rank}.py")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("trian", "did you mean /workloads/train.py"),
        ("models.resnte", "did you mean /workloads/models/resnet.py"),
        ("models.quite.different", "/workloads/models/quite/different.py"),
        ("torch.distributed.run", ""),
        ("torchrun", ""),
        ("models.resnet", ""),
        ("models", ""),
        ("json.tool", ""),
    ],
)
def test_modules_are_looked_for_where_a_variable_says(
    workloads: Path, module: str, said: str
) -> None:
    if not said:
        check(workloads, f"python3 -m {module}", PYTHONPATH="/workloads")
        return
    with pytest.raises(ArgosyError, match=said):
        check(workloads, f"python3 -m {module}", PYTHONPATH="/workloads")
    with pytest.raises(ArgosyError, match=said):
        check(workloads, f"bash -c 'cd /workloads; python3 -m {module}'")


def test_a_variable_is_named(workloads: Path) -> None:
    with pytest.raises(
        ArgosyError, match=r"experiments\.one\.environment\.CONFIG: /workloads/confgs"
    ):
        check(workloads, "true", CONFIG="/workloads/confgs/base.yaml")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python3 trian.py --out new.yaml", "trian.py: no such .*did you mean train.py"),
        ("{home}/env/bin/python ./trian.py", "did you mean train.py"),
        ("tools/rum.sh", "did you mean tools/run.sh"),
        ("python3 {project}/trian.py", "did you mean train.py"),
        ("python3 nowhere.py", "write a path from the project's folder"),
        ("bash -c 'python3 trian.py'", "did you mean train.py"),
        ("python3 -m trian", "did you mean train.py"),
        ("python3 -m package.strat", "did you mean package/start.py"),
        ("python3 /workloads/trian.py", "did you mean /workloads/train.py"),
        ("python3 train.py", ""),
        ("python3 -m package.start", ""),
        ("python3 train.py --out=/workloads/new.json new.txt", ""),
        ("/usr/bin/nothing here.py.txt", ""),
        ("/nowhere/on/this/machine/bin/python train.py", ""),
        ("bash -c 'cd /tmp && python3 elsewhere.py'", ""),
    ],
)
def test_programs_of_a_run_without_a_container(workloads: Path, command: str, said: str) -> None:
    project = workloads.parents[1]
    words = command.format(project=project, home=project.parent)
    if said:
        with pytest.raises(ArgosyError, match=said):
            check(workloads, words, native=True)
    else:
        check(workloads, words, native=True)


def test_what_cannot_be_looked_at_may_be_there(workloads: Path) -> None:
    secret = workloads / "secret"
    secret.mkdir(mode=0)
    try:
        check(workloads, "python3 /workloads/secret/train.py")
        check(workloads, f"{secret}/run.sh", native=True)
    finally:
        secret.chmod(0o700)
