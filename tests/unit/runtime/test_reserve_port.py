"""The reserved port of the head."""

import itertools
import os
import socket
import subprocess

import pytest
from agent_job import ADDRESS, PYTHON, RUNTIME

from argosy.runtime import reserve_port

COMMAND = [PYTHON, str(RUNTIME / "reserve_port.py")]


def test_others_cannot_take_the_port_but_the_head_can() -> None:
    with subprocess.Popen([*COMMAND, ADDRESS], stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        port = int(holder.stdout.readline())
        with socket.socket() as other, pytest.raises(OSError):
            other.bind((ADDRESS, port))
        with socket.socket() as head:
            head.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            head.bind((ADDRESS, port))
            assert holder.poll() is None
            head.listen()
            assert holder.wait(5) == 0
            with socket.create_connection((ADDRESS, port)):
                pass


def test_it_ends_with_its_parent() -> None:
    script = f"{COMMAND[0]} {COMMAND[1]} {ADDRESS} & read -r _ <&0"
    # The output's pipe closes when the holder ends.
    with subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout
        assert int(parent.stdout.readline()) > 0
        parent.kill()
        assert parent.stdout.read() == b""


def test_it_holds_the_port_as_long_as_the_start_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    minutes = itertools.count()
    asked = []

    def listening(address: tuple[str, int]) -> bool:
        asked.append(address)
        return len(asked) > 20

    monkeypatch.setattr(reserve_port, "listening", listening)
    monkeypatch.setattr(reserve_port.time, "monotonic", lambda: 60.0 * next(minutes))
    monkeypatch.setattr(reserve_port.time, "sleep", lambda _: None)
    with reserve_port.bind(ADDRESS) as holder:
        reserve_port.hold(holder, os.getppid())
    assert len(asked) == 21


def test_nothing_stays_of_it_where_nobody_hears_the_port() -> None:
    """The parent may end before the program reads its pid."""
    with subprocess.Popen(
        [*COMMAND, ADDRESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as it:
        assert it.stdout
        assert it.stderr
        it.stdout.close()
        assert it.wait(5) == 2
        assert it.stderr.read() == b""


@pytest.mark.parametrize("arguments", [[], ["nowhere"], ["192.0.2.1"]])
def test_wrong_addresses_are_one_line(arguments: list[str]) -> None:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
