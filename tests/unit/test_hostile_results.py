"""Whatever lies in the place of a file of a run, views, report and driver go on and follow nothing."""

import io
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console
from study_files import RunFiles, completed, write_json

from argosy.errors import ArgosyError
from argosy.jobs.schedulers.base import State, Status
from argosy.jobs.verdicts import read_ending, settle, uncollected
from argosy.live import watch
from argosy.live.failures import describe, failed_runs
from argosy.live.logs import Log
from argosy.live.queue import Queue
from argosy.live.study import Study
from argosy.report.write import write_report
from argosy.results.collect import collect
from argosy.results.tables import fetch, open_tables

SECRET = "-----BEGIN PRIVATE KEY-----"
SECONDS = 60
"""For all that looks at a study in which nothing is as it should be."""
FAILURE = {"node": 0, "rank": 0, "cause": "exit code 1", "at": 1.0}
JOB = "100"

_listeners: list[list[str]] = []


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if event == "argosy.reading.open":
        for listener in _listeners:
            listener.append(str(arguments[0]))


sys.addaudithook(_listen)


def a_run(site: Path, repeat: int) -> RunFiles:
    """A run with all the files that there can be: a job that failed, and started again completed."""
    run = completed(site, metrics={"test_accuracy": 0.9}, repeat=repeat)
    run.execute("99.0", "failed", failure=FAILURE)
    run.execute(f"{JOB}.0")
    for incarnation in ("99.0", f"{JOB}.0"):
        run.claim(incarnation)
        run.telemetry(0, incarnation=incarnation)
        run.printed([320.0], incarnation)
    (run.path / "incarnation").write_text(f"{JOB}.0\n")
    jobs = [{"scheduler": "local", "job_id": name, "submitted": 1.0} for name in ("99", JOB)]
    write_json(run.path / "job.json", {"schema_version": 1, "jobs": jobs})
    (run.path / f"logs/slurm-{JOB}.log").write_text("srun: nothing\n")
    (run.records(f"{JOB}.0") / "timeline.json").write_text("[]\n")
    return run


def look(site: Path, runs: list[RunFiles], out: io.StringIO) -> None:
    """All that reads what runs left: tables, report, views and the driver."""
    collect(site, site / "tables")
    write_report(site)
    watch.show(Study(site, Queue(list)), Console(file=out, width=400))
    planned = [run.path for run in runs]
    out.write("\n".join(describe(failed_runs(site, planned), site / "report.html")))
    for run in runs:
        for kind in ("all", "job", "rank-0", "node-0"):
            content = io.BytesIO()
            with suppress(ArgosyError):
                Log(run.path, kind).print(content)
            out.write(content.getvalue().decode())
        for ended in (Status(State.FAILED, JOB), Status(State.FAILED, "99")):
            settle(run.path, ended)
            out.write(read_ending(run.path, ended).message)
        with suppress(ArgosyError):
            uncollected(run.path)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What is the user's own: a key, and a folder with one."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("key", "rank-0.log", "node-0.log", "job.log", "verdict.json", "claim.json"):
        (folder / name).write_text(f"{SECRET}\n")
    (folder / "rank-0.jsonl").write_text(f'{{"kind": "metric", "name": "{SECRET}", "value": 1}}\n')
    return folder


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """The files that are opened meanwhile."""
    found: list[str] = []
    _listeners.append(found)
    yield found
    _listeners.remove(found)


def pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def link_to_a_key(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "key")


def link_to_a_device(path: Path, outside: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path, outside: Path) -> None:
    path.mkdir()


def listening_socket(path: Path, outside: Path) -> None:
    # The name of a socket has room for few letters.
    with socket.socket(socket.AF_UNIX) as listener:
        descriptor = os.open(path.parent, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{descriptor}/{path.name}")
        os.close(descriptor)


def endless(path: Path, outside: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def deeply_nested(path: Path, outside: Path) -> None:
    path.write_text("[" * 200_000)


def wrong_types(path: Path, outside: Path) -> None:
    names = ("nodes", "ranks_per_node", "incarnation", "state", "failure", "jobs", "unix", "hosts")
    path.write_text(json.dumps({"schema_version": 1, **dict.fromkeys(names, 10**300)}))


def control_characters(path: Path, outside: Path) -> None:
    text = "\x1b]0;title\x07\x1b[2J\x9b1A\u202e"
    path.write_text(json.dumps({"schema_version": 1, "state": text}, ensure_ascii=False) + text)


TRAPS = [
    pipe, link_to_a_key, link_to_a_device, folder, listening_socket, endless, deeply_nested, wrong_types,
    control_characters,
]  # fmt: skip
FOLDERS = ("records", "attempts", "logs", f"records/{JOB}.0", f"attempts/{JOB}.0", f"logs/{JOB}.0")


def files_that_are_read(tmp_path: Path, opened: list[str]) -> list[str]:
    """Paths below a run's folder, found by reading one."""
    site = tmp_path / "healthy/cluster"
    run = a_run(site, 1)
    look(site, [run], io.StringIO())
    found = {
        path.removeprefix(f"{run.path}/") for path in opened if path.startswith(f"{run.path}/")
    }
    opened.clear()
    return sorted(found)


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_nothing_in_the_place_of_a_file_stops_a_reader(
    tmp_path: Path, outside: Path, opened: list[str], trap: Callable[[Path, Path], None]
) -> None:
    paths = files_that_are_read(tmp_path, opened)
    expected = {"run.json", "result.json", "job.json", f"attempts/{JOB}.0/verdict.json", "incarnation",
                f"records/{JOB}.0/rank-0.jsonl", f"records/{JOB}.0/node-0.json", "provenance.json",
                f"logs/{JOB}.0/ranks/rank-0.log", f"logs/{JOB}.0/job.log"}  # fmt: skip
    assert expected <= set(paths), paths
    site = tmp_path / "results/cluster"
    healthy = a_run(site, 1)
    trapped = []
    for number, path in enumerate(paths, start=2):
        run = a_run(site, number)
        (run.path / path).unlink()
        trap(run.path / path, outside)
        trapped.append(run)
    check(site, [healthy, *trapped])


def test_no_folder_is_followed(tmp_path: Path, outside: Path) -> None:
    site = tmp_path / "results/cluster"
    runs = [a_run(site, 1)]
    for number, name in enumerate(FOLDERS, start=2):
        run = a_run(site, number)
        (run.path / name).rename(tmp_path / f"away{number}")
        (run.path / name).symlink_to(outside)
        runs.append(run)
    check(site, runs)


def check(site: Path, runs: list[RunFiles]) -> None:
    """Look, and see that it took its time at most, said no secret, and has the healthy run's numbers."""
    out = io.StringIO()
    began = time.monotonic()
    look(site, runs, out)
    assert time.monotonic() - began < SECONDS
    said = out.getvalue()
    page = (site / "report.html").read_text()
    for text in (said, page, (site / "summary.json").read_text()):
        assert SECRET not in text
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
    with open_tables(site / "tables") as tables:
        known = fetch(
            tables, f"SELECT unreadable_records FROM runs WHERE run_id = '{runs[0].run_id}'"
        )
        steps = fetch(tables, f"SELECT count(*) AS n FROM steps WHERE run_id = '{runs[0].run_id}'")
    assert (known, steps) == ([{"unreadable_records": 0}], [{"n": 15}])
