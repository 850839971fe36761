"""Inspections and hangs of silent jobs, in histories simulated second by second."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.runtime.agent.coordination.failure import Failure, Finished
from argosy.runtime.agent.hangs.judge import APART, BEFORE_THE_END, CERTAIN, LEAST, LOOKS, HangJudge
from argosy.runtime.agent.hangs.places import (
    ENDED,
    IS,
    STOPPED,
    UNKNOWN,
    WAITS,
    WORKS,
    Place,
)
from argosy.runtime.agent.transport.messages import Report

BAR = 130.0
"""Seconds of silence within which a hang is named."""
LOOK = 5
"""Seconds that a look takes."""

Ranks = tuple[Place, ...]


def waits(rank: int, call: str = "allreduce", **more: bool) -> Place:
    return Place(rank, WAITS, call, "train.py:7", "stack", **more)


def at(rank: int, state: str, stack: str = "stack") -> Place:
    return Place(rank, state, "", "train.py:9", stack)


class Head:
    """A judge of nodes with one rank each; `now` returns the places at a second of silence."""

    def __init__(self, *ranks: Place, now: Callable[[float], Ranks] | None = None) -> None:
        self.now = now or (lambda quiet: ranks)
        self.nodes = len(self.now(0.0))
        self.judge = HangJudge(self.nodes, None)
        self.pace: float | None = 0.1
        self.clock, self.quiet = 1000.0, 0.0
        self.looks: list[float] = []
        self.more: dict[int, dict[str, object]] = {}
        self._found: tuple[int, Ranks] = (0, ())
        self._under_way: tuple[int, float] = (0, 0.0)

    def pass_time(self, seconds: float) -> Failure | None:
        """Return the first failure within that time."""
        for _ in range(round(seconds)):
            self.clock += 1
            self.quiet += 1
            self._look()
            number, places = self._found
            for node in range(self.nodes):
                report = Report(node, quiet=self.quiet, pace=self.pace, looked=number)
                mine = (places[node],) if places else ()
                report = replace(report, places=mine, **self.more.get(node, {}))
                self.judge.note(report, self.clock)
                failure = self.judge.judge(self.clock)
                if failure:
                    return failure
        return None

    def _look(self) -> None:
        look = self.judge.look
        if look and look != self._under_way[0]:
            self._under_way = look, self.clock
            self.looks.append(self.quiet)
        if look and self.clock >= self._under_way[1] + LOOK:
            self._found = look, self.now(self.quiet)

    def sign_of_life(self) -> None:
        self.quiet = -1.0


DEADLOCKS = [
    (waits(0), waits(1, "broadcast")),
    (waits(0), at(1, IS)),
    (waits(0), at(1, STOPPED)),
    (at(0, IS), at(1, IS)),
    (waits(0), at(1, UNKNOWN)),
]


@pytest.mark.parametrize("ranks", DEADLOCKS)
@pytest.mark.parametrize("pace", [None, 0.1])
def test_a_hang_is_named_in_time_after_looks_that_lie_apart(
    ranks: Ranks, pace: float | None
) -> None:
    head = Head(*ranks)
    head.pace = pace
    failure = head.pass_time(BAR)
    assert failure and failure.cause.startswith("hang: no step, collective or output for ")
    assert len(head.looks) == LOOKS
    assert head.looks[0] >= LEAST and head.looks[-1] - head.looks[0] >= (LOOKS - 1) * APART


@settings(max_examples=200, deadline=None)
@given(data=st.data(), pace=st.sampled_from([None, 0.02, 3.0, 30.0]), finished=st.booleans())
def test_no_history_with_progress_ends_a_run(
    data: st.DataObject, pace: float | None, finished: bool
) -> None:
    """In each inspection a rank makes progress, or has moved, or there is a sign of life."""
    ranks = data.draw(st.integers(1, 4))
    turn = [0]

    def now(quiet: float) -> Ranks:
        if quiet == 0:
            return tuple(waits(rank) for rank in range(ranks))
        turn[0] += 1
        states = data.draw(
            st.lists(
                st.sampled_from((WAITS, IS, STOPPED, ENDED, UNKNOWN)),
                min_size=ranks,
                max_size=ranks,
            )
        )
        places = [at(rank, state) for rank, state in enumerate(states)]
        lucky = data.draw(st.integers(0, ranks - 1))
        moves = data.draw(st.booleans())
        other = at(lucky, WAITS if moves else WORKS, f"stack {turn[0]}")
        # One rank is at another place each time.
        return tuple(other if rank == lucky else place for rank, place in enumerate(places))

    head = Head(now=now)
    head.pace = pace
    if finished and ranks > 1:
        head.more[0] = {"finished": (Finished(0, 0, 1.0),)}
    for seconds in data.draw(st.lists(st.integers(1, 900), max_size=4)):
        assert head.pass_time(seconds) is None
        head.sign_of_life()


@given(ended=st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_one_look_that_finds_progress_begins_all_anew(ended: int) -> None:
    """A job that makes progress and then hangs is detected within `BAR` seconds."""

    def now(quiet: float) -> Ranks:
        return (waits(0), at(1, WORKS if quiet < LEAST + ended else IS))

    head = Head(now=now)
    assert head.pass_time(LEAST + ended) is None
    failure = head.pass_time(BAR)
    assert failure


def test_long_steps_are_missed_for_ten_of_them() -> None:
    head = Head(waits(0), at(1, IS))
    head.pace = 30.0
    assert head.pass_time(299) is None
    assert head.pass_time(60)


def test_a_sign_of_life_begins_anew_and_its_silence_is_allowed_twice() -> None:
    works = [True]
    head = Head(now=lambda quiet: (waits(0), at(1, WORKS if works[0] else IS)))
    assert head.pass_time(100) is None
    head.sign_of_life()
    works[0] = False
    assert head.pass_time(199) is None
    assert head.pass_time(60)


def test_who_waits_for_a_rank_that_has_ended_is_found_at_once() -> None:
    head = Head(waits(0, "init"), Place(1, ENDED))
    head.more[1] = {"ended": True, "finished": (Finished(1, 1, 1.0),)}
    failure = head.pass_time(3 * CERTAIN)
    assert failure and failure.cause.endswith("rank 0 waits in init (train.py:7); rank 1 has ended")


def test_who_has_ended_is_no_proof_where_nobody_waits_for_him() -> None:
    head = Head(at(0, IS), Place(1, ENDED))
    head.more[1] = {"ended": True, "finished": (Finished(1, 1, 1.0),)}
    assert head.pass_time(LEAST - 1) is None
    assert head.pass_time(BAR - LEAST)


def test_a_circle_in_what_horovod_misses_is_found_at_once() -> None:
    head = Head(waits(0, checked=True), waits(1, checked=True))
    head.more[0] = {
        "missing": (0, 1),
        "stall": "rank 0 has not submitted b; rank 1 has not submitted a",
    }
    failure = head.pass_time(3 * CERTAIN)
    assert failure and failure.cause.endswith("Horovod: " + str(head.more[0]["stall"]))


@pytest.mark.parametrize("missing", [(1,), (0,)])
def test_what_horovod_misses_is_no_proof_without_a_circle(missing: tuple[int, ...]) -> None:
    head = Head(waits(0, checked=True), waits(1, checked=True))
    head.more[0] = {"missing": missing}
    assert head.pass_time(LEAST - 1) is None
    assert head.pass_time(BAR - LEAST)


def test_while_horovods_check_is_silent_none_of_its_tensors_waits() -> None:
    assert Head(waits(0, checked=True), waits(1, checked=True)).pass_time(7200) is None
    assert Head(waits(0, checked=True), waits(1)).pass_time(BAR)


def test_what_the_experiment_says_is_taken_at_its_word() -> None:
    head = Head(waits(0), at(1, WORKS))
    head.judge = HangJudge(2, 5.0)
    assert head.pass_time(15)
    head = Head(waits(0), at(1, IS))
    head.judge = HangJudge(2, 0.0)
    assert head.pass_time(10_000) is None


def test_a_node_that_does_not_answer_a_look_is_waited_for_but_not_where_a_time_is_given() -> None:
    def failures(timeout: float | None) -> Sequence[Failure]:
        judge = HangJudge(2, timeout)
        found = []
        for second in range(400):
            for node in (0, 1):
                looked = judge.look if node == 0 else 0
                places = (waits(0),) if looked else ()
                judge.note(Report(node, quiet=second, looked=looked, places=places), 100.0 + second)
                found.append(judge.judge(100.0 + second))
        return [failure for failure in found if failure]

    assert failures(5.0)[0].cause.endswith(": rank 0 waits in allreduce (train.py:7)")
    assert not failures(None)


def test_a_silent_job_is_looked_at_before_its_time_limit() -> None:
    head = Head(waits(0), at(1, IS))
    head.judge = HangJudge(2, None, limit=head.clock + 70)
    assert head.pass_time(68) is None
    assert head.looks[0] == pytest.approx(70 - BEFORE_THE_END, abs=1)
    assert head.judge.silence == (
        "silent for 68 s; rank 0 waits in allreduce (train.py:7); rank 1 is at train.py:9"
    )
    head.sign_of_life()
    head.pass_time(1)
    assert head.judge.silence == ""


@pytest.mark.parametrize(("limit", "is_said"), [(140, True), (60, False)])
def test_busy_ranks_that_say_nothing_may_be_stuck_or_slow(limit: int, is_said: bool) -> None:
    head = Head(at(0, WORKS), at(1, WORKS))
    head.judge = HangJudge(2, None, limit=head.clock + limit)
    assert head.pass_time(limit) is None
    assert ("its ranks were busy: raise" in head.judge.silence) is is_said
    head.sign_of_life()
    head.pass_time(2)
    assert not head.judge.silence


@pytest.mark.parametrize("quiet", [0, CERTAIN - 2])
def test_one_that_is_not_silent_before_its_limit_is_left_alone(quiet: float) -> None:
    head = Head(waits(0), at(1, IS))
    head.judge = HangJudge(2, None, limit=head.clock + 50)
    for _ in range(50):
        head.quiet = min(head.quiet, quiet)
        assert head.pass_time(1) is None
    assert head.looks == []


def test_a_job_in_which_a_rank_gets_on_is_not_called_silent() -> None:
    head = Head(waits(0), at(1, WORKS))
    head.judge = HangJudge(2, None, limit=head.clock + 50)
    assert head.pass_time(49) is None
    assert len(head.looks) == 1
    assert head.judge.silence == ""
