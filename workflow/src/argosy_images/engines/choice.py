"""Choose a container engine by measuring on the host that runs it, since nodes differ.

The store keeps each choice for all hosts with the same kernel, settings and programs, so the nodes of a
job need not measure again.

Isolation comes before speed: an engine without isolation is chosen only if no isolating engine works.
Trials run the host's own shell (`trusted_root`), so no image can influence the choice.
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
"""Version of the stored choices. Earlier versions chose among other engines and are ignored."""

STARTS = 3

_PROBE = "printf 'argosy-\\303\\251'; exit 3"

_DECISIVE = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)
"""Kernel settings that can forbid user namespaces, which the isolating engines need."""

_LONGEST_QUOTED = 160
"""Characters of an engine's output in a message."""
_NOT_TO_BE_TRACED = "ptrace(TRACEME): Operation not permitted"
_TRACING = "run this command without a tracer (strace, a debugger, another proot)"


@dataclass(frozen=True)
class Trial:
    """The measurement of an engine on a host.

    Args:
        start_s: median seconds to start and end a shell; None if the engine does not work.
        calls_s: seconds for `CALLS` system calls; None if the engine does not work.
        said: why it does not work.
    """

    CALLS: ClassVar[int] = 20_000

    engine: str
    start_s: float | None = None
    calls_s: float | None = None
    said: str = ""

    @property
    def works(self) -> bool:
        """Whether the test command succeeded."""
        return self.start_s is not None

    @property
    def isolates(self) -> bool:
        """Whether programs can access only the mounted parts of the host."""
        return self.engine in ISOLATING_ENGINES

    @property
    def cost_s(self) -> float:
        """Seconds for a start and as many calls as importing PyTorch makes; the lowest cost wins."""
        works = self.start_s is not None and self.calls_s is not None
        return (self.start_s or 0) + (self.calls_s or 0) if works else float("inf")


_CALLS = f"i=0; while [ $i -lt {Trial.CALLS} ]; do [ -e /etc/passwd ]; i=$((i+1)); done; exit 3"
"""Looks up one file `CALLS` times."""


@dataclass(frozen=True)
class Choice:
    """The engine for a host, and the trials behind the choice."""

    engine: str
    trials: tuple[Trial, ...]

    @property
    def caution(self) -> str:
        """The missing protection in one line; empty if the engine isolates."""
        return caution(self.engine)


def engine_of_host(store: Store) -> str:
    """Return the stored choice for hosts like this one, or measure now.

    A stored engine without isolation is used only while no isolating engine works.
    """
    noted = _noted(store)
    if noted in ISOLATING_ENGINES:
        return noted
    if noted in UNISOLATED_ENGINES and not one_starts(store, ISOLATING_ENGINES):
        return noted
    return choose_engine(store).engine


def choose_engine(store: Store, *, every: bool = False) -> Choice:
    """Measure the engines on this host, choose one and store the choice.

    Args:
        every: also measure engines without isolation if an isolating one works.

    Raises:
        ArgosyError: as `best`, and if no trial can run on this host.
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
        ArgosyError: if no trial can run on this host.
    """
    from argosy_images.engines.trusted_root import trusted_root

    with trusted_root(store) as root:
        there = [engine for engine in engines if _is_there(store, engine)]
        return any(_timed(store, root, engine, _PROBE, "argosy-é")[0] for engine in there)


def best(trials: Sequence[Trial]) -> Trial:
    """Return the fastest working isolating engine, or else the first working one of the others.

    `proot` precedes `proot-ptrace` without measurement: it stops programs at fewer calls, but the trial
    makes only calls at which both stop.

    Raises:
        ArgosyError: if none works, with the output of each and the request to the site.
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
    """Describe the missing protection of an engine in one line; empty if it isolates."""
    if engine not in UNISOLATED_ENGINES:
        return ""
    # Imported here: nodes with namespaces do not need it.
    from argosy_images.engines import landlock

    if landlock.version():
        return (
            f"{engine} does not isolate: programs in the image see your other processes on this host; "
            "Landlock protects your files (docs/images.md)"
        )
    return (
        f"{engine} does not isolate: programs in the image can read and change every file of yours on "
        "this host, and see and end your processes; run only images that you trust (docs/images.md)"
    )


def try_engine(store: Store, root: Path, engine: str) -> Trial:
    """Time a command in `root`, and check its exit status and UTF-8 output."""
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
    """Return whether the script succeeded, a line of other output, and the seconds it took."""
    output: list[bytes] = []
    inside = Container(root, ["/bin/sh", "-c", script], engine=engine)
    began = time.monotonic()
    outcome = container.run(store, inside, output.append)
    seconds = time.monotonic() - began
    text = b"".join(output).decode(errors="replace")
    right = outcome.status == 3 and text.endswith(expected)
    return right, _first_words(engine, plain(text)) or "no output", seconds


def _first_words(engine: str, text: str) -> str:
    """Shorten an engine's output to its cause: proot's first line, the end of the others' output."""
    if engine in UNISOLATED_ENGINES:
        return next(filter(None, map(str.strip, text.splitlines())), "")[:_LONGEST_QUOTED]
    return without_log_frame(" ".join(text.split()))[-_LONGEST_QUOTED:]


def without_log_frame(line: str) -> str:
    """Return the message of an engine's log line, without time and level."""
    if found := re.search(r'\bmsg="((?:[^"\\]|\\.)*)"', line):
        return found[1].replace('\\"', '"')
    return re.sub(r"^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?:? *", "", line)


def _noted(store: Store) -> str | None:
    """Read the engine stored for hosts like this one; None if there is none."""
    try:
        noted = json.loads(_notes(store).read_text(encoding="utf-8"))
        return str(noted["engine"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _note(store: Store, choice: Choice) -> None:
    # Imported here: not needed if a choice is stored.
    from argosy_common.files import write_json

    path = _notes(store)
    # If the store is read-only or full, every node measures for itself.
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True, parents=True, mode=0o700)
        write_json(path, {"host": os.uname().nodename, **dataclasses.asdict(choice)})


def _notes(store: Store) -> Path:
    """Return the file that stores the choice for hosts like this one."""
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
