"""Whatever a program puts where a file of its run is read: readers go on, in time, and tell no secret.

Which paths those are is found by looking on while a healthy study is read, so a new one is tried by itself.
"""

import io
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from live_study import FakeStudy, evenly, records, starts
from planted_files import SECRET, Outside, plant
from reports import reported
from study_files import RunFiles, completed, plan, write_json

from argosy.cli.results import summary
from argosy.jobs import verdicts
from argosy.monitor.failures import describe, failed_runs
from argosy.monitor.logs import Log
from argosy.monitor.table import show
from argosy.report import write_report
from argosy.results import collect
from argosy.results.tables import fetch, open_tables, parquet
from argosy.schedulers import slurm
from argosy.schedulers.base import State, Status
from argosy.terminal import make_console
from argosy_common.errors import ArgosyError
from argosy_common.reading import NotReadError

FAILURE = {"node": 0, "rank": 0, "cause": "exit code 1", "at": 1.0}
FOR_DRIVER = ("pipe", "link to a secret", "link to a device", "endless file", "folder")
IN_ALL_S = 60.0
"""For some hundreds of runs, each with something planted, on a busy machine."""
EACH_S = 6.0
"""For the log and the ending of one run."""


class Healthy:
    """Runs as they are left, by how they ended; `job` is the number of each run's job."""

    def __init__(self, fake: FakeStudy) -> None:
        self.fake = fake
        self.number = 100

    def run(self, kind: str) -> RunFiles:
        self.number += 1
        job = str(self.number)
        run = self.fake.plan(f"{kind}{job}")
        self.fake.submitted(run, job)
        starts(run, f"{job}.0")
        run.claim(f"{job}.0")
        (run.path / "logs" / f"scheduler-{job}.log").write_text("slurmstepd: said\n")
        getattr(self, f"_{kind}")(run, job)
        return run

    def _completed(self, run: RunFiles, job: str) -> None:
        run.execute(f"{job}.0")
        run.steps(f"{job}.0")
        run.telemetry(0, gpus=1, attempt=f"{job}.0")
        run.printed([3.0], f"{job}.0")
        (run.records(f"{job}.0") / "timeline.json").write_text("[]")

    def _failed(self, run: RunFiles, job: str) -> None:
        run.execute(f"{job}.0", "failed", failure=FAILURE)

    def _lost(self, run: RunFiles, job: str) -> None:
        """It left no verdict."""

    def _running(self, run: RunFiles, job: str) -> None:
        self.fake.queued(run, job, State.RUNNING)
        records(run, f"{job}.0", 0, evenly(20))
        run.printed([3.0], f"{job}.0")


KINDS = ("completed", "failed", "lost", "running")


@pytest.fixture
def fake(tmp_path: Path) -> FakeStudy:
    return FakeStudy(tmp_path / "results" / "cluster")


_looked_at: list[set[Path]] = []


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _looked_at and event in ("argosy_common.reading.open", "open"):
        _looked_at[-1].add(Path(str(arguments[0])))


sys.addaudithook(_note)


@contextmanager
def looking_on() -> Iterator[set[Path]]:
    _looked_at.append(set())
    try:
        yield _looked_at[0]
    finally:
        _looked_at.pop()


def read_all(fake: FakeStudy, planned: Sequence[Path], said: io.StringIO) -> None:
    """What status, failures, tables, report and summary do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", said)
        show(fake.study(), make_console())
        patch.setattr("argosy.monitor.failures.Study", lambda site: fake.study())
        for line in describe(failed_runs(fake.site, planned), fake.site / "report.html"):
            print(line)
        reported(fake.site)
        summary(fake.site)


def read_each(run: Path, job: str, said: io.StringIO) -> None:
    """What `argosy logs` and the driver at a job's end do."""
    out = io.BytesIO()
    try:
        Log(run).print(out)
    except (ArgosyError, NotReadError) as problem:
        print(problem, file=said)
    said.write(out.getvalue().decode())
    status = Status(State.GONE, job)
    verdicts.settle(run, status, slurm.LOG_WORDS)
    print(verdicts.read_ending(run, status).message, file=said)


