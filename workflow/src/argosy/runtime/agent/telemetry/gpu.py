"""GPUs of a job, of any vendor: one line per GPU and sample."""

from __future__ import annotations

import time
from typing import Any, Callable, Collection, Mapping, Sequence

from .source import CumulativeCounter, Integral, Record, Unread, UnreadError, unread_record, why

SLOW = ("pcie_received_bytes_per_s", "pcie_sent_bytes_per_s")
"""Quantities that take 20 ms each, during which the driver may block other callers."""

CUMULATIVE = ("energy_j", "nvlink_received_bytes", "nvlink_sent_bytes")
"""Counters since the driver's start or earlier."""


class Gpu:
    """One GPU, or a slice of one.

    Args:
        number: its index among the job's devices.
        entry: its entry in the header.
        readers: functions that return its quantities, by name.
        untold: reasons of quantities without a reader, by name.
        is_lasting: returns whether a quantity with this error is not read again.
    """

    def __init__(
        self,
        number: int,
        entry: Record,
        readers: Mapping[str, Callable[[], Any]],
        untold: Mapping[str, str],
        is_lasting: Callable[[Exception], bool] = lambda error: False,
    ) -> None:
        self._number = number
        self._given = entry
        self._readers = dict(readers)
        self._untold = untold
        self._is_lasting = is_lasting
        self._growth = {name: CumulativeCounter() for name in CUMULATIVE}
        self._energy: Integral | None = None
        self._unread = Unread()

    def open(self) -> tuple[Record, list[Record]]:
        """Return the entry in the header, and the lines of the first sample."""
        # Slow quantities are read later, in turn.
        record, *lines = self.sample(SLOW)
        if "energy_j" not in self._readers and "power_w" in record:
            self._energy = Integral()
            self._integrate(record)
        lines += [unread_record(*each, gpu=self._number) for each in self._untold.items()]
        entry = {"gpu": self._number, **self._given}
        return {**entry, "energy_from_power": self._energy is not None}, [record, *lines]

    def sample(self, leave_out: Collection[str] = ()) -> list[Any]:
        """Return the GPU's line, and a line for each new read error."""
        record: dict[str, Any] = {"kind": "gpu", "at": time.monotonic(), "gpu": self._number}
        lines: list[Record] = [record]
        for name in [each for each in self._readers if each not in leave_out]:
            try:
                value = self._readers[name]()
            except Exception as error:  # drivers raise anything
                if self._is_lasting(error):
                    del self._readers[name]
                lines += self._unread.report(name, why(error), gpu=self._number)
            else:
                growth = self._growth.get(name)
                record[name] = growth.add({name: value}) if growth else value
        self._integrate(record)
        return lines

    def _integrate(self, record: dict[str, Any]) -> None:
        if self._energy and "power_w" in record:
            record["energy_j"] = self._energy.add(record["at"], record["power_w"])


class GpuSource:
    """Source for the job's GPUs on this node; `find` returns them and the driver's version."""

    name = "gpu"

    def __init__(self, find: Callable[[], tuple[Sequence[Gpu], str | None]]) -> None:
        self._find = find
        self._gpus: Sequence[Gpu] = ()
        self._turn = 0

    def open(self) -> tuple[Record, Sequence[Record]]:
        """Find the GPUs. Raises UnreadError if the job has none, and errors of the driver."""
        self._gpus, driver = self._find()
        if not self._gpus:
            raise UnreadError("the job has no GPU on this node")
        opened = [gpu.open() for gpu in self._gpus]
        header = {"gpus": [entry for entry, _ in opened], "driver": driver}
        return header, [line for _, lines in opened for line in lines]

    def sample(self) -> Sequence[Record]:
        """Return one line per GPU; slow quantities are read from one GPU at a time, in turn."""
        lines: list[Record] = []
        for number, gpu in enumerate(self._gpus):
            lines += gpu.sample(() if number == self._turn else SLOW)
        self._turn = (self._turn + 1) % len(self._gpus)
        return lines
