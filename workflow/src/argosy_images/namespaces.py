"""Runs a function as "root" of namespaces of its own, where file systems can be mounted.

What is mounted there is seen by nobody else and is gone with the last process, however that ends. The
user's own id is the only one there; to everybody else what happens there is done by the user.
"""

import ctypes
import gc
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from argosy_common.errors import ArgosyError, explained

NEW_MOUNTS = 0x00020000
NEW_USER = 0x10000000
NEW_PIDS = 0x20000000

RECURSIVE = 1 << 14
SLAVE = 1 << 19
DETACH = 2

_SET_PARENT_DEATH_SIGNAL = 1

_libc = ctypes.CDLL(None, use_errno=True)


def in_own_namespaces(
    function: Callable[[], str], meanwhile: Callable[[], None] | None = None
) -> str:
    """Call `function` in a child with its own users, mounts and processes; what it returned.

    This process calls `meanwhile` in that time, which may raise nothing. All of the child's
    processes end when this one does, even by SIGKILL.

    Raises:
        ArgosyError: as the function raised it, or when this host allows no user namespaces.
        RuntimeError: when the child ended otherwise; its traceback has been printed.
    """
    return _in_child(_be_child, function, meanwhile)


def in_own_process(function: Callable[[], str], meanwhile: Callable[[], None] | None = None) -> str:
    """Call `function` in a child, where there are no namespaces; what it returned.

    The child ends when this process does, even by SIGKILL; what it starts has to see to that itself.

    Raises:
        ArgosyError: as the function raised it.
        RuntimeError: as `in_own_namespaces`.
    """
    return _in_child(_be_plain_child, function, meanwhile)


def _in_child(
    be_child: Callable[[Callable[[], str], int, int], int],
    function: Callable[[], str],
    meanwhile: Callable[[], None] | None,
) -> str:
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        # What the parent has no use for any more is its own to take down: a table, say, whose threads are
        # not here, and would be waited for.
        gc.freeze()
        os.close(reader)
        _end_with(lambda: be_child(function, writer, parent))
    os.close(writer)
    if meanwhile:
        meanwhile()
    with os.fdopen(reader, encoding="utf-8") as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    answer = json.loads(text) if text else {}
    if "error" in answer:
        raise ArgosyError(answer["error"], answer.get("hint", ""))
    if "interrupted" in answer:
        raise KeyboardInterrupt
    if "result" not in answer:
        code = os.waitstatus_to_exitcode(status)
        raise RuntimeError(f"the build's process ended with status {code}")
    return str(answer["result"])


def count_ids() -> int:
    """Return how many user ids there are here: one where an ordinary user became root of a namespace."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[2]) for line in lines)


def mount(source: str, target: Path, kind: str | None, flags: int = 0, options: str = "") -> None:
    """mount(2).

    Raises:
        OSError: when the kernel refuses.
    """
    names = (source.encode(), os.fsencode(target), kind.encode() if kind else None)
    _call("mount", *names, ctypes.c_ulong(flags), options.encode())


def unmount(target: Path) -> None:
    """Take a mount away, now for new users and later for those who still hold files of it."""
    _call("umount2", os.fsencode(target), DETACH)


def die_with_parent() -> None:
    """Be killed when the parent ends, however it ends."""
    _call("prctl", _SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)


def _end_with(function: Callable[[], int]) -> NoReturn:
    """End this process with the status that the function returns.

    Nothing that it raises is passed on: what waits for it up there, such as the removal of a workspace,
    is the parent's to do, and perhaps another's by now.
    """
    status = 1
    try:
        status = function()
    finally:
        os._exit(status)


def _be_child(function: Callable[[], str], writer: int, parent: int) -> int:
    """Be the child: make the namespaces, and the grandchild that is the first process in them."""
    die_with_parent()
    if os.getppid() != parent:
        # It was killed before this process asked to be killed with it.
        return 1
    try:
        _enter()
    except OSError as problem:
        reason = f"this host allows no user namespaces ({problem.strerror})"
        _tell(writer, error=reason, hint="ask the site for user.max_user_namespaces above 0")
        return 1
    # Its other end is this process's alone: in its own namespace the grandchild sees no parent.
    parent_lives, own_end = os.pipe()
    first = os.fork()
    if first == 0:
        os.close(own_end)
        _end_with(lambda: _be_first(function, writer, parent_lives))
    os.close(writer)
    # Ctrl-C reaches the grandchild as well, whose answer is waited for.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) & 0xFF


def _be_plain_child(function: Callable[[], str], writer: int, parent: int) -> int:
    die_with_parent()
    return 1 if os.getppid() != parent else _answer_of(function, writer)


def _be_first(function: Callable[[], str], writer: int, parent_lives: int) -> int:
    die_with_parent()
    if select.select([parent_lives], [], [], 0)[0]:
        return 1

    def among_own_mounts() -> str:
        mount("none", Path("/"), None, RECURSIVE | SLAVE)
        mount("proc", Path("/proc"), "proc")
        return function()

    return _answer_of(among_own_mounts, writer)


def _answer_of(function: Callable[[], str], writer: int) -> int:
    """Call the function and tell the parent what came of it; the status to end with."""
    try:
        _tell(writer, result=function())
        return 0
    except ArgosyError as problem:
        _tell(writer, error=problem.problem, hint=problem.hint)
    except KeyboardInterrupt:
        _tell(writer, interrupted="")
    except OSError as problem:
        # A full disk, say: the researcher's, not ours.
        _tell(writer, error=explained(problem))
    except BaseException:
        traceback.print_exc()
    return 1


def _enter() -> None:
    user, group = os.geteuid(), os.getegid()
    _call("unshare", NEW_USER | NEW_MOUNTS | NEW_PIDS)
    # Group ids may be mapped by an ordinary user only where no group can be given up.
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")


def _tell(writer: int, **answer: str) -> None:
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)


def _call(function: str, *arguments: object) -> None:
    if getattr(_libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), function)


def unhindered(function: Callable[[], str]) -> str:
    """Call it where permissions of our own files stand in nobody's way, as far as this host lets us.

    Raises:
        ArgosyError: as the function raises it.
    """
    if os.geteuid() == 0:
        return function()
    try:
        in_own_namespaces(lambda: "")
    except ArgosyError:
        # Most images have no such file.
        return function()
    return in_own_namespaces(function)
