"""Run a function as "root" of new namespaces, where it can mount file systems.

Only processes of the namespaces see the mounts, which end with the last process. Only the user's own id is
mapped, so the function has no additional rights outside.
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
    """Call `function` in a child with its own user, mount and PID namespaces, and return its result.

    Meanwhile, this process calls `meanwhile`, which must not raise. All processes of the child end with
    this one, even after SIGKILL.

    Raises:
        ArgosyError: from the function, or if this host forbids user namespaces.
        RuntimeError: if the child ends otherwise; its traceback has been printed.
    """
    return _in_child(_be_child, function, meanwhile)


def in_own_process(function: Callable[[], str], meanwhile: Callable[[], None] | None = None) -> str:
    """Call `function` in a child without namespaces, and return its result.

    The child ends with this process, even after SIGKILL; its own children may not.

    Raises:
        ArgosyError: from the function.
        RuntimeError: like `in_own_namespaces`.
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
        # Keep the child from collecting the parent's objects: a finalizer may wait for threads that only
        # the parent has.
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
    """Return the number of mapped user ids: 1 in a namespace of an ordinary user."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[2]) for line in lines)


def mount(source: str, target: Path, kind: str | None, flags: int = 0, options: str = "") -> None:
    """Call mount(2)."""
    names = (source.encode(), os.fsencode(target), kind.encode() if kind else None)
    _call("mount", *names, ctypes.c_ulong(flags), options.encode())


def unmount(target: Path) -> None:
    """Unmount lazily: processes keep their open files."""
    _call("umount2", os.fsencode(target), DETACH)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Let the kernel send this signal to this process when its parent ends."""
    _call("prctl", _SET_PARENT_DEATH_SIGNAL, int(number), 0, 0, 0)


def _end_with(function: Callable[[], int]) -> NoReturn:
    """Exit with the status that the function returns.

    Exceptions are not passed on: handlers up the stack, such as the removal of a workspace, belong to the
    parent.
    """
    status = 1
    try:
        status = function()
    finally:
        os._exit(status)


def _be_child(function: Callable[[], str], writer: int, parent: int) -> int:
    """Create the namespaces, and fork the grandchild that is their first process."""
    die_with_parent()
    if os.getppid() != parent:
        # The parent ended before `die_with_parent`.
        return 1
    try:
        _enter()
    except OSError as problem:
        reason = f"this host allows no user namespaces ({problem.strerror})"
        _tell(writer, error=reason, hint="ask the site for user.max_user_namespaces above 0")
        return 1
    # A pipe shows the grandchild that this process lives: it cannot see its parent's PID.
    parent_lives, own_end = os.pipe()
    first = os.fork()
    if first == 0:
        os.close(own_end)
        _end_with(lambda: _be_first(function, writer, parent_lives))
    os.close(writer)
    # Ctrl-C also reaches the grandchild; wait for its answer.
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
    """Call the function, send its outcome to the parent, and return the exit status."""
    try:
        _tell(writer, result=function())
        return 0
    except ArgosyError as problem:
        _tell(writer, error=problem.problem, hint=problem.hint)
    except KeyboardInterrupt:
        _tell(writer, interrupted="")
    except OSError as problem:
        # For example a full disk: the user's problem, so no traceback.
        _tell(writer, error=explained(problem))
    except BaseException:
        traceback.print_exc()
    return 1


def _enter() -> None:
    user, group = os.geteuid(), os.getegid()
    _call("unshare", NEW_USER | NEW_MOUNTS | NEW_PIDS)
    # Unprivileged users may map group ids only after setgroups is denied.
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
    """Call the function as root of new namespaces if possible, where modes of own files do not matter."""
    if os.geteuid() == 0:
        return function()
    try:
        in_own_namespaces(lambda: "")
    except ArgosyError:
        # Most images have no files that need this.
        return function()
    return in_own_namespaces(function)
