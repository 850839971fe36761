"""Help, usage errors, and output for other programs."""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import Argosy
from typer.main import get_command

from argosy.cli import app


def all_commands() -> dict[str, object]:
    """Return each visible command by its words."""
    found = {}
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        below = getattr(command, "commands", {})
        found |= {f"{name} {each}": inner for each, inner in below.items()} or {name: command}
    return {name: each for name, each in found.items() if not getattr(each, "hidden", False)}


@pytest.mark.parametrize("name", all_commands())
@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_help(
    argosy: Argosy, monkeypatch: pytest.MonkeyPatch, name: str, option: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = argosy(*name.split(), option)
    assert (done.status, done.err) == (0, "")
    usage, *lines = done.out.splitlines()
    assert usage.startswith(f"Usage: argosy {name} [OPTIONS]")
    assert not re.search(r"[{}<…]|\[\[|\]\]", usage)
    assert max(map(len, lines)) < columns
    # A line of prose breaks only if the next word does not fit.
    prose = done.out.split("\n\n", 1)[1].split("Arguments:")[0].split("Options:")[0]
    for paragraph in prose.strip().split("\n\n"):
        rows = paragraph.splitlines()
        for row, following in pairwise(rows):
            assert len(row) + 1 + len(following.split()[0]) > min(columns, 80) - 6


@pytest.mark.parametrize(
    ("typed", "error", "hint"),
    [
        ("statsu", "argosy: there is no command statsu", "did you mean status?"),
        ("star", "argosy: there is no command star", "did you mean status?"),
        ("image bild", "argosy image: there is no command bild", "did you mean build?"),
        ("report --form", "argosy report: no such option: --form", "see: argosy report --help"),
        ("report --from", "argosy report: no such option: --from", "did you mean --from-tables?"),
        ("report a b", "argosy report: got unexpected extra argument", "see: argosy report --help"),
        (
            "run python train.py --lr 1",
            "argosy run: no such option: --lr",
            "write -- before a program that has options: argosy run -- COMMAND...",
        ),
        ("logs", "argosy logs: argument RUN is missing", "see: argosy logs --help"),
        ("logs x --rank y", "argosy logs: --rank: should be a valid integer", "see: argosy logs"),
        ("logs x --rank", "argosy: option '--rank' requires an argument", "see: argosy C"),
        ("predict x --efficiency 3", "argosy predict: --efficiency: should be less", "see: "),
        ("predict a b c", "argosy predict: give SITE and EXPERIMENT", "see: argosy predict --help"),
        ("status --json --watch", "argosy status: give --json or --watch, not both", None),
        ("logs a --rank 1 --node 1", "give at most one of --rank, --node, --job", None),
        ("image build torch", "containers/torch/Containerfile: there is no such", "did you mean t"),
        (
            "image why x",
            "containers/x/Containerfile: there is no such file",
            "there are downscaling-tensorflow, ",
        ),
        ("image shell x", "resources/images/x/image.lock: there is no such", "there are none yet"),
        (
            "image shell torch-cpu",
            "the image is not built yet",
            "run: argosy image build torch-cpu",
        ),
        ("image pack containers/torch-cpu/", "the image is not built yet", "run: argosy image b"),
    ],
)
def test_a_mistake_of_typing_is_one_line_and_its_hint(
    project: Path, argosy: Argosy, typed: str, error: str, hint: str | None
) -> None:
    run = "nodes1-ranks2-repeat1"
    done = argosy(*typed.replace("logs a ", f"logs {run} ").split())
    assert (done.status, done.out) == (2, "")
    lines = done.err.splitlines()
    assert lines[0].startswith("error: ") and error in lines[0]
    assert len(lines) == 1 + (hint is not None)
    assert hint is None or lines[1].startswith(f"hint: {hint}")


def test_without_a_command_the_help_is_shown(argosy: Argosy) -> None:
    for words in ((), ("image",), ("site",)):
        done = argosy(*words)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith(" ".join(("Usage: argosy", *words)))


def test_what_is_typed_and_what_the_workflow_calls_stand_apart(argosy: Argosy) -> None:
    text = argosy("--help").out
    plumbing = text.partition("Internal commands of the workflow:")[2]
    assert re.findall(r"^  (\w+)", plumbing, re.M) == ["render", "preflight", "tables", "failures"]
    assert "start" not in re.findall(r"^  (\w+)", text, re.M)


KEYS = {
    "status": {"site", "at", "scheduler", "scheduler_silent_since", "runs", "runs_not_planned"},
    "image list": {"images", "bytes", "cache"},
    "site list": {"sites"},
}


@pytest.mark.parametrize("command", KEYS)
def test_output_for_programs_is_json_and_nothing_else(
    project: Path, argosy: Argosy, command: str
) -> None:
    done = argosy(*command.split(), "--json")
    assert (done.status, done.err) == (0, "")
    content = json.loads(done.out)
    assert content.pop("schema_version") == 1
    assert set(content) == KEYS[command]


@pytest.mark.parametrize(
    ("command", "list_of", "heading"),
    [
        ("status", "runs", "`argosy status --json`:"),
        ("site list", "sites", "`argosy site list --json`:"),
    ],
)
def test_the_page_names_all_keys(
    project: Path, argosy: Argosy, command: str, list_of: str, heading: str
) -> None:
    page = (Path(__file__).parents[3] / "docs/commands.md").read_text()
    section = page.partition(heading)[2]
    content = json.loads(argosy(*command.split(), "--json").out)
    for key in {*content, *content[list_of][0]} - {"schema_version"}:
        assert f"`{key}`" in section or f"`{key}[]`" in section, key


def test_runs_are_as_the_table_has_them(project: Path, argosy: Argosy) -> None:
    runs = json.loads(argosy("status", "--json").out)["runs"]
    table = argosy("status").out
    for run in runs:
        [line] = [
            each for each in table.splitlines() if f"{run['experiment']}/{run['run']}" in each
        ]
        assert run["state"] in line
        assert f"{run['samples_per_s']:,.0f}" in line


def test_the_summary_is_the_file(project: Path, argosy: Argosy) -> None:
    written = json.loads(Path("results/local/summary.json").read_text())
    assert json.loads(argosy("summary", "--json").out) == written


def test_sites_are_a_line_each_and_shown_whole(project: Path, argosy: Argosy) -> None:
    for source in sorted((Path(__file__).parents[3] / "slurm").glob("*/site.yaml")):
        target = project / "slurm" / source.parent.name / "site.yaml"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(source.read_bytes())
    names = [each["name"] for each in json.loads(argosy("site", "list", "--json").out)["sites"]]
    rows = argosy("site", "list").out.splitlines()[2:-2]
    assert [row.split()[0] for row in rows] == names
    assert max(map(len, rows)) <= 80
    for name in names:
        assert argosy("site", "show", name).out.startswith("site ")
    shown = argosy("site", "show", "delta").out
    assert "A100 40 GB" in shown and "https://docs.ncsa.illinois.edu" in shown


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("argosy", "st"), ["status"]),
        (("argosy", "status", "lo"), ["local"]),
        (("argosy", "doctor", ""), ["local"]),
        (("argosy", "image", "l"), ["list"]),
        (("argosy", "report", "--fr"), ["--from-tables"]),
    ],
)
def test_a_shell_completes_commands_options_and_sites(
    project: Path, typed: tuple[str, ...], offered: list[str]
) -> None:
    asked = {
        "_ARGOSY_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(typed),
        "COMP_CWORD": str(len(typed) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "argosy"],
        cwd=project,
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
    )
    assert (done.stdout.split(), done.stderr) == (offered, "")


