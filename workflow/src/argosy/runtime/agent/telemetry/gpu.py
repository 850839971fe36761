"""GPUs by NVML: one line for each of them a sample."""

from __future__ import annotations

import time
from typing import Any, Callable, Collection, Sequence

from .counters import CumulativeCounter, Integral
from .gpu_metrics import CUMULATIVE, OF_SLICES, QUANTITIES, SLOW
from .nvml import Device, load_nvml, visible_devices
from .reading import UnreadError, why
from .source import Opened, Record, unread_record

_NOT_OF_A_SLICE = "a MIG slice has none of its own, only the whole GPU"


class Gpu:
    """One GPU or slice, under its number among those that the job sees."""

    def __init__(self, nvml: Any, number: int, device: Device) -> None:
        self._nvml = nvml
        self._number = number
        self._device = device
        self._names = [name for name in QUANTITIES if not device.mig or name in OF_SLICES]
        self._growth = {name: CumulativeCounter() for name in CUMULATIVE}
        self._integral: Integral | None = None
        self._said: set[tuple[str, str]] = set()
        # The same error at every sample means the same until the end.
        self._lasting = (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        )

    def open(self) -> tuple[Record, list[Record]]:
        """Return the entry in the header, and the lines of the first sample."""
        # Slow ones wait for their turn.
        lines = self.sample(SLOW)
        if not self._device.mig and "energy_j" not in self._names and "power_w" in lines[0]:
            self._integral = Integral()
            self._integrate(lines[0])
        if self._device.mig:
            missing = [name for name in QUANTITIES if name not in OF_SLICES]
            lines += [self._unread(name, _NOT_OF_A_SLICE) for name in missing]
        return self._entry(), lines

    def sample(self, leave_out: Collection[str]) -> list[Any]:
        """Return the GPU's line, and one for each thing that it does not offer and was not named before."""
        record: dict[str, Any] = {"kind": "gpu", "at": time.monotonic(), "gpu": self._number}
        lines: list[Record] = [record]
        for name in [each for each in self._names if each not in leave_out]:
            try:
                value = QUANTITIES[name](self._nvml, self._device.handle)
            except self._nvml.NVMLError as error:
                lines += self._failed(name, error)
            else:
                growth = self._growth.get(name)
                record[name] = growth.add({name: value}) if growth else value
        self._integrate(record)
        return lines

    def _integrate(self, record: dict[str, Any]) -> None:
        if self._integral and "power_w" in record:
            record["energy_j"] = self._integral.add(record["at"], record["power_w"])

    def _failed(self, name: str, error: Any) -> list[Record]:
        if error.value in self._lasting:
            self._names.remove(name)
        if (name, why(error)) in self._said:
            return []
        self._said.add((name, why(error)))
        return [self._unread(name, why(error))]

    def _unread(self, name: str, reason: str) -> Record:
        return unread_record(name, reason, gpu=self._number)

    def _entry(self) -> Record:
        nvml, handle = self._nvml, self._device.handle
        entry: dict[str, Any] = {"gpu": self._number}
        facts: dict[str, Callable[[], Any]] = {
            "uuid": lambda: nvml.nvmlDeviceGetUUID(handle),
            "name": lambda: nvml.nvmlDeviceGetName(handle),
            "memory_bytes": lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        }
        for key, ask in facts.items():
            try:
                entry[key] = ask()
            except nvml.NVMLError:
                entry[key] = None
        return {**entry, "mig": self._device.mig, "energy_from_power": self._integral is not None}


class GpuSource:
    """All GPUs of the job on this node.

    Args:
        path: of pynvml.py; empty: wherever Python finds it.
        visible: the value of CUDA_VISIBLE_DEVICES; None: all that can be opened.
        load: gives the module, ready to be asked.
    """

    name = "gpu"

    def __init__(
        self, path: str, visible: str | None, load: Callable[[str], Any] = load_nvml
    ) -> None:
        self._path = path
        self._visible = visible
        self._load = load
        self._gpus: list[Gpu] = []
        self._turn = 0

    def open(self) -> Opened:
        """Open NVML. Raises UnreadError when there is no GPU for this job, and what NVML raises."""
        nvml = self._load(self._path)
        devices = visible_devices(nvml, self._visible)
        if not devices:
            raise UnreadError("the job has no GPU on this node")
        self._gpus = [Gpu(nvml, number, device) for number, device in enumerate(devices)]
        opened = [gpu.open() for gpu in self._gpus]
        header = {
            "gpus": [entry for entry, _ in opened],
            "driver": nvml.nvmlSystemGetDriverVersion(),
        }
        return Opened(header, records=[line for _, lines in opened for line in lines])

    def sample(self) -> Sequence[Record]:
        """Return each GPU's line. What takes long is asked of one of them at a time, in turn."""
        lines: list[Record] = []
        for number, gpu in enumerate(self._gpus):
            lines += gpu.sample(() if number == self._turn else SLOW)
        self._turn = (self._turn + 1) % len(self._gpus)
        return lines
