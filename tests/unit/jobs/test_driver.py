"""One driver at a time, which a dead one does not keep out, at the site of its profile."""

import subprocess
import sys
from pathlib import Path

import pytest

from argosy.jobs.driver import DriverLock, LockedError, check_profile
from argosy_common.errors import ArgosyError

HOLD = """
import sys, time
from pathlib import Path
from argosy.jobs.driver import DriverLock
lock = DriverLock.take(Path(sys.argv[1]), "here")
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_driver_is_told_who_the_first_is(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "held\n"
        with pytest.raises(
            LockedError,
            match=rf"another snakemake manages the runs of .* \(process {other.pid} on ",
        ):
            DriverLock.take(tmp_path, "here")
        DriverLock.take(tmp_path, "elsewhere").release()
        other.kill()
        other.wait()
        DriverLock.take(tmp_path, "here").release()


def test_it_can_be_taken_again_when_it_was_given_back(tmp_path: Path) -> None:
    DriverLock.take(tmp_path, "here").release()
    DriverLock.take(tmp_path, "here").release()


@pytest.fixture
def _sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kestrel", "local"):
        (tmp_path / "slurm" / name).mkdir(parents=True)
        (tmp_path / "slurm" / name / "site.yaml").touch()
        (tmp_path / "slurm" / name / "config.yaml").touch()
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)


@pytest.mark.usefixtures("_sites")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--profile", "slurm/kestrel"],
        ["--profile=slurm/kestrel", "-n"],
        ["--profile", "slurm/kestrel/config.yaml"],
        ["-n", "--profile", "slurm/kestrel/", "figures"],
        ["--profile", "mine", "--profile", "./slurm/kestrel"],
    ],
)
def test_a_lost_site_is_named_with_the_remedy(arguments: list[str]) -> None:
    with pytest.raises(ArgosyError, match="so the runs would go to local") as refusal:
        check_profile("local", {"only": ["digits"]}, arguments)
    assert refusal.value.hint == "add site=kestrel to --config"


@pytest.mark.usefixtures("_sites")
def test_a_profile_of_the_environment_counts_where_the_command_line_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "slurm/kestrel")
    with pytest.raises(ArgosyError):
        check_profile("local", {"only": ["digits"]}, ["-n"])
    check_profile("local", {"only": ["digits"]}, ["-n", "--profile", "slurm/local"])


@pytest.mark.usefixtures("_sites")
@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ({"site": "local"}, ["--profile", "slurm/kestrel"]),
        ({"only": ["digits"]}, ["--profile", "slurm/local"]),
        ({"only": ["digits"]}, ["--profile", "mine"]),
        ({"only": ["digits"]}, ["figures"]),
        ({}, []),
    ],
)
def test_what_was_meant_is_accepted(said: dict[str, object], arguments: list[str]) -> None:
    check_profile("local", said, arguments)
