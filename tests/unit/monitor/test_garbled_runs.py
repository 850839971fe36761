"""Run folders in which anything may stand anywhere: each command shows them, or refuses them in a line."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from fuzzing import fuzz
from garbled import ESCAPE, some_garbled
from live_study import FakeStudy, evenly, records, starts

from argosy.cli import runs as commands
from argosy.cli.guard import MISTAKE, status_of
from argosy.monitor.table import show
from argosy.schedulers.base import State
from argosy.terminal import make_console

STUDIES = 300
FAILURE = {"node": 0, "rank": 0, "cause": "exit code 1", "at": 1.0}


def in_every_state(fake: FakeStudy) -> list[str]:
    """Make a study with runs of all states; return their names."""
    fake.plan("planned")
    runs = {name: fake.plan(name) for name in ("waiting", "running", "lost", "failed", "completed")}
    for number, (name, run) in enumerate(runs.items()):
        fake.submitted(run, str(number), scheduler="local")
        if name != "waiting":
            starts(run, f"{number}.0")
            run.telemetry(0, gpus=1, attempt=f"{number}.0")
            run.printed([3.0, 4.0], f"{number}.0")
            records(run, f"{number}.0", 0, evenly(9))
        if name in ("failed", "completed"):
            run.execute(f"{number}.0", name, failure=FAILURE if name == "failed" else None)
    fake.queued(runs["waiting"], "0", State.PENDING, reason="Priority")
    fake.queued(runs["running"], "1", State.RUNNING)
    (fake.site / "report.html").touch()
    folders = sorted(path.parent for path in fake.site.glob("*/*/run.json"))
    (fake.site / "runs.txt").write_text("".join(f"{folder}\n" for folder in folders))
    return [f"{folder.parent.name}/{folder.name}" for folder in folders]


@pytest.mark.thorough
@pytest.mark.slow
def test_garbled_runs_are_shown_or_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    fake = FakeStudy(Path("results/local"))
    names = in_every_state(fake)
    files = sorted(path for path in fake.site.rglob("*") if path.is_file())

    def shown(chance: random.Random) -> bool:
        run = chance.choice(names)
        log = partial(commands.logs, run, follow=False)
        looks: list[Callable[[], object]] = [
            partial(commands.status, "local", watch=False, json=False),
            partial(commands.status, "local", watch=False, json=True),
            lambda: show(fake.study(), make_console()),
            partial(commands.failures, "local"),
            partial(commands.records, run),
            partial(commands.why, run),
            *(partial(log, **which) for which in ({}, {"rank": 0}, {"node": 0}, {"job": True})),
        ]
        with some_garbled(files, chance):
            statuses = [status_of(look) for look in looks]
        out, err = capsysbinary.readouterr()
        assert ESCAPE[0].encode() not in out + err
        assert err.count(b"error: ") == sum(status == MISTAKE for status in statuses)
        assert b"root:x:0" not in out
        return not any(statuses)

    fuzz(shown, STUDIES)
