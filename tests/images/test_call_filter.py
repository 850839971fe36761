"""The system call filter, interpreted as by the kernel, for each architecture."""

import errno
import struct
from collections.abc import Sequence

import pytest

from argosy_images.engines.call_filter import program
from argosy_images.engines.call_numbers import ABSENT, CALLS

ALLOW, JUDGED, DONE = 0x7FFF0000, 0x7FC00000, 0x00050000
MISSING, REFUSED = DONE | errno.ENOSYS, DONE | errno.EPERM
PATH = 0x7F00_0000_1000


def answer(
    machine: str,
    call: int,
    arguments: Sequence[int] = (),
    *,
    audit: int | None = None,
    builds: bool = False,
    landlock: int = 7,
) -> int:
    """Interpret the filter for a call, with its four kinds of instructions."""
    code = program(CALLS[machine], landlock, owns_all=builds)
    six = [each & (2**64 - 1) for each in (*arguments, *[0] * 6)][:6]
    data = struct.pack("=IIQ6Q", call, CALLS[machine].audit if audit is None else audit, 0, *six)
    loaded, place = 0, 0
    while True:
        kind, yes, no, value = struct.unpack_from("=HBBI", code, place)
        place += 8
        if kind == 0x06:
            return int(value)
        if kind == 0x20:
            (loaded,) = struct.unpack_from("=I", data, value)
        elif kind == 0x54:
            loaded &= value
        else:
            right = loaded == value if kind == 0x15 else loaded > value
            assert kind in (0x15, 0x25)
            place += 8 * (yes if right else no)


MACHINES = pytest.mark.parametrize("machine", list(CALLS))


@MACHINES
@pytest.mark.parametrize("builds", [False, True])
def test_what_proot_does_not_know_is_missing(machine: str, builds: bool) -> None:
    calls = CALLS[machine]
    named = {*calls.younger, *calls.common, *calls.by_process}
    for call in (*range(calls.known + 1, 1024), 1 << 30, 1 << 30 | 90, 0xFFFFFFFE):
        assert answer(machine, call, builds=builds) == (ALLOW if call in named else MISSING), call
    for call in calls.missing:
        assert answer(machine, call, builds=builds) == MISSING
    for call in range(512):
        assert answer(machine, call, audit=0x40000003, builds=builds) == MISSING


@MACHINES
def test_modes_times_and_attributes_are_for_the_judge(machine: str) -> None:
    calls = CALLS[machine]
    for call in calls.changing:
        for builds in (False, True):
            assert answer(machine, call, [PATH, 0o777], builds=builds) == JUDGED
            assert answer(machine, call, [PATH, 0o777], builds=builds, landlock=0) == ALLOW
    # proot restores a folder's mode.
    call, arguments = calls.fchmodat, [-100, PATH, 0o40555]
    if calls.chmod != ABSENT:
        call, arguments = calls.chmod, [PATH, 0o40555]
    assert answer(machine, call, arguments) == DONE
    assert answer(machine, call, arguments, builds=True) == JUDGED
    for call in calls.attributes:
        assert answer(machine, call, [PATH]) == DONE | errno.EOPNOTSUPP
        assert answer(machine, call, [PATH], builds=True) == JUDGED
    for call in calls.giving:
        assert answer(machine, call, [PATH]) == DONE


@MACHINES
def test_another_process_is_for_the_judge(machine: str) -> None:
    calls = CALLS[machine]
    for call in calls.by_process:
        assert answer(machine, call, [0]) == ALLOW
        assert answer(machine, call, [1 << 32]) == ALLOW
        assert answer(machine, call, [4711]) == JUDGED
        assert answer(machine, call, [4711], landlock=0) == ALLOW
    for call, process, others in ((calls.setpriority, 0, (1, 2)), (calls.ioprio_set, 1, (2, 3))):
        assert answer(machine, call, [process, 0]) == ALLOW
        assert answer(machine, call, [process, 4711]) == JUDGED
        assert {answer(machine, call, [other, 0]) for other in others} == {REFUSED}
    for call in calls.signals:
        assert answer(machine, call, [4711, 9], landlock=5) == JUDGED
        assert answer(machine, call, [4711, 9], landlock=6) == ALLOW
    for command, earlier in ((8, REFUSED), (15, REFUSED), (2, ALLOW)):
        assert answer(machine, calls.fcntl, [3, command, 4711], landlock=5) == earlier
        assert answer(machine, calls.fcntl, [3, command, 4711], landlock=6) == ALLOW


@MACHINES
def test_a_terminal_takes_no_input_from_a_program(machine: str) -> None:
    ioctl = CALLS[machine].ioctl
    assert answer(machine, ioctl, [0, 0x5412]) == REFUSED
    assert answer(machine, ioctl, [0, 1 << 32 | 0x5412]) == REFUSED
    assert answer(machine, ioctl, [0, 0x8901]) == REFUSED
    assert answer(machine, ioctl, [0, 0x5401]) == ALLOW


@MACHINES
def test_a_build_makes_no_device_and_gives_no_file_away(machine: str) -> None:
    for call, argument in CALLS[machine].nodes.items():
        for kind, said in (
            (0o020000, DONE),
            (0o060000, DONE),
            (0o100000, ALLOW),
            (0o010000, ALLOW),
        ):
            arguments = [PATH] * argument + [kind | 0o644]
            assert answer(machine, call, arguments, builds=True) == said
    for call in (*CALLS[machine].giving, *CALLS[machine].becoming):
        assert answer(machine, call, [PATH], builds=True) == DONE
