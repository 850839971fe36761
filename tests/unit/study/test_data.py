"""The key `data` of an experiment: valid values, and errors."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from small_studies import runs_of

from argosy.jobs.data import check_data, with_paths
from argosy.jobs.planning import Project, Target, plan_runs
from argosy.site.data import read_data
from argosy.study.runs import Run
from argosy_common.errors import ArgosyError
from argosy_common.host_paths import expanded, host_path, shell_word, variables

SITE = "slurm/<site>/data.yaml"


def runs(data: Any) -> list[Run]:
    return runs_of("walk", data=data)


def test_the_short_form_is_a_path_or_a_name_that_is_only_read() -> None:
    [run] = runs({"/data/era5": "~/era5", "/data/kept": {"from": "kept", "write": True}})
    [era5, kept] = run.data.values()
    assert (era5.source, era5.write, era5.digest) == ("$HOME/era5", False, False)
    assert (kept.source, kept.write) == ("kept", True)
    assert Run.model_validate_json(run.model_dump_json()) == run


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"data": "/a"}, "data: write an absolute path of letters, digits"),
        ({"/data/../x": "/a"}, "/data/../x: write an absolute path of letters, digits"),
        ({"/data/x/": "/a"}, "/data/x/: write an absolute path of letters, digits"),
        ({"/": "/a"}, "/: write an absolute path of letters, digits"),
        ({"/job/x": "/a"}, "/job/x: /job is the container's own; write /data/x"),
        ({"/etc": "/a"}, "/etc: /etc is the container's own"),
        ({"/data": "/a", "/data/x": "/b"}, ": /data/x lies in /data: leave one out"),
        (
            {"/data/x": "a/b"},
            f"x.from: write an absolute path, .*, or a name of {SITE} .it is 'a/b'",
        ),
        (
            {"/data/x": "$(rm)/b"},
            "x.from: write an absolute path, which may begin with ~ or with a",
        ),
        (
            {"/data/x": "${A:-b}/b"},
            "x.from: write an absolute path, which may begin with ~ or with a",
        ),
        ({"/data/x": "~you/b"}, "x.from: write an absolute path, which may begin with ~ or with a"),
        ({"/data/x": "/a\nb"}, "x.from: write an absolute path, which may begin with ~ or with a"),
        ({"/data/x": None}, f"/data/x: write a host path, or a name of {SITE}"),
        ({"/data/x": {"write": True}}, "/data/x.from: this key is missing"),
        (
            {"/data/x": {"from": "/a", "copy": "node"}},
            "/data/x.copy: no such key; there are from, write, digest, stage",
        ),
        (
            {"/data/x": {"from": "/a", "stage": "memory"}},
            "x.stage: input should be 'shared' or 'node'",
        ),
        (
            {"/data/x": {"from": "/a", "stage": "node", "write": True}},
            "x: leave out `write: true` or `stage: node`: the copies on nodes are read-only",
        ),
    ],
)
def test_mistakes_name_the_key_and_the_remedy(data: Any, said: str) -> None:
    with pytest.raises(ArgosyError, match=f"^config.yaml: experiments.walk.data.*{said}") as found:
        runs(data)
    assert "\n" not in str(found.value)


def test_only_variables_of_a_path_are_filled_in(tmp_path: Path) -> None:
    path = host_path("~/`touch pwned` '${A}'_$A/x y")
    assert variables(path) == ["A", "HOME"]
    values = {"HOME": "/home of/me", "A": "$(touch pwned)"}
    script = f"printf %s {shell_word(path)}"
    done = subprocess.run(["bash", "-c", script], env=values, cwd=tmp_path, stdout=subprocess.PIPE)
    assert done.stdout.decode() == expanded(path, values)
    assert expanded(path, values) == "/home of/me/`touch pwned` '$(touch pwned)'_$(touch pwned)/x y"
    assert expanded(path, {"HOME": "/home", "A": ""}) is None
    assert [*tmp_path.iterdir()] == []


def test_a_name_is_a_path_of_the_site(tmp_path: Path) -> None:
    asked = runs({"/data/era5": "era5"})
    with pytest.raises(ArgosyError) as found:
        with_paths(asked, tmp_path / "fjord")
    assert found.value.lines == (
        "experiments.walk.data./data/era5: slurm/fjord/data.yaml has no era5\n"
        "hint: add the line `era5: PATH` to it"
    )
    path = tmp_path / "data.yaml"
    path.write_text("era6: $SCRATCH/era6\n")
    with pytest.raises(ArgosyError, match="has no era5; did you mean era6"):
        with_paths(asked, tmp_path)
    path.write_text("era5: ~/era5\n")
    assert with_paths(asked, tmp_path)[0].data["/data/era5"].source == "$HOME/era5"
    assert "stage" not in with_paths(asked, tmp_path)[0].model_dump_json()
    path.write_text("era5: {from: ~/era5, stage: node}\n")
    found = with_paths(asked, tmp_path)[0].data["/data/era5"]
    assert (found.source, found.stage) == ("$HOME/era5", "node")
    written = runs({"/data/era5": {"from": "era5", "write": True}})
    said = "write: true, but slurm/.*/data.yaml has stage: node for era5; leave out one of them"
    with pytest.raises(ArgosyError, match=said):
        with_paths(written, tmp_path)
    for wrong, said in {
        "era5: era5": "era5.from: write an absolute path",
        "era5: {from: /x, stge: node}": "era5.stge: no such key; did you mean stage",
        "[]": "write a map",
    }.items():
        path.write_text(wrong + " \n" if wrong != "[]" else "- a\n")
        with pytest.raises(ArgosyError, match=f"data.yaml: .*{said}"):
            read_data(path)


def test_what_is_seen_here_is_checked_before_submission(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(source: Any, site: str = "local") -> None:
        asked = runs({"/data/x": source})
        check_data(
            [tmp_path / "folder/results"], plan_runs(Project(project), Target(site), asked, {})
        )

    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("gone")
    os.mkfifo(tmp_path / "fifo")
    wrong = {
        "absent": "is missing",
        "absent/below": "is missing",
        "folder": "is empty",
        "empty": "is empty",
        "link": "is a link to gone, which is missing",
        "fifo": "is neither a folder nor a file",
    }
    for name, said in wrong.items():
        with pytest.raises(ArgosyError) as found:
            check(f"{tmp_path}/{name}")
        assert found.value.lines == (
            f"experiments.walk.data./data/x: {tmp_path}/{name} {said}\n"
            "hint: change the path there or in slurm/local/data.yaml"
        )
    for top in (tmp_path, folder, folder / "results/local"):
        said = f"{top} must not be writable: Argosy uses {folder}/results"
        with pytest.raises(ArgosyError, match=said):
            check({"from": str(top), "write": True})
    (tmp_path / "kept").mkdir()
    check({"from": f"{tmp_path}/kept", "write": True})
    (folder / "file").touch()
    check(str(folder))
    monkeypatch.delenv("SCRATCH", raising=False)
    check("$SCRATCH/absent")
    # Nodes have their own /tmp, and folders that this host lacks.
    check("/tmp/absent", "testbed")
    check("/lustre/absent", "testbed")
    with pytest.raises(ArgosyError, match="/etc/absent is missing"):
        check("/etc/absent", "testbed")
