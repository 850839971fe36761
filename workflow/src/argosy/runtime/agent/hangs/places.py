"""Places of ranks in their programs: derived from stacks, and formatted for messages."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Iterable, Sequence

from .stacks import Frame

WAITS = "waits"  # waits for other ranks, in a collective operation
IS = "is"  # is anywhere else, without progress
WORKS = "works"  # makes progress
STOPPED = "stopped"
ENDED = "ended"
UNKNOWN = "unknown"  # is no Python, or does not answer

# Paths of libraries whose calls wait for other ranks.
_COLLECTIVES = (
    "/horovod/",
    "/torch/distributed/",
    "/torch/nn/parallel/",
    "/tensorflow/python/distribute/",
    "/tensorflow/python/ops/collective_ops",
    "/jax/_src/distributed",
    "/jax/experimental/multihost_utils",
    "/mpi4py/",
    "/deepspeed/comm/",
)
# Names of decorators' wrappers, which do not name the operation.
_DECORATORS = re.compile(
    r"_*(wrap|wrapper|wrapped|inner|decorat\w*|fn|func|call|call_impl|wrapped_call_impl)|__call__|<\w+>"
)
_DECORATORS_FILES = ("/contextlib.py", "/_contextlib.py", "/functools.py", "/c10d_logger.py")
_OPERATIONS = re.compile(
    r"all_?(reduce|gather|to_?all)|reduce|gather|scatter|broadcast|barrier|send|recv|init|join|synchronize"
    r"|poll|shutdown|wait|new_group|rendezvous|sync_global|store"
)
_MEETINGS = re.compile(r"init|rendezvous|new_group|monitored")
# Paths of modules in which a rank waits for its own threads and processes.
_OWN = ("/multiprocessing/", "/queue.py", "/threading.py", "/concurrent/", "/torch/utils/data/")
# Paths of libraries and of Python itself, as opposed to the user's program.
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "/argosy/python/", "<frozen ")
_MOST_GROUPS = 4


@dataclass(frozen=True)
class Place:
    """Place of a rank at an inspection.

    `call`: the operation in which it waits, or the library function that the program called. `where`: file
    and line of the program. `stack`: digest of the whole stack. `checked`: it waits in a Horovod that
    reports missing ranks.
    """

    rank: int
    state: str
    call: str = ""
    where: str = ""
    stack: str = ""
    checked: bool = False


def place_of(rank: int, frames: Sequence[Frame]) -> Place:
    """Return the place for a stack, whose first frame is the innermost."""
    if not frames:
        return Place(rank, UNKNOWN)
    own = next((n for n, frame in enumerate(frames) if not is_library(frame)), None)
    inner = frames[: len(frames) if own is None else own]
    frame = frames[0 if own is None else own]
    where = f"{os.path.basename(frame.file)}:{frame.line}"
    waits = [each for each in inner if any(part in each.file for part in _COLLECTIVES)]
    if waits:
        return Place(rank, WAITS, _operation(waits), where)
    called = _called(inner)
    function = f"{called.function} of {os.path.basename(called.file)}" if called else ""
    return Place(rank, IS, "" if own is None else function, where)


def _operation(waits: Sequence[Frame]) -> str:
    """Return the name of the operation that the program called, skipping decorators."""
    called = _called(waits)
    if called is None:
        return waits[-1].function
    if _OPERATIONS.search(called.function):
        return called.function
    return f"{called.function} of {os.path.basename(called.file)}"


def _called(frames: Sequence[Frame]) -> Frame | None:
    """Return the outermost frame that is no decorator's wrapper; None without frames."""
    own = [
        each
        for each in frames
        if not _DECORATORS.fullmatch(each.function) and not each.file.endswith(_DECORATORS_FILES)
    ]
    return next(iter([*own[-1:], *frames[-1:]]), None)


def is_of_torch(frames: Sequence[Frame]) -> bool:
    """Return whether the innermost collective is PyTorch's, or Horovod's for PyTorch."""
    found = (each.file for each in frames if any(part in each.file for part in _COLLECTIVES))
    return "/torch/" in next(found, "")


def is_meeting(call: str) -> bool:
    """Return whether an operation waits until all ranks are present."""
    return bool(_MEETINGS.search(call))


def waits_for_own(frames: Sequence[Frame]) -> bool:
    """Return whether a rank waits for its own threads or processes."""
    own = next((n for n, frame in enumerate(frames) if not is_library(frame)), len(frames))
    return any(part in frame.file for frame in frames[:own] for part in _OWN)


def is_checked(frames: Sequence[Frame], call: str) -> bool:
    """Return whether a rank waits in Argosy's build of Horovod, which reports missing ranks."""
    found = (each.file for each in frames if "/horovod/" in each.file)
    packages = next(found, "").partition("/horovod/")[0]
    return bool(packages) and not re.search("init|shutdown|join", call) and _speaks(packages)


@lru_cache(maxsize=8)
def _speaks(packages: str) -> bool:
    notices = glob.glob(
        f"{glob.escape(packages)}/horovod-*.dist-info/**/NOTICE.argosy", recursive=True
    )
    return bool(notices)


def digest(frames: Sequence[Frame]) -> str:
    """Return a short digest of a stack."""
    return hashlib.sha256(repr(frames).encode()).hexdigest()[:16]


def sentence(places: Iterable[Place]) -> str:
    """Format places, waiting ranks first: `rank 0 waits in allreduce (train.py:41); rank 1 is at …`."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for place in sorted(places, key=lambda each: (each.state != WAITS, each.rank)):
        groups.setdefault((place.state, place.call, place.where), []).append(place.rank)
    parts = [_group(ranks, *key) for key, ranks in groups.items()]
    left_out = len(parts) - _MOST_GROUPS
    more = [f"{left_out} more places"] if left_out > 0 else []
    return "; ".join(parts[:_MOST_GROUPS] + more)


def _group(ranks: Sequence[int], state: str, call: str, where: str) -> str:
    one = len(ranks) == 1
    who = f"rank {ranks[0]}" if one else f"ranks {ranges(ranks)}"
    if state == WAITS:
        return f"{who} {'waits' if one else 'wait'} in {call} ({where})"
    verb = "is" if one else "are"
    # Without a stack, `where` has at most the exception that was printed last.
    if state in (IS, WORKS) and where and where[0] != ",":
        return f"{who} {verb} at {where}" + (f" ({call})" if call else "")
    if state == STOPPED:
        return f"{who} {verb} stopped (by a signal or a debugger)"
    if state == ENDED:
        return f"{who} {'has' if one else 'have'} ended"
    busy = f"{'was' if one else 'were'} busy and " if state == WORKS else ""
    return f"{who} {busy}gave no Python stack{where}"


def ranges(numbers: Sequence[int], separator: str = ", ") -> str:
    """Format sorted numbers as ranges: `0-6, 9`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return separator.join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def is_library(frame: Frame) -> bool:
    """Return whether a frame is in a library or in Python itself."""
    return any(part in frame.file for part in _LIBRARIES)
