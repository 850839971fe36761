"""For `sampling.py`: stands where a program looks for `argosy_steps`, and records steps in some turns only.

The real recorder does the work while the file SWITCH holds a 1. In all turns the moments at which steps
begin are noted, with what is the same cost for both.
"""

import importlib.util
import mmap
import os
import time
from contextlib import nullcontext
from pathlib import Path

from argosy_contract import steps

INTERRUPTED_EXIT = 0
_NO_PHASE = nullcontext()


def _real_recorder():
    spec = importlib.util.spec_from_file_location("real_argosy_steps", os.environ["RECORDER"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Recorder()


class Recorder:
    def __init__(self):
        self._real = _real_recorder()
        with Path(os.environ["SWITCH"]).open("rb") as file:
            self._switch = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)
        self._begins = os.open(os.environ["STEPS_BEGIN"], os.O_WRONLY | os.O_CREAT, 0o600)
        self._rows = [steps.row_header(0, 0, 0.0, 0.0)]
        self._written = time.monotonic()

    def __getattr__(self, name):
        return getattr(self._real, name)

    def _recording(self):
        return self._switch[0] == ord("1")

    def loading(self, loader):
        batches = iter(loader)
        recorded = self._real.loading(batches)
        while True:
            try:
                batch = next(recorded if self._recording() else batches)
            except StopIteration:
                return
            yield batch

    def step(self, samples, epoch=0):
        self._note(time.monotonic(), samples, epoch)
        if self._recording():
            return self._real.step(samples=samples, epoch=epoch)
        return _Unrecorded()

    def _note(self, start, samples, epoch):
        row = steps.row(step=0, epoch=epoch, samples=samples, start=start, seconds=0.0, phases={})
        self._rows.append(row)
        if start - self._written > 1:
            os.write(self._begins, b"".join(self._rows))
            self._rows = []
            self._written = start


class _Unrecorded:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def phase(self, name):
        return _NO_PHASE
