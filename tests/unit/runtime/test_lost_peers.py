"""The root cause if one rank ends and others fail because of it."""

from pathlib import Path
from typing import Any

import pytest

from argosy.runtime.agent.coordination.failure import (
    ABORT,
    EXIT,
    LOST,
    SIGNAL,
    VANISHED,
    Failure,
    Finished,
    Sighting,
    ends_the_job,
    has_lost_another,
    last_lines,
    root_cause,
    unreachable,
    window,
)


def seen(rank: int, kind: str, at: float, cause: str = "exit code 1") -> Sighting:
    return Sighting(Failure(rank, rank, cause, at, kind), at)


@pytest.mark.parametrize(
    "said",
    [
        "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was caused by",
        "RuntimeError: [/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:1",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection reset by peer",
        "torch.distributed.DistBackendError: remote process exited or there was a network error",
        "[rank1]: torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
        "what(): connect [10.88.0.3]:1: Connection timed out",
        "BrokenPipeError: [Errno 32] Broken pipe",
    ],
)
def test_what_libraries_say_of_a_rank_that_has_gone(said: str) -> None:
    assert has_lost_another(f"Traceback\n{said}\n")


def test_other_last_words_are_of_the_ranks_own_fault() -> None:
    assert not has_lost_another("ValueError: shapes do not fit\n")
    assert not has_lost_another("torch.cuda.OutOfMemoryError: CUDA out of memory\n")


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (
            "connect [10.88.0.3]: Connection timed out",
            "it cannot reach 10.88.0.3: Connection timed out",
        ),
        (
            "connect [10.88.0.3]:4711: No route to host",
            "it cannot reach 10.88.0.3: No route to host",
        ),
        (
            "connection to [fe80::1]:80: Connection refused",
            "it cannot reach fe80::1: Connection refused",
        ),
        ("Connection closed by peer [10.0.0.2]:34567", ""),
    ],
)
def test_the_address_that_cannot_be_reached_is_named(said: str, named: str) -> None:
    assert unreachable(said) == named


def test_only_the_last_lines_count(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    log.write_text("Connection reset by peer\n" + "step\n" * 40 + "ValueError\n")
    assert not has_lost_another(last_lines(str(log)))
    assert last_lines(str(tmp_path / "none")) == ""


def test_the_rank_that_ended_first_is_the_culprit_of_those_that_lost_it() -> None:
    victims = [seen(0, LOST, 10.0), seen(2, LOST, 10.1)]
    found = root_cause(victims, [Finished(3, 3, 9.9), Finished(1, 1, 9.8)])
    assert (found.node, found.rank) == (1, 1)
    assert found.cause == (
        "it ended with exit code 0 while others needed it: rank 0 (node 0): exit code 1"
    )


def test_one_that_fails_by_its_own_fault_or_before_is_no_victim() -> None:
    own = seen(0, EXIT, 10.0)
    assert root_cause([own], [Finished(1, 1, 9.0)]) is own.failure
    lost = seen(0, LOST, 10.0)
    assert root_cause([lost], [Finished(1, 1, 13.0)]) is lost.failure
    assert root_cause([lost]) is lost.failure


@pytest.mark.parametrize("kind", [SIGNAL, ABORT, EXIT])
def test_any_other_failure_explains_a_lost_rank(kind: str) -> None:
    culprit = seen(1, kind, 10.5, "exit code 3")
    assert root_cause([seen(0, LOST, 10.0), culprit]) is culprit.failure


def test_a_node_is_missed_only_after_some_seconds() -> None:
    lost = seen(0, LOST, 10.0)
    assert window([lost]) > 5
    gone = Sighting(Failure(1, None, "its agent vanished", 15.0, VANISHED), 9.9)
    assert root_cause([lost, gone]) is gone.failure
    assert window([lost, seen(1, EXIT, 10.0)]) == 1


def test_other_ranks_get_a_moment_to_say_what_they_are_at() -> None:
    lost = seen(0, LOST, 10.0)
    assert not ends_the_job([], 10.0)
    assert not ends_the_job([lost], 10.1)
    assert ends_the_job([lost], 12.0)
    assert ends_the_job([lost, seen(1, EXIT, 10.1)], 10.1)


ENDS_LAST = """
import os, sys, time
if os.environ["ARGOSY_RANK"] == "1":
    # Like a library that disconnects before its process ends.
    time.sleep(0.8)
    sys.exit()
sys.exit("HorovodInternalError: Horovod has been shut down.")
"""


def test_a_rank_that_takes_long_to_end_is_the_culprit_still(job: Any) -> None:
    one = job(ENDS_LAST).start()
    assert one.wait() == [1, 1]
    assert "rank 1 (node 1): it ended with exit code 0" in one.verdict().stdout


ENDS_FIRST = """
import os, socket, sys, time
if os.environ["ARGOSY_RANK"] == "1":
    sys.exit(CODE)
time.sleep(0.4)
sys.exit("RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:4711")
"""


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (
            0,
            "rank 1 (node 1): it ended with exit code 0 while others needed it: rank 0 (node 0): "
            "exit code 1",
        ),
        (3, "rank 1 (node 1): exit code 3"),
    ],
)
def test_agents_name_the_rank_that_ended_first(job: Any, code: int, cause: str) -> None:
    one = job(ENDS_FIRST.replace("CODE", str(code))).start()
    assert one.wait() == [1, 1]
    assert one.verdict().stdout.strip().endswith(cause)


ABORTS = """
import os, sys
if os.environ["ARGOSY_RANK"] == "1":
    print("connect [10.88.0.3]:1234: Connection timed out", file=sys.stderr, flush=True)
    os.abort()
import time; time.sleep(20)
"""


def test_agents_name_the_address_that_a_rank_cannot_reach(job: Any) -> None:
    one = job(ABORTS).start()
    assert one.wait() == [1, 1]
    assert "SIGABRT): it cannot reach 10.88.0.3: Connection timed out" in one.failures()[0]
