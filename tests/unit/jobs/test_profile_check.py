"""`--config` on the command line replaces the profile's: a site that is lost by that is noticed."""

from pathlib import Path

import pytest

from argosy.jobs.driver import check_profile
from argosy_common.errors import ArgosyError


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kestrel", "local"):
        (tmp_path / "slurm" / name).mkdir(parents=True)
        (tmp_path / "slurm" / name / "site.yaml").touch()
        (tmp_path / "slurm" / name / "config.yaml").touch()
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)


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


def test_a_profile_of_the_environment_counts_where_the_command_line_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "slurm/kestrel")
    with pytest.raises(ArgosyError):
        check_profile("local", {"only": ["digits"]}, ["-n"])
    check_profile("local", {"only": ["digits"]}, ["-n", "--profile", "slurm/local"])


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
