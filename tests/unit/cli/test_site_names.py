"""All commands accept the same names of a site; a folder of no site is refused and unchanged."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Argosy, snapshot

RESULTS = {
    "tables": (),
    "report": (),
    "summary": (),
    "figures": (),
    "predict": ("digits-mlp",),
    "status": (),
    "failures": (),
}
"""Commands with SITE, and their arguments after it."""


@pytest.fixture(scope="module")
def one_copy(made_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("untouched") / "project"
    shutil.copytree(made_project, path, symlinks=True)
    return path


@pytest.fixture
def untouched(one_copy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project for tests that do not change it."""
    monkeypatch.chdir(one_copy)
    return one_copy


@pytest.mark.parametrize("command", RESULTS)
@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ("results", "results/local"),
        ("results/", "results/local"),
        (".", "results/local"),
        ("{project}", "{project}/results/local"),
        ("{project}/results", "{project}/results/local"),
        ("results/local/digits-mlp", "results/local"),
        ("results/local/digits-mlp/nodes1-ranks2-repeat1", "results/local"),
        ("results/local/tables", "results/local"),
        ("results/local/report.html", "results/local"),
        ("results/local/nothing", "results/local"),
        ("loca", "local"),
        ("results/locla", "local"),
    ],
)
def test_a_folder_that_is_too_high_or_too_low_is_refused(
    untouched: Path, argosy: Argosy, command: str, named: str, meant: str
) -> None:
    before = snapshot(untouched)
    done = argosy(command, named.format(project=untouched), *RESULTS[command])
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert done.err.endswith(f"hint: did you mean {meant.format(project=untouched)}?\n")
    assert snapshot(untouched) == before


@pytest.mark.parametrize("command", RESULTS)
@pytest.mark.parametrize(
    "named", ["/etc", "config", "README", "nowhere/local", "config/config.yaml", "", "..", "slurm"]
)
def test_a_folder_of_something_else_is_refused(
    untouched: Path, argosy: Argosy, command: str, named: str
) -> None:
    before = snapshot(untouched)
    done = argosy(command, named, *RESULTS[command])
    assert (done.status, done.out) == (2, "")
    assert len(done.err.splitlines()) == 2
    assert snapshot(untouched) == before


@pytest.mark.parametrize("command", ["summary", "status", "tables", "failures", "figures"])
@pytest.mark.parametrize(
    "named",
    [
        None,
        "local",
        "results/local",
        "results/local/",
        "./results/local",
        "slurm/local",
        "slurm/local/",
        "{project}/results/local",
        "{project}/slurm/local",
        "results/../results/local",
    ],
)
def test_a_site_is_named_by_name_or_folder(
    project: Path, argosy: Argosy, command: str, named: str | None
) -> None:
    done = argosy(command, *([named.format(project=project)] if named else []))
    assert done.status == 0, done.err


def test_two_sites_are_compared_by_name(project: Path, argosy: Argosy) -> None:
    shutil.copytree("results/local", "results/other")
    summary = Path("results/other/summary.json")
    summary.write_text(summary.read_text().replace('"local"', '"other"'))
    done = argosy("compare", "local", "results/other")
    assert (done.status, done.out) == (0, "comparison.html\n")
    too_high = argosy("compare", "local", "results", "--output", "again.html")
    assert too_high.err.endswith("hint: did you mean results/local, results/other?\n")
    assert not Path("again.html").exists()


def test_of_several_the_one_of_the_configuration_is_taken_and_said(
    project: Path, argosy: Argosy
) -> None:
    shutil.copytree("results/local", "results/other")
    done = argosy("summary")
    assert done.status == 0
    assert done.err == "site local, of config/config.yaml\n"
    assert done.out.endswith("/results/local/report.html\n")
    Path("config/config.yaml").write_text("site: other\n")
    assert argosy("summary").err == "site other, of config/config.yaml\n"
    for text in ("site: third\n", "site: [", "- 1\n"):
        Path("config/config.yaml").write_text(text)
        unclear = argosy("summary")
        assert unclear.status == 2
        assert unclear.err.endswith("hint: name one of local, other\n")


