"""A bundle for readers: nobody is named in it, and its numbers are those that were measured."""

import getpass
import json
import socket
from pathlib import Path

import pytest
from bundled_studies import RUN, SITE, bundled, contents, make_project

from argosy.bundle.bundling import Request, write_bundle
from argosy.errors import ArgosyError

HOST = "login7.cluster.example"
MEASURED = ("experiments", "rates", "method", "inputs")


def plant(project: Path) -> list[bytes]:
    """Write names where studies have them; all that must not be found afterwards."""
    user, home, host = getpass.getuser(), str(Path.home()), HOST
    run = project / RUN
    logs = run / "logs/100.0"
    (logs / "job.log").write_text(
        f"submitted by {user} on {host}\nhome is {home}/x, project {project}/config\n"
        f"host0: connected to 10.11.12.13:4567, host1 to 127.0.0.1, mail {user}@uni.example\n"
        f"/scratch/{user}/data and u{user}u are not alike\n"
    )
    (run / "job.sbatch").write_text("#!/bin/bash\n#SBATCH --account=grant-77\ncd /x\n")
    (run / f"logs/{host}-{user}.log").write_text("a log of a name\n")
    # What a probe has seen of nodes on which no run ran, and what it wrote of them.
    for folder in ("resources/probe/testbed/a100", "logs/testbed/doctor/main-a100"):
        (project / folder).mkdir(parents=True)
        name = "ga01-ib.cluster.example" if "probe" in folder else "kestrel-fat"
        (project / folder / "0.json").write_text(json.dumps({"node": name}))
    with (project / "slurm/testbed/site.yaml").open("a") as file:
        file.write(
            "# a100 (host77): Rocky Linux\n# a100 (ga01-ib): no GPU; ga02-ib, kestrel-fat, host0\n"
        )
    (run / "output").mkdir()
    (run / "output/plain.bin").write_bytes(b"\0\1\2")
    (run / "output/named.bin").write_bytes(b"\0" + f" {home} ".encode())
    # Among numbers a short name is chance.
    (run / "output/chance.bin").write_bytes(b"\0 host0 ")
    return [
        *(text.encode() for text in (home, str(project), "grant-77", "10.11.12.13")),
        *(b"login7", b"cluster.example", b"host0", b"host1", b"uni.example"),
        *(b"host77", b"ga01", b"ga02", b"kestrel-fat"),
    ]


@pytest.mark.slow
def test_nobody_is_named_and_all_that_was_measured_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "login7")
    monkeypatch.setattr(socket, "getfqdn", lambda: HOST)
    project = make_project(tmp_path / "a study")
    named = plant(project)
    said: list[str] = []
    plain = contents(bundled(project, tmp_path / "plain.zip"))
    request = Request(project, (SITE,), with_images=False, is_redacted=True)
    lines = write_bundle(request, tmp_path / "redacted.zip", said.append)
    found = contents(tmp_path / "redacted.zip")
    assert found.pop(f"{RUN}/output/chance.bin") == b"\0 host0 "
    for name, content in found.items():
        for each in named:
            assert each not in content, (name, each)
            assert each not in name.encode(), name
    user = getpass.getuser()
    log = found[f"{RUN}/logs/100.0/job.log"].decode()
    assert f"u{user}u" in log
    assert f"/scratch/{user}" not in log
    assert "127.0.0.1" in log
    assert f"{RUN}/output/plain.bin" in found
    assert f"{RUN}/output/named.bin" not in found
    assert "named.bin" in lines[1]
    assert json.loads(found["argosy-bundle.json"])["redacted"] is True
    before, after = (json.loads(files[f"results/{SITE}/summary.json"]) for files in (plain, found))
    assert {key: before[key] for key in MEASURED} == {key: after[key] for key in MEASURED}
    assert after["machines"][0]["hosts"] != before["machines"][0]["hosts"]
    assert found["workflow/rules/run.smk"] == plain["workflow/rules/run.smk"]


@pytest.mark.slow
def test_it_tells_where_programs_name_somebody(tmp_path: Path) -> None:
    project = make_project(tmp_path / "study")
    program = project / "containers/workloads/train.py"
    program.write_text(f"DATA = '{Path.home()}/data'\n")
    said: list[str] = []
    request = Request(project, (), with_images=False, is_redacted=True)
    write_bundle(request, tmp_path / "redacted.zip", said.append)
    assert said[-1] == (
        "programs stay as they are, and these hold names: containers/workloads/train.py"
    )


@pytest.mark.slow
def test_a_host_that_is_called_as_a_word_of_the_records(tmp_path: Path) -> None:
    project = make_project(tmp_path / "study")
    for path in project.rglob("verdict.json"):
        verdict = json.loads(path.read_text())
        path.write_text(json.dumps({**verdict, "hosts": ["run_id"]}))
    with pytest.raises(ArgosyError, match="cannot be read with other names in it"):
        bundled(project, tmp_path / "redacted.zip", is_redacted=True)
