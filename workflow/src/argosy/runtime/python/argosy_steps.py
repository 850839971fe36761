"""Record the steps of a training program, so that Argosy can say where its time goes.

::

    import argosy_steps

    steps = argosy_steps.Recorder()              # once in each rank's process
    for epoch in range(epochs):
        for x, y in steps.loading(loader):       # the wait for each batch is its step's "data"
            with steps.step(samples=len(x), epoch=epoch) as step:
                with step.phase("forward"):
                    loss = loss_of(model(x), y)
                with step.phase("backward"):
                    loss.backward()
                with step.phase("update"):
                    optimizer.step()
    steps.metric("test_accuracy", 0.97)

**Steps.** A step lasts from `with steps.step(…)` to the end of that block; after
`steps.loading(…)` it begins where the wait for its batch began. `samples` counts this rank's
own. A step left by an exception is not recorded. Steps do not nest, and one thread records.

**Phases** are `data`, `h2d` (host to device), `forward`, `backward`, `communication` and
`update`. Each may be left out, or entered several times, which adds up. A phase inside another
takes its time from the outer one, so phases never overlap; what no phase covers stays visible as
the rest of the step. A GPU works behind the program's back: to time its phases, synchronise (for
instance `torch.cuda.synchronize()`) at the end of each, and know that this costs some speed.
The total of a step is right without, as long as something in it waits, such as `loss.item()`.

**For predictions** a program can say what its network and its layers take: `steps.collective(…)` is a
time of an operation that all ranks take part in, `steps.layers(…)` when each gradient of the backward
pass is ready; argosy_layers.py beside this file finds that out for PyTorch.

**Going on after an interruption.** In an experiment with `checkpoints`, a job that nears its time
limit, or has to make room for another, is warned, and continues later from what it saved::

    if steps.restored:                           # the folder of the checkpoint to go on from, or None
        state = torch.load(f"{steps.restored}/model.pt", weights_only=True)
        model.load_state_dict(state)
    ...
        if agreed(steps.interrupted):            # on all ranks at the same step: allreduce it
            if hvd.rank() == 0:
                with steps.checkpoint() as folder:
                    torch.save(model.state_dict(), f"{folder}/model.pt")
            sys.exit(argosy_steps.INTERRUPTED_EXIT)

A checkpoint counts when its block is left, whole or not at all; the two newest of a job are kept.
Steps are numbered on from those that the checkpoint holds.

**Outside Argosy** (ARGOSY_STEPS_FILE is not set) everything here does nothing and costs next to
nothing, so the calls can stay in the program. The same holds in processes that a rank starts,
such as workers of a data loader.

Lines are collected and written within a second of steps, at every metric, and at the end. When
the disk is full the program ends with exit code 74 and says so in one line.

This file and its neighbours need nothing but Python 3.8; the format of the records
is docs/run-folder.md.
"""

from __future__ import annotations

import atexit
import errno
import json
import math
import os
import socket
import sys
import time
from types import TracebackType
from typing import Any, Iterable, Iterator, Optional, Tuple, TypeVar

import argosy_checkpoints

PHASES = ("data", "h2d", "forward", "backward", "communication", "update")
DISK_FULL_EXIT = 74  # EX_IOERR of sysexits.h
INTERRUPTED_EXIT = 75  # EX_TEMPFAIL: ended early as asked, to be continued

_SCHEMA_VERSION = 2
_FLUSH_SECONDS = 1.0
_FILE = "ARGOSY_STEPS_FILE"
_OWNER = "ARGOSY_STEPS_OWNER"
_FULL = (errno.ENOSPC, errno.EDQUOT)

Batch = TypeVar("Batch")
LayerTime = Tuple[str, int, Optional[float]]
"""A layer's name, the bytes of its gradient, and the seconds from the begin of the backward pass until
it is ready; None where that is not known."""


