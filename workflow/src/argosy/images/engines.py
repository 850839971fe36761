"""Chooses the engine of containers by measuring on the host that runs them, since hosts differ.

Compute nodes often allow other things than login nodes. What was measured is written down for all hosts
that are alike in what decides it, so that a job's many nodes need not each find out again.
"""

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from argosy.errors import ArgosyError, plain
from argosy.images import container, tools
from argosy.images.container import ENGINES, OWN_ENGINES, Container
from argosy.images.store import Store

STARTS = 3
CALLS = 20_000

_PROBE = "printf 'argosy-\\303\\251'; exit 3"
# Asks after a file again and again. Any image with a shell can do it.
_CALLS = f"i=0; while [ $i -lt {CALLS} ]; do [ -e /etc/passwd ]; i=$((i+1)); done; exit 3"

_DECISIVE = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)
"""Settings of the kernel that forbid what the quick engines need."""


@dataclass(frozen=True)
class Trial:
    """What an engine does on a host.

    Args:
        start_s: median of the times that a shell's start and end take; None when it does not work.
        calls_s: what `CALLS` system calls take besides; None as well.
        said: why it does not work.
    """

    engine: str
    start_s: float | None = None
    calls_s: float | None = None
    said: str = ""

    @property
    def cost_s(self) -> float:
        """By which engines are compared: a start, and about as many calls as importing PyTorch makes."""
        works = self.start_s is not None and self.calls_s is not None
        return (self.start_s or 0) + (self.calls_s or 0) if works else float("inf")


@dataclass(frozen=True)
class Choice:
    """The engine for a host, and what it was chosen by."""

    engine: str
    trials: tuple[Trial, ...]


def engine_of_host(store: Store, root: Path) -> str:
    """The engine for this host: what was written down for its like, or else what is measured now.

    Raises:
        ArgosyError: as `fastest`.
    """
    try:
        noted = json.loads(_notes(store).read_text(encoding="utf-8"))
        return str(noted["engine"])
    except (OSError, ValueError, KeyError):
        return choose_engine(store, root).engine


def choose_engine(store: Store, root: Path) -> Choice:
    """Measure every engine on this host and write down which is the fastest.

    Raises:
        ArgosyError: as `fastest`.
    """
    trials = tuple(try_engine(store, root, engine) for engine in ENGINES)
    choice = Choice(fastest(trials).engine, trials)
    _note(store, choice)
    return choice


def fastest(trials: Sequence[Trial]) -> Trial:
    """The quickest of the engines that work.

    Raises:
        ArgosyError: when none does, with what each said and what to ask the site for.
    """
    best = min(trials, key=lambda trial: trial.cost_s)
    if best.start_s is None:
        said = "; ".join(f"{trial.engine}: {trial.said}" for trial in trials)
        raise ArgosyError(
            f"no engine for containers works on this host ({said}); ask the site to allow "
            "user namespaces (user.max_user_namespaces above 0) or to let udocker fetch its tools"
        )
    return best


def try_engine(store: Store, root: Path, engine: str) -> Trial:
    """Whether a command in `root` gives its own exit status and its UTF-8 output, and how quickly."""
    if engine in OWN_ENGINES and tools.find(store, engine) is None:
        return Trial(engine, said="not installed")
    starts: list[float] = []
    for _ in range(STARTS):
        right, said, seconds = _timed(store, root, engine, _PROBE, "argosy-é")
        if not right:
            return Trial(engine, said=said)
        starts.append(seconds)
    right, said, seconds = _timed(store, root, engine, _CALLS, "")
    if not right:
        return Trial(engine, said=said)
    start_s = sorted(starts)[STARTS // 2]
    return Trial(engine, round(start_s, 4), round(max(0.0, seconds - start_s), 4))


def _timed(
    store: Store, root: Path, engine: str, script: str, expected: str
) -> tuple[bool, str, float]:
    """Whether the script did what it should, what else was printed, and the seconds."""
    output: list[bytes] = []
    inside = Container(root, ["/bin/sh", "-c", script], engine=engine)
    began = time.monotonic()
    outcome = container.run(store, inside, output.append)
    seconds = time.monotonic() - began
    text = b"".join(output).decode(errors="replace")
    right = outcome.status == 3 and text.endswith(expected)
    return right, " ".join(plain(text).split())[-160:] or "no output", seconds


def _note(store: Store, choice: Choice) -> None:
    # Imported here: nobody needs it who finds a note.
    from argosy.files import write_json

    path = _notes(store)
    # Where the store cannot be written to, or is full, every node measures for itself.
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True, parents=True, mode=0o700)
        write_json(path, {"host": os.uname().nodename, **dataclasses.asdict(choice)})


def _notes(store: Store) -> Path:
    """Where it is written down for hosts that are like this one."""
    programs = [str(tools.find(store, engine)) for engine in OWN_ENGINES]
    settings = [_content(Path(path)) for path in _DECISIVE]
    hybrid = Path("/sys/fs/cgroup/unified").is_dir()
    udocker = _content(store.udocker / "lib" / "VERSION")
    described = json.dumps(
        [os.uname().release, os.uname().machine, programs, settings, hybrid, udocker]
    )
    return store.engines / f"{hashlib.sha256(described.encode()).hexdigest()[:16]}.json"


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
