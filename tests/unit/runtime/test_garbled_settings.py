"""With arbitrary values in run.json, the agent reads it or prints one line."""

import json
import random
from pathlib import Path

import pytest
from fuzzing import fuzz, write
from garbled import garbled
from run_files import run_content

from argosy.runtime.agent.settings import (
    MeetingPoint,
    NodePlace,
    SettingsError,
    filled_words,
    rank_environment,
    read_settings,
)
from argosy_common.errors import ArgosyError

CASES = 1_000
RUN = run_content(
    nodes=2,
    ranks_per_node=2,
    image={"name": "x", "digest": f"sha256:{0:064}"},
    command=["python3", "/workloads/train.py", "/data/x"],
    rank_environment={"RANK": "{rank}", "AT": "{head_address}:{x_port}", "ALL": "{node_addresses}"},
    throughput={
        "pattern": "([0-9.]+) s",
        "is": "seconds",
        "per": "step",
        "times": 64,
        "of": "rank",
    },
    time_limit_s=60,
    checkpoints={"warning_s": 10, "requeues": 1},
    variant={"of": "study", "data": "synthetic"},
    timeline=True,
    hang_timeout_s=5,
    gpus_per_rank=1,
    outputs=["output"],
    data={"/data/x": {"path": "$X/x", "write": False, "digest": True, "stage": "node"}},
    metrics={"loss": "loss ([0-9.]+)"},
    per="node",
    start=["python3", "-c", "print({rank})"],
    beside={"head": [["ray", "start", "{head_address}"]], "each": [["ray", "{rank_port}"]]},
    bind="core",
    cpus_per_rank=1,
    restarts=1,
    least_nodes=1,
)
FORMATS = (
    *(
        "{",
        "}",
        "{}",
        "{0}",
        "{rank[0]}",
        "{rank.a}",
        "{rank.__class__}",
        "{rank!x}",
        "{rank!r:>9}",
    ),
    *(
        "{rank:x}",
        "{tmp:d}",
        "{rank:999999999999999999999}",
        "{rank:{size}}",
        "{x_port}",
        "\0",
        "\ud800",
    ),
    *(
        "([",
        "(a)(b)",
        "(?P<number>a)(?P<x>b)",
        "(" * 5000,
        "(a{99999999999})",
        "(?i)(a)",
        "{head_port:c}",
    ),
)


@pytest.mark.thorough
@pytest.mark.slow
def test_garbled_runs_are_read_or_refused_in_a_line(tmp_path: Path) -> None:
    environ = {
        "ARGOSY_RUN_DIR": str(tmp_path),
        "ARGOSY_ATTEMPT": "7.0",
        "ARGOSY_NODE": "0",
        "ARGOSY_NODES": "2",
        "ARGOSY_RANKS_PER_NODE": "2",
        "ARGOSY_HEAD_ADDRESS": "127.0.0.1",
        "ARGOSY_HEAD_PORT": "7000",
        "ARGOSY_TOKEN": "secret",
    }
    meeting = MeetingPoint(nodes=[NodePlace("127.0.0.1", (1, 2))] * 2)

    def is_read(chance: random.Random) -> bool:
        text = garbled(json.dumps(RUN), chance)
        if chance.random() < 0.5:
            # Half of the values are texts that the agent fills in or compiles.
            word = chance.choice(
                [each for each in json.dumps(RUN).split('"')[1::2] if " " in each or "{" in each]
            )
            text = json.dumps(RUN).replace(json.dumps(word), json.dumps(chance.choice(FORMATS)), 1)
        write(tmp_path / "run.json", text)
        names = chance.sample(sorted(environ), chance.choice((0, 0, 0, 1)))
        odd = dict.fromkeys(names, chance.choice(("", "x", "-1", "9" * 400, "1", "::1", "1e3")))
        native = {"ARGOSY_WORKLOADS": "/home/{me}", "ARGOSY_DATA": "/data/x\t/y"}
        try:
            settings = read_settings({**environ, **chance.choice(({}, native)), **odd})
            rank_environment(settings, 0, meeting)
            filled_words(settings, settings.run.start or (), 0, meeting)
        except SettingsError as problem:
            raise ArgosyError(str(problem)) from None
        return True

    fuzz(is_read, CASES)