class Recorder:
    """Records the steps of one rank; there is one in each process.

    Raises:
        RuntimeError: this process, or an earlier one of this rank, has a recorder already.
        OSError: the file cannot be written, for another reason than a full disk.
    """

    def __init__(self) -> None:
        self._warning = argosy_checkpoints.Warning.of_this_process()
        self._log = _Log.of_this_process()
        self._count = argosy_checkpoints.restored_step()
        self._open = False
        self._loading_since: float | None = None
        self._loading_seconds = 0.0
        self._repetitions: dict[tuple[str, int], int] = {}

    @property
    def interrupted(self) -> bool:
        """Whether this job was warned: it should save a checkpoint soon and end."""
        return self._warning is not None and self._warning.seen

    @property
    def records(self) -> bool:
        """Whether anything is recorded: not outside Argosy, nor in processes that a rank starts."""
        return self._log is not None

    @property
    def restored(self) -> str | None:
        """The folder of the checkpoint to go on from, None at a fresh start."""
        folder: str | None = argosy_checkpoints.restored_folder()
        return folder

    def checkpoint(self) -> argosy_checkpoints.Checkpoint:
        """A checkpoint, to be used in a `with` statement on one rank; it gives the folder to write to."""
        return argosy_checkpoints.Checkpoint(self._count)

    def step(self, *, samples: int, epoch: int = 0) -> Step:
        """A step, to be used in a `with` statement.

        Args:
            samples: how many samples this rank works on; may be corrected inside the step by
                setting its `samples`. What is no whole number from 0 when the step ends raises
                ValueError.
            epoch: counted from 0.
        """
        return Step(self, samples, epoch)

    def loading(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Go through `batches`; the wait for each becomes the `data` phase of the next step."""
        if self._log is None:
            return iter(batches)
        return self._timed(batches)

    def metric(self, name: str, value: Any) -> None:
        """Record a result: a number, a bool or a text; a 0-dimensional tensor will do as well.

        What JSON has no number for (NaN, infinity) is recorded as the text ``nan`` or ``inf``.
        """
        if self._log is not None:
            at = time.monotonic()
            self._log.add({"kind": "metric", "name": name, "value": _plain(value), "at": at})
            self._log.flush()

    def collective(self, name: str, size: int, seconds: float) -> None:
        """Record a time of an operation of all ranks, alone and not in a step.

        Ranks that record the same operations in the same order are compared: the slowest of them
        says how long the operation took.

        Args:
            name: `allreduce` is what predictions know.
            size: bytes of each rank's data.
            seconds: of one operation on this rank.
        """
        repetition = self._repetitions.get((name, size), 0)
        self._repetitions[name, size] = repetition + 1
        if self._log is not None:
            record = {
                "kind": "collective",
                "name": name,
                "bytes": int(size),
                "repetition": repetition,
                "seconds": float(seconds),
                "at": time.monotonic(),
            }
            self._log.add(record)

    def layers(self, layers: Iterable[LayerTime]) -> None:
        """Record once what is known of the gradients, in the order of back-propagation."""
        if self._log is not None:
            named = [
                {"name": name, "bytes": int(size), "ready_s": ready_s}
                for name, size, ready_s in layers
            ]
            self._log.add({"kind": "layers", "layers": named, "at": time.monotonic()})
            self._log.flush()

    def _timed(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        iterator = iter(batches)
        while True:
            since = time.monotonic()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            self._loading_since = since
            self._loading_seconds = time.monotonic() - since
            yield batch

    def _begin(self, step: Step) -> None:
        if self._open:
            raise RuntimeError("argosy_steps: a step was begun inside a step")
        self._open = True
        if self._loading_since is None:
            step.start = time.monotonic()
            return
        step.start, self._loading_since = self._loading_since, None
        step.phases["data"] = self._loading_seconds

    def _end(self, step: Step, complete: bool) -> None:
        self._open = False
        if not complete:
            return
        number, self._count = self._count, self._count + 1
        if self._log is None:
            return
        record = {
            "kind": "step",
            "step": number,
            "epoch": step.epoch,
            "start": step.start,
            "seconds": time.monotonic() - step.start,
            "samples": _count(step.samples),
            "phases": step.phases,
        }
        self._log.add(record)


class Step:
    """One step; made by `Recorder.step`."""

    def __init__(self, recorder: Recorder, samples: int, epoch: int) -> None:
        self.samples = samples
        self.epoch = epoch
        self.start = 0.0
        self.phases: dict[str, float] = {}
        self._recorder = recorder
        self._inside: list[str] = []
        self._since = 0.0

    def phase(self, name: str) -> _Phase:
        """A phase of this step, to be used in a `with` statement.

        Raises:
            ValueError: `name` is not one of `PHASES`.
        """
        if name not in PHASES:
            raise ValueError(f"argosy_steps: no phase {name!r}: there are {', '.join(PHASES)}")
        return _Phase(self, name)

    def __enter__(self) -> Step:
        self._recorder._begin(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._recorder._end(self, complete=kind is None)

    def _enter(self, name: str) -> None:
        self._account()
        self._inside.append(name)

    def _leave(self) -> None:
        self._account()
        self._inside.pop()

    def _account(self) -> None:
        now = time.monotonic()
        if self._inside:
            name = self._inside[-1]
            self.phases[name] = self.phases.get(name, 0.0) + now - self._since
        self._since = now


class _Phase:
    def __init__(self, step: Step, name: str) -> None:
        self._step = step
        self._name = name

    def __enter__(self) -> None:
        self._step._enter(self._name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._step._leave()


class _Log:
    """The file of one rank: lines are collected, and written about once a second."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._pid = os.getpid()
        self._lines: list[str] = []
        self._flushed = time.monotonic()
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o600)
        except FileExistsError:
            raise RuntimeError(
                f"argosy_steps: {path} exists: only one program of a rank can record its steps"
            ) from None
        except OSError as error:
            self._give_up(error)
        self.add(_header())
        self.flush()
        atexit.register(self._flush_at_exit)

    @classmethod
    def of_this_process(cls) -> _Log | None:
        """The log to write, if Argosy asks for one and this is the rank's own process."""
        path = os.environ.get(_FILE)
        if not path:
            return None
        owner = os.environ.get(_OWNER, "")
        if owner == str(os.getpid()):
            raise RuntimeError("argosy_steps: this process has a Recorder already; share it")
        if owner:
            return None
        # Processes that this one starts inherit the mark and leave the file alone.
        os.environ[_OWNER] = str(os.getpid())
        return cls(path)

    def add(self, record: dict[str, Any]) -> None:
        """Add a line."""
        self._lines.append(json.dumps(record))
        if time.monotonic() - self._flushed >= _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what was collected."""
        self._flushed = time.monotonic()
        lines, self._lines = self._lines, []
        # A forked child has inherited lines that are its parent's to write.
        if not lines or os.getpid() != self._pid:
            return
        rest = memoryview(("\n".join(lines) + "\n").encode())
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            self._give_up(error)

    def _flush_at_exit(self) -> None:
        try:
            self.flush()
        except SystemExit:
            # Here Python no longer heeds an exit code.
            sys.stdout.flush()
            os._exit(DISK_FULL_EXIT)

    def _give_up(self, error: OSError) -> None:
        if error.errno not in _FULL:
            raise error
        reason = os.strerror(error.errno or 0).lower()
        print(
            f"argosy_steps: {reason} while writing {self._path}: free space and run again",
            file=sys.stderr,
            flush=True,
        )
        raise SystemExit(DISK_FULL_EXIT)


def _header() -> dict[str, Any]:
    return {
        "kind": "header",
        "schema_version": _SCHEMA_VERSION,
        "rank": int(os.environ.get("ARGOSY_RANK", "0")),
        "local_rank": int(os.environ.get("ARGOSY_LOCAL_RANK", "0")),
        "node": int(os.environ.get("ARGOSY_NODE", "0")),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "unix": time.time(),
        "monotonic": time.monotonic(),
    }


def _count(samples: Any) -> int:
    try:
        count = int(samples)
    except (TypeError, ValueError, OverflowError):
        count = -1
    if count < 0 or count != samples:
        raise ValueError(f"argosy_steps: samples is {samples!r}, not a whole number from 0")
    return count


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"argosy_steps: a metric is a number, a bool or a text, not {value!r}")
