"""Record the steps of a training program, so that Argosy can report where its time goes.

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
`steps.loading(…)` it begins where the wait for its batch began. `samples` counts this rank's samples. A
step that ends with an exception is not recorded. Steps do not nest, and one thread records.

**Phases** are `data`, `h2d` (host to device), `forward`, `backward`, `communication` and
`update`. All are optional; times of a repeated phase add up. The time of an inner phase is
subtracted from the outer one, so phases never overlap. The report shows the rest of the step
separately. GPUs work asynchronously: to time their phases, synchronise (for instance
`torch.cuda.synchronize()`) at the end of each, which costs some speed. The total of a step is
correct without it if something in the step waits, such as `loss.item()`.

**For predictions** a program can record its network and its layers. `steps.collective(…)` records the
time of a collective operation, `steps.layers(…)` the times at which gradients of the backward pass
are ready; argosy_layers.py beside this file measures these for PyTorch.

**Checkpoints.** In an experiment with `checkpoints`, a job is warned before its time limit or a
preemption, and later continues from its last checkpoint::

    if steps.restored:                           # folder of the checkpoint to continue from, or None
        state = torch.load(f"{steps.restored}/model.pt", weights_only=True)
        model.load_state_dict(state)
    ...
        if agreed(steps.interrupted):            # on all ranks at the same step: use an allreduce
            if hvd.rank() == 0:
                with steps.checkpoint() as folder:
                    torch.save(model.state_dict(), f"{folder}/model.pt")
            sys.exit(argosy_steps.INTERRUPTED_EXIT)

A checkpoint is complete when its block ends, or absent; the two newest of a job are kept.
Step numbers continue from the checkpoint.

**Outside Argosy** (ARGOSY_STEPS_FILE is not set) all calls do nothing and cost next to nothing, so
they can stay in the program. The same holds in processes that a rank starts, such as workers of
a data loader.

Steps are written within a second, and at every metric and at the end. If
the disk is full, the program ends with exit code 74 and a one-line message.

This file and its neighbours need only Python 3.8. docs/run-folder.md describes the
format of the records.
"""

from __future__ import annotations

import math
import time
from typing import Any, Iterable, Iterator, Optional, Tuple, TypeVar

import argosy_checkpoints
import argosy_records
from argosy_contract import steps as step_rows
from argosy_contract.steps import PHASES

INTERRUPTED_EXIT = 75  # EX_TEMPFAIL: ended early as asked, to be continued

_MOST_SAMPLES = 10**15 - 1

Batch = TypeVar("Batch")
LayerTime = Tuple[str, int, Optional[float]]
"""A layer's name, the bytes of its gradient, and the seconds from the start of the backward pass until
it is ready; None: unknown."""


class Recorder:
    """Records the steps of one rank. Create one per process.

    Raises:
        RuntimeError: this process, or an earlier one of this rank, already has a recorder.
        OSError: the file cannot be written, except on a full disk.
    """

    def __init__(self) -> None:
        self._warning = argosy_checkpoints.Warning.of_this_process()
        self._log = argosy_records.Log.of_this_process()
        self._count = argosy_checkpoints.restored_step()
        self._open = False
        self._loading_since: float | None = None
        self._loading_seconds = 0.0
        self._repetitions: dict[tuple[str, int], int] = {}

    @property
    def interrupted(self) -> bool:
        """Whether the job will end soon: save a checkpoint and exit."""
        return self._warning is not None and self._warning.seen

    @property
    def records(self) -> bool:
        """Whether this process records: not outside Argosy, and not in child processes of a rank."""
        return self._log is not None

    @property
    def restored(self) -> str | None:
        """Folder of the checkpoint to resume from; None for a fresh start."""
        folder: str | None = argosy_checkpoints.restored_folder()
        return folder

    def checkpoint(self) -> argosy_checkpoints.Checkpoint:
        """Return a checkpoint for a `with` statement on one rank, which yields the folder to write to."""
        if self._log is not None:
            # The steps before a checkpoint are not repeated, so write them first.
            self._log.flush()
        return argosy_checkpoints.Checkpoint(self._count)

    def step(self, *, samples: int, epoch: int = 0) -> Step:
        """Return a step for a `with` statement.

        Args:
            samples: the number of this rank's samples, which the step may correct by setting its `samples`.
                Anything but a whole number from 0 below 10^15 raises ValueError at the step's end.
            epoch: counted from 0; anything but a whole number below 2^31 is recorded as unknown.
        """
        return Step(self, samples, epoch)

    def loading(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Iterate over `batches`; the wait for each becomes the `data` phase of the next step."""
        if self._log is None:
            return iter(batches)
        return self._timed(batches)

    def metric(self, name: str, value: Any) -> None:
        """Record a result: a number, a bool, a text or a 0-dimensional tensor.

        NaN and infinity, which JSON lacks, are recorded as the texts ``nan`` and ``inf``.
        """
        if self._log is not None:
            at = time.monotonic()
            self._log.add({"kind": "metric", "name": name, "value": _plain(value), "at": at})
            self._log.flush()

    def collective(self, name: str, size: int, seconds: float) -> None:
        """Record the time of a collective operation outside steps.

        All ranks must record the same operations in the same order; the slowest rank's time counts.

        Args:
            name: the operation; predictions use `allreduce`.
            size: the bytes of each rank's data.
            seconds: the time of one operation on this rank.
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
        """Record the gradients once, in the order of back-propagation."""
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
        row = step_rows.row(
            step=number,
            epoch=_epoch(step.epoch),
            samples=_count(step.samples),
            start=step.start,
            seconds=time.monotonic() - step.start,
            phases=step.phases,
        )
        self._log.add_step(row)


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
        """Return a phase of this step for a `with` statement.

        Raises:
            ValueError: `name` is not one of `PHASES`.
        """
        if name not in PHASES:
            raise ValueError(f"argosy_steps: no phase {name!r}: there are {', '.join(PHASES)}")
        return _Phase(self, name)

    def __enter__(self) -> Step:
        self._recorder._begin(self)
        return self

    def __exit__(self, kind: object, *error: object) -> None:
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

    def __exit__(self, *error: object) -> None:
        self._step._leave()


def _count(samples: Any) -> int:
    count = _whole(samples, _MOST_SAMPLES)
    if count is None:
        raise ValueError(
            f"argosy_steps: samples is {samples!r}, not a whole number from 0 below 10^15"
        )
    return count


def _epoch(epoch: Any) -> int:
    count = _whole(epoch, step_rows.MOST_STEP)
    return step_rows.UNKNOWN_EPOCH if count is None else count


def _whole(value: Any, most: int) -> int | None:
    try:
        count = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return count if 0 <= count <= most and count == value else None


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"argosy_steps: a metric is a number, a bool or a text, not {value!r}")