@pytest.mark.thorough
@pytest.mark.slow
def test_whatever_lies_where_a_file_is_read(
    fake: FakeStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A program that looks at what a job left is ended after so long; here the wait is not the point.
    monkeypatch.setattr(verdicts, "SETTLE_S", 1.0, raising=False)
    outside, healthy = Outside(tmp_path / "outside"), Healthy(fake)
    runs = {kind: healthy.run(kind) for kind in KINDS}
    before = measured(fake)
    assert before
    with looking_on() as opened:
        read_all(fake, [run.path for run in runs.values()], io.StringIO())
        for kind, run in runs.items():
            if kind != "running":
                read_each(run.path, run.path.parent.name.removeprefix(kind), io.StringIO())
    paths = {
        (kind, path.relative_to(run.path))
        for kind, run in runs.items()
        for path in opened
        if path.is_relative_to(run.path) and path.suffix != ".sbatch"
    }
    paths |= {(kind, folder) for kind, path in paths for folder in path.parents if folder.name}
    # A verdict that settle wrote for the run that had none is not there when others are planted.
    paths -= {
        (kind, path) for kind, path in paths if kind == "lost" and path.name == "verdict.json"
    }
    assert len(paths) > 30
    victims = []
    for kind, path in sorted(paths):
        old = runs[kind].path.parent.name.removeprefix(kind)
        for what, put in outside.kinds().items():
            run = healthy.run(kind)
            job = run.path.parent.name.removeprefix(kind)
            plant(run.path / str(path).replace(old, job), put)
            victims.append((kind, path, what, run.path, job))
    said = io.StringIO()
    began = time.monotonic()
    read_all(fake, [folder for *_, folder, _ in victims], said)
    assert time.monotonic() - began < IN_ALL_S
    with open_tables(fake.site / "tables") as tables:
        problems = {row["experiment"]: row["problem"] for row in fetch(tables, "FROM problems")}
    for kind, path, what, folder, job in victims:
        problem = problems.get(folder.parent.name, "")
        assert "\n" not in problem
        assert problem or not is_told(kind, path, what), (kind, path, what)
        # The driver starts programs, which take long, and read no records.
        if kind != "running" and path.suffix not in (".jsonl", ".steps") and what in FOR_DRIVER:
            began = time.monotonic()
            read_each(folder, job, said)
            assert time.monotonic() - began < EACH_S, (kind, path, what)
    text = said.getvalue()
    pages = [(fake.site / name).read_text() for name in ("report.html", "summary.json")]
    assert SECRET not in text + "".join(pages)
    assert "\x1b]" not in text
    assert "\u202e" not in text + "".join(pages)
    assert measured(fake, runs["completed"].path.parent.name) == before


def is_told(kind: str, path: Path, what: str) -> bool:
    """Whether the report has to say that the run cannot be read."""
    if path.suffix == ".json" and path.name != "timeline.json":
        return True
    is_file = what in ("control characters", "deep JSON", "wrong types", "wide JSON")
    if path.suffix == ".steps":
        return kind == "completed"
    return kind == "completed" and path.suffix in (".json", ".jsonl") and not is_file


def measured(fake: FakeStudy, experiment: str = "completed101") -> list[dict[str, object]]:
    collect(fake.site, fake.site / "tables")
    query = "SELECT rank, step, seconds, samples FROM steps WHERE experiment = $name"
    with open_tables(fake.site / "tables") as tables:
        return fetch(tables, query, {"name": experiment})


@pytest.mark.parametrize("name", ["{outside}/secret", "../outside/secret", "a.log", "b/secret"])
def test_a_table_does_not_choose_files_of_the_reader(tmp_path: Path, name: str) -> None:
    outside, site = Outside(tmp_path / "outside"), tmp_path / "site"
    run = plan(site)
    run.execute("7.0", "failed", failure=FAILURE)
    (site / "a.log").symlink_to(outside.secret)
    (site / "b").symlink_to(outside.folder)
    collect(site, site / "tables")
    with open_tables(site / "tables") as tables:
        query = "SELECT * REPLACE ($name AS log_file) FROM failures"
        text = name.format(outside=outside.folder)
        parquet(tables, query, site / "tables" / "failures.new", {"name": text})
    (site / "tables" / "failures.new").replace(site / "tables" / "failures.parquet")
    write_report(site)
    page = (site / "report.html").read_text()
    assert SECRET not in page + (site / "summary.json").read_text()
    assert "is not a regular file of the results" in page
    assert 'href="./../' not in page
    assert 'href=".//' not in page


@pytest.mark.parametrize("file", ["summary.json", "tables/runs.parquet"])
def test_files_of_a_site_are_files(tmp_path: Path, file: str) -> None:
    outside, site = Outside(tmp_path / "outside"), tmp_path / "site"
    completed(site)
    reported(site)
    whole = (site / file).read_bytes()
    for what, put in outside.kinds().items():
        plant(site / file, put)
        began = time.monotonic()
        with pytest.raises(ArgosyError) as problem:
            summary(site) if file == "summary.json" else write_report(site)
        assert time.monotonic() - began < EACH_S, what
        assert SECRET not in str(problem.value)
        assert "\n" not in str(problem.value)
        plant(site / file, lambda path: path.write_bytes(whole))
    summary(site) if file == "summary.json" else write_report(site)


def test_a_million_nodes_are_no_loop(fake: FakeStudy) -> None:
    for number, nodes in enumerate((10**9, -1, 1e9, "2", None, [], True, 10**400)):
        run = fake.plan(f"e{number}")
        fake.submitted(run, "7")
        starts(run, "7.0")
        fake.queued(run, "7", State.RUNNING)
        asked = json.loads((run.path / "run.json").read_text())
        write_json(run.path / "run.json", asked | {"nodes": nodes})
    began = time.monotonic()
    views = fake.study().look(5).views
    assert [view.state for view in views] == ["unreadable"] * len(views)
    collect(fake.site, fake.site / "tables")
    with open_tables(fake.site / "tables") as tables:
        assert len(fetch(tables, "FROM problems")) == len(views)
    assert time.monotonic() - began < EACH_S
