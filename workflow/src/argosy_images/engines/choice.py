"""Chooses the engine of containers by measuring on the host that runs them, since hosts differ.

Compute nodes often allow other things than login nodes. What was measured is written down for all hosts
that are alike in what decides it, so that a job's many nodes need not each find out again.

The class comes first, then speed: an engine that does not isolate is chosen only where none that does works
on this host. Engines are tried by the host's own shell (`trusted_root`), so no image has a say in it.
"""

import dataclasses
import hashlib
import json
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from argosy_common.errors import ArgosyError, plain
from argosy_images.engines import apptainer, container
from argosy_images.engines.models import (
    APPTAINER,
    ISOLATING_ENGINES,
    OWN_ENGINES,
    UNISOLATED_ENGINES,
    Container,
)
from argosy_images.store.store import Store
from argosy_images.tools import Tools

NOTES_VERSION = 5
"""Version of the notes. Earlier choices were among other engines and do not count."""

STARTS = 3

_PROBE = "printf 'argosy-\\303\\251'; exit 3"

_DECISIVE = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)
"""Settings of the kernel that forbid what the quick engines need."""


_TOLD = 160
_NOT_TO_BE_TRACED = "ptrace(TRACEME): Operation not permitted"
_TRACING = "run this command without a tracer (strace, a debugger, another proot)"


@dataclass(frozen=True)
class Trial:
    """The measurement of an engine on a host.

    Args:
        start_s: median of the times that a shell's start and end take; None when it does not work.
        calls_s: what `CALLS` system calls take besides; None as well.
        said: why it does not work.
    """

    CALLS: ClassVar[int] = 20_000

    engine: str
    start_s: float | None = None
    calls_s: float | None = None
    said: str = ""

    @property
    def works(self) -> bool:
        """Whether a command ran as it should."""
        return self.start_s is not None

    @property
    def isolates(self) -> bool:
        """Whether programs see and change nothing of the host but what is mounted."""
        return self.engine in ISOLATING_ENGINES

    @property
    def cost_s(self) -> float:
        """Seconds for a start and about as many calls as importing PyTorch makes; the lowest wins."""
        works = self.start_s is not None and self.calls_s is not None
        return (self.start_s or 0) + (self.calls_s or 0) if works else float("inf")


_CALLS = f"i=0; while [ $i -lt {Trial.CALLS} ]; do [ -e /etc/passwd ]; i=$((i+1)); done; exit 3"
"""Asks for a file again and again."""


@dataclass(frozen=True)
class Choice:
    """The engine for a host, and what it was chosen by."""

    engine: str
    trials: tuple[Trial, ...]

    @property
    def caution(self) -> str:
        """One line that names what the engine does not protect; empty if it isolates."""
        return caution(self.engine)


def engine_of_host(store: Store) -> str:
    """Return the engine for this host: what was written down for its like, or else what is measured now.

    A note of an engine that does not isolate counts only as long as none that does works.

    Raises:
        ArgosyError: as `choose_engine`.
    """
    noted = _noted(store)
    if noted in ISOLATING_ENGINES:
        return noted
    if noted in UNISOLATED_ENGINES and not one_starts(store, ISOLATING_ENGINES):
        return noted
    return choose_engine(store).engine


def choose_engine(store: Store, *, every: bool = False) -> Choice:
    """Measure the engines on this host, choose one and write that down.

    Args:
        every: measure those that do not isolate where one works that does, too.

    Raises:
        ArgosyError: as `best`, and when engines cannot be tried at all.
    """
    from argosy_images.engines.trusted_root import trusted_root

    with trusted_root(store) as root:
        trials = [try_engine(store, root, engine) for engine in ISOLATING_ENGINES]
        if every or not any(trial.works for trial in trials):
            trials += [try_engine(store, root, engine) for engine in UNISOLATED_ENGINES]
    choice = Choice(best(trials).engine, tuple(trials))
    _note(store, choice)
    return choice


def one_starts(store: Store, engines: Sequence[str]) -> bool:
    """Return whether one of these engines starts containers on this host now.

    Raises:
        ArgosyError: when engines cannot be tried at all.
    """
    from argosy_images.engines.trusted_root import trusted_root

    with trusted_root(store) as root:
        there = [engine for engine in engines if _is_there(store, engine)]
        return any(_timed(store, root, engine, _PROBE, "argosy-é")[0] for engine in there)


