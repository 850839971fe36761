"""A node's clock that is set during a run changes no duration."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from agent_job import Job

from argosy.runtime.agent.settings import read_settings
from argosy.runtime.agent.status import StatusFile


@pytest.mark.parametrize("jump_s", [-3600.0, 365 * 86_400.0])
def test_the_end_is_the_start_plus_the_time_that_passed(
    job: Any, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    here: Job = job("pass", nodes=1)
    here.records.mkdir(parents=True, exist_ok=True)
    status, clock = StatusFile(read_settings(here.environment(0))), time.time
    status.begin()
    monkeypatch.setattr(time, "time", lambda: clock() + jump_s)
    status.end("completed", [], None)
    monkeypatch.undo()
    content = json.loads(Path(status.path).read_text())
    assert 0 <= content["ended"] - content["started"] < 600