def test_results_of_another_project_are_named_by_their_folder(
    project: Path, argosy: Argosy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for named in (project / "results/local", project / "slurm/local", "../project/slurm/local"):
        assert argosy("status", str(named)).status == 0


@pytest.mark.parametrize(
    "named", ["local", "slurm/local", "results/local", "{project}/slurm/local", "slurm/local/"]
)
def test_settings_of_a_site_are_named_so_too(project: Path, argosy: Argosy, named: str) -> None:
    done = argosy("site", "show", named.format(project=project))
    assert done.status == 0
    assert "slurm/local/site.yaml" in done.out


@pytest.mark.parametrize(
    "command",
    [
        ("doctor",),
        ("site", "show"),
        ("preflight", "--runs", "x", "--output", "y"),
        ("image", "build", "torch-cpu", "--site"),
    ],
)
@pytest.mark.parametrize("named", ["locl", "slurm/locl", "results", "/etc", ".", ""])
def test_an_unknown_site_is_a_mistake_like_any_other(
    project: Path, argosy: Argosy, command: tuple[str, ...], named: str
) -> None:
    before = snapshot(project)
    done = argosy(*command, named)
    assert (done.status, done.out) == (2, "")
    assert "there is no such site" in done.err and "local" in done.err.splitlines()[1]
    assert snapshot(project) == before


@pytest.mark.parametrize(
    ("named", "hint"),
    [
        ("results", "there are"),
        ("results/local/digits-mlp/nodes1-ranks2-repeat1/logs", "did you mean digits-mlp/nodes1-"),
        ("results/local/digits-mlp", "there are"),
        ("/etc", "there are"),
        ("nodes1-ranks2-repeat9", "there are"),
    ],
)
@pytest.mark.parametrize("command", ["logs", "records"])
def test_a_folder_of_no_run_is_refused(
    project: Path, argosy: Argosy, command: str, named: str, hint: str
) -> None:
    done = argosy(command, named)
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines()[1].startswith(f"hint: {hint}")


@pytest.mark.parametrize(
    "named",
    [
        "results/local/digits-mlp/nodes1-ranks2-repeat1",
        "{project}/results/local/digits-mlp/nodes1-ranks2-repeat1/",
        "./results/local/digits-mlp/nodes1-ranks2-repeat1",
        "digits-mlp/nodes1-ranks2-repeat1",
    ],
)
def test_a_run_is_named_by_its_folder(project: Path, argosy: Argosy, named: str) -> None:
    done = argosy("records", named.format(project=project))
    assert (done.status, done.err) == (0, "")
    assert {json.loads(line)["kind"] for line in done.out.splitlines()} >= {"step"}


@pytest.mark.parametrize(
    "command",
    [
        ("status", "new"),
        ("report", "new"),
        ("predict", "new", "x"),
        ("doctor", "new"),
        ("site", "show", "new"),
    ],
)
def test_a_site_with_a_wrong_suffix_is_named(
    project: Path, argosy: Argosy, command: tuple[str, ...]
) -> None:
    (project / "slurm/new").mkdir()
    (project / "slurm/new/site.yml").write_text("scheduler: local\n")
    done = argosy(*command)
    assert (done.status, done.out) == (2, "")
    assert done.err.endswith("hint: rename site.yml to site.yaml\n")


def test_results_of_another_project_are_not_bundled_as_ones_own(
    project: Path, argosy: Argosy, tmp_path: Path
) -> None:
    other = tmp_path / "other/results/local"
    shutil.copytree(project / "results/local", other)
    done = argosy("bundle", "study.zip", str(other), "--no-images")
    assert (done.status, done.out) == (2, "")
    assert "these results are of another project" in done.err
    assert not (project / "study.zip").exists()


LOOKS = (
    *(("status",), ("summary",), ("failures",), ("figures",), ("tables",), ("report",)),
    *(("predict", "x"), ("logs", "x"), ("records", "x"), ("bundle", "study.zip"), ("doctor",)),
    *(("site", "list"), ("site", "show"), ("site", "here"), ("site", "probe", "x", "--again")),
    *(("image", "list"), ("image", "why", "x"), ("image", "prune", "--dry-run")),
    *(("image", "engines"), ("image", "build", "x"), ("image", "shell", "x")),
    *(("image", "pack", "x"), ("image", "native", "x"), ("image", "export", "x", "y")),
    ("image", "import", "x.tar", "y"),
)


@pytest.mark.parametrize("command", LOOKS, ids="-".join)
def test_a_folder_of_no_project_is_said_in_one_way_and_stays_empty(
    tmp_path: Path, argosy: Argosy, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.delenv("ARGOSY_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    done = argosy(*command)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"error: this is not an Argosy project: {tmp_path} has no ")
    assert not list(tmp_path.iterdir())


def test_the_project_above_is_named(
    project: Path, argosy: Argosy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "results/local")
    assert argosy("status").err.endswith(f"hint: cd {project}\n")


@pytest.mark.parametrize("command", [("image", "list"), ("image", "prune", "--dry-run")])
def test_a_look_makes_no_store(project: Path, argosy: Argosy, command: tuple[str, ...]) -> None:
    before = snapshot(project)
    assert argosy(*command).status == 0
    assert snapshot(project) == before


def test_the_package_is_a_program(project: Path) -> None:
    for name in ("argosy", "argosy.cli"):
        done = subprocess.run(
            [sys.executable, "-m", name, "--version"], capture_output=True, text=True, check=True
        )
        assert done.stdout.startswith("argosy 0.")