def best(trials: Sequence[Trial]) -> Trial:
    """Return the quickest of the isolating engines that work; of the others only where none of those does.

    Of those it is the first: `proot` stops programs at the calls that it asked for alone, which no trial of
    calls that it has to see would show.

    Raises:
        ArgosyError: when none does, with what each said and what to ask the site for.
    """
    working = [trial for trial in trials if trial.works]
    isolating = [trial for trial in working if trial.isolates]
    if not working:
        said = "; ".join(f"{trial.engine}: {trial.said}" for trial in trials)
        is_traced = any(_NOT_TO_BE_TRACED in trial.said for trial in trials)
        raise ArgosyError(
            f"no container engine works on this host ({said})",
            f"ask the site to allow user namespaces (user.max_user_namespaces above 0), or {_TRACING}"
            if is_traced
            else "ask the site to allow user namespaces (user.max_user_namespaces above 0), or for the "
            "package 'proot'",
        )
    return min(isolating, key=lambda trial: trial.cost_s) if isolating else working[0]


def caution(engine: str) -> str:
    """Return what an engine does not protect from, in one line; empty if it isolates."""
    if engine not in UNISOLATED_ENGINES:
        return ""
    # Imported here: nodes with namespaces have no need of it.
    from argosy_images.engines import landlock

    if landlock.version():
        return (
            f"{engine} does not isolate: programs in the image see your other processes on this host; "
            "Landlock keeps your files from them (docs/images.md)"
        )
    return (
        f"{engine} does not isolate: programs in the image can read and change every file of yours on "
        "this host, and see and end your processes; run only images that you trust (docs/images.md)"
    )


def try_engine(store: Store, root: Path, engine: str) -> Trial:
    """Return whether a command in `root` gives its exit status and UTF-8 output, and how quickly."""
    if not _is_there(store, engine):
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


def _is_there(store: Store, engine: str) -> bool:
    if engine in UNISOLATED_ENGINES:
        return Tools(store).find_proot() is not None
    if engine == APPTAINER:
        return apptainer.find() is not None
    return Tools(store).find(engine) is not None


def _timed(
    store: Store, root: Path, engine: str, script: str, expected: str
) -> tuple[bool, str, float]:
    """Return whether the script did what it should, what else was printed, and the seconds."""
    output: list[bytes] = []
    inside = Container(root, ["/bin/sh", "-c", script], engine=engine)
    began = time.monotonic()
    outcome = container.run(store, inside, output.append)
    seconds = time.monotonic() - began
    text = b"".join(output).decode(errors="replace")
    right = outcome.status == 3 and text.endswith(expected)
    return right, _first_words(engine, plain(text)) or "no output", seconds


def _first_words(engine: str, text: str) -> str:
    """Return what tells most of what an engine printed: of proot the beginning, after which it guesses."""
    if engine in UNISOLATED_ENGINES:
        return next((line.strip() for line in text.splitlines() if line.strip()), "")[:_TOLD]
    return without_log_frame(" ".join(text.split()))[-_TOLD:]


def without_log_frame(line: str) -> str:
    """Return what an engine said, without the time and the level of its log."""
    if found := re.search(r'\bmsg="((?:[^"\\]|\\.)*)"', line):
        return found[1].replace('\\"', '"')
    return re.sub(r"^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?:? *", "", line)


def _noted(store: Store) -> str | None:
    """Return what was written down for hosts like this one."""
    try:
        noted = json.loads(_notes(store).read_text(encoding="utf-8"))
        return str(noted["engine"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _note(store: Store, choice: Choice) -> None:
    # Imported here: nobody needs it who finds a note.
    from argosy_common.files import write_json

    path = _notes(store)
    # If the store is read-only or full, every node measures for itself.
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True, parents=True, mode=0o700)
        write_json(path, {"host": os.uname().nodename, **dataclasses.asdict(choice)})


def _notes(store: Store) -> Path:
    """Return where it is written down for hosts that are like this one."""
    programs = [
        *(str(Tools(store).find(engine)) for engine in OWN_ENGINES),
        str(Tools(store).find_proot()),
        str(apptainer.find()),
    ]
    settings = [_text_of(Path(path)) for path in _DECISIVE]
    hybrid = Path("/sys/fs/cgroup/unified").is_dir()
    kernel = [os.uname().release, os.uname().machine]
    described = json.dumps([NOTES_VERSION, *kernel, programs, settings, hybrid])
    return store.engines / f"{hashlib.sha256(described.encode()).hexdigest()[:16]}.json"


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