def test_init_writes_nothing_where_there_is_no_cluster_to_probe(
    argosy: Argosy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "repository"
    home.mkdir()
    (home / "train.py").write_text("print('100 samples/s')\n")
    monkeypatch.chdir(home)
    monkeypatch.setenv("PATH", str(home))
    done = argosy("init", "--command", "python train.py", "--site", "kestrel")
    assert done.status == 2
    assert "--site kestrel: there is no `scontrol` on this machine" in done.err
    assert "argosy site add NAME" in done.err
    assert [each.name for each in home.iterdir()] == ["train.py"]
    # An existing folder is used unchanged.
    assert argosy("site", "add", "lumi").status == 0
    done = argosy("init", "--command", "python train.py", "--site", "lumi")
    assert done.status == 0 and "snakemake --profile slurm/lumi" in done.err
    done = argosy("init", "--command", "true", "--site", "lumi", "--account", "project_465")
    assert (done.status, "hint: write account into slurm/lumi/site.yaml" in done.err) == (2, True)
    done = argosy("init", "--command", "true", "--account", "project_465")
    assert (done.status, "--account: only a probe uses it" in done.err) == (2, True)


def test_an_image_may_have_a_dockerfile_instead_of_a_containerfile(
    argosy: Argosy, project: Path
) -> None:
    folder = project / "containers/demo"
    folder.mkdir()
    (folder / "file").write_text("")
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY file /\n")
    assert "1 of 1 steps of demo have to run" in argosy("image", "why", "demo").out
    assert "run: argosy image build demo" in argosy("image", "shell", "demo").err
    assert "did you mean demo?" in argosy("image", "build", "demos").err
    for name in ("./containers/demo/", str(folder), "containers/../containers/demo"):
        assert "1 of 1 steps of demo have to run" in argosy("image", "why", name).out, name
    (project.parent / "demo").symlink_to(folder)
    for name in ("../demo", str(project.parent / "demo"), "..", "", "/", "slurm/demo"):
        done = argosy("image", "build", name)
        assert done.status == 2, name
        assert done.err.startswith(f"error: {name!r}: names no image of this project\nhint: "), name
