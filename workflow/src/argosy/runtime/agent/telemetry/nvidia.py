"""Telemetry of NVIDIA GPUs: the job's devices, and one line per GPU and sample.

Values come from NVIDIA's management library (NVML) through its Python module pynvml:
https://docs.nvidia.com/deploy/nvml-api
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable, Collection, Mapping, Sequence

from .source import (
    CumulativeCounter,
    Integral,
    Opened,
    Record,
    Unread,
    UnreadError,
    unread_record,
    why,
)


@dataclass(frozen=True)
class Device:
    """A GPU, or a MIG slice of one; `handle` is NVML's."""

    handle: Any
    mig: bool


def load_nvml(path: str, proc: str = "/proc") -> Any:
    """Load and initialize pynvml.

    Args:
        path: the path of pynvml.py; empty: import it from Python's path.

    Raises:
        UnreadError: the node has no driver, or pynvml is missing.
        Exception: errors of the module in a Python that is too old for it, or NVMLError.
    """
    # Loading takes a tenth of a second: nodes without GPUs skip it.
    if not os.path.exists(f"{proc}/driver/nvidia/version"):
        raise UnreadError("there is no NVIDIA driver")
    try:
        nvml = _load_file(path) if path else importlib.import_module("pynvml")
    except ImportError as error:
        raise UnreadError(f"pynvml cannot be loaded: {error}") from None
    nvml.nvmlInit()
    return nvml


def visible_devices(nvml: Any, visible: str | None) -> list[Device]:
    """Return the job's devices in CUDA's order.

    As in CUDA, an unknown device ends the list:
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars

    Args:
        visible: the value of CUDA_VISIBLE_DEVICES; None: all devices that can be opened.
    """
    gpus = _usable_gpus(nvml)
    if visible is None:
        return [device for gpu in gpus for device in _parts(nvml, gpu)]
    devices: list[Device] = []
    for word in visible.split(","):
        found = _named(nvml, gpus, word.strip())
        if not found:
            break
        devices += found
    return devices


def pci_addresses(path: str, visible: str | None) -> list[str]:
    """Return the PCI address of each visible device in the kernel's notation; raises as `load_nvml`."""
    nvml = load_nvml(path)
    handles = [
        nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(each.handle) if each.mig else each.handle
        for each in visible_devices(nvml, visible)
    ]
    found = map(nvml.nvmlDeviceGetPciInfo, handles)
    return [f"{each.domain:04x}:{each.bus:02x}:{each.device:02x}.0" for each in found]


def _load_file(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("pynvml", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    # The module looks itself up while it is loaded.
    sys.modules["pynvml"] = module
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        raise ImportError(f"{path}: {error.strerror}") from None
    return module


def _usable_gpus(nvml: Any) -> list[Any]:
    """Return handles in the order of the PCI bus; GPUs of other jobs cannot be opened."""
    handles = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handles.append(nvml.nvmlDeviceGetHandleByIndex(index))
        except nvml.NVMLError:
            continue
    return handles


def _parts(nvml: Any, gpu: Any) -> list[Device]:
    """Return the GPU, or its slices if it is split."""
    try:
        split = nvml.nvmlDeviceGetMigMode(gpu)[0] == nvml.NVML_DEVICE_MIG_ENABLE
    except nvml.NVMLError:
        split = False
    if not split:
        return [Device(gpu, mig=False)]
    slices = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except nvml.NVMLError:
            continue
        slices.append(Device(handle, mig=True))
    return slices


def _named(nvml: Any, gpus: Sequence[Any], word: str) -> list[Device]:
    """Resolve a word of CUDA_VISIBLE_DEVICES: an index, a UUID or a prefix of one."""
    if word.startswith("MIG-"):
        try:
            return [Device(nvml.nvmlDeviceGetHandleByUUID(word), mig=True)]
        except nvml.NVMLError:
            return []
    if word.isdigit():
        chosen = gpus[int(word) : int(word) + 1]
    elif word.startswith("GPU-"):
        chosen = [gpu for gpu in gpus if nvml.nvmlDeviceGetUUID(gpu).startswith(word)]
    else:
        chosen = []
    return [device for gpu in chosen for device in _parts(nvml, gpu)]


Quantity = Callable[[Any, Any], Any]

# https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
_THROTTLE_REASONS = (
    (0x001, "gpu_idle"),
    (0x002, "applications_clocks_setting"),
    (0x004, "sw_power_cap"),
    (0x008, "hw_slowdown"),
    (0x010, "sync_boost"),
    (0x020, "sw_thermal_slowdown"),
    (0x040, "hw_thermal_slowdown"),
    (0x080, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
    (0x200, "board_limit"),
    (0x400, "reliability"),
)
_ALL_LINKS = 0xFFFFFFFF


def _clock_hz(nvml: Any, gpu: Any, clock: int) -> int:
    return int(nvml.nvmlDeviceGetClockInfo(gpu, clock)) * 1_000_000


def _memory_used_bytes(nvml: Any, gpu: Any) -> int:
    """Return the memory of programs, without the driver's own: 615 MiB on an idle H200."""
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(gpu, nvml.nvmlMemory_v2).used)
    except (AttributeError, nvml.NVMLError):
        # Drivers before 510, and older modules, report only the sum.
        return int(nvml.nvmlDeviceGetMemoryInfo(gpu).used)


def _pcie_bytes_per_s(nvml: Any, gpu: Any, direction: int) -> int:
    # In KB per second, averaged over the 20 ms of the call.
    return int(nvml.nvmlDeviceGetPcieThroughput(gpu, direction)) * 1000


def _nvlink_bytes(nvml: Any, gpu: Any, field: int) -> int:
    value = nvml.nvmlDeviceGetFieldValues(gpu, [(field, _ALL_LINKS)])[0]
    if value.nvmlReturn:
        raise nvml.NVMLError(value.nvmlReturn)
    return int(value.value.ullVal) << 10


def _throttle_reasons(nvml: Any, gpu: Any) -> list[str]:
    bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)
    return [name for bit, name in _THROTTLE_REASONS if bits & bit]


QUANTITIES: Mapping[str, Quantity] = {
    "utilisation": lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100,
    "memory_used_bytes": _memory_used_bytes,
    "power_w": lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
    "energy_j": lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000,
    "sm_clock_hz": lambda nvml, gpu: _clock_hz(nvml, gpu, nvml.NVML_CLOCK_SM),
    "memory_clock_hz": lambda nvml, gpu: _clock_hz(nvml, gpu, nvml.NVML_CLOCK_MEM),
    "temperature_c": lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(
        gpu, nvml.NVML_TEMPERATURE_GPU
    ),
    "throttle_reasons": _throttle_reasons,
    "nvlink_received_bytes": lambda nvml, gpu: _nvlink_bytes(
        nvml, gpu, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX
    ),
    "nvlink_sent_bytes": lambda nvml, gpu: _nvlink_bytes(
        nvml, gpu, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX
    ),
    "pcie_received_bytes_per_s": lambda nvml, gpu: _pcie_bytes_per_s(
        nvml, gpu, nvml.NVML_PCIE_UTIL_RX_BYTES
    ),
    "pcie_sent_bytes_per_s": lambda nvml, gpu: _pcie_bytes_per_s(
        nvml, gpu, nvml.NVML_PCIE_UTIL_TX_BYTES
    ),
}
"""Functions that read a quantity through NVML and a handle, by name."""

SLOW = ("pcie_received_bytes_per_s", "pcie_sent_bytes_per_s")
"""Quantities that take 20 ms each, during which the driver may block other callers."""

CUMULATIVE = ("energy_j", "nvlink_received_bytes", "nvlink_sent_bytes")
"""Counters since the driver's start or earlier."""

OF_SLICES = ("memory_used_bytes",)
"""Quantities of MIG slices."""


_NOT_OF_A_SLICE = "a MIG slice has none of its own, only the whole GPU"


class Gpu:
    """One GPU or slice; `number` is its index among the job's devices."""

    def __init__(self, nvml: Any, number: int, device: Device) -> None:
        self._nvml = nvml
        self._number = number
        self._device = device
        self._names = [name for name in QUANTITIES if not device.mig or name in OF_SLICES]
        self._growth = {name: CumulativeCounter() for name in CUMULATIVE}
        self._integral: Integral | None = None
        self._errors = Unread()
        # Permanent errors: do not read the quantity again.
        self._lasting = (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        )

    def open(self) -> tuple[Record, list[Record]]:
        """Return the GPU's entry in the header, and the lines of the first sample."""
        # Slow quantities are read later, in turn.
        lines = self.sample(SLOW)
        if not self._device.mig and "energy_j" not in self._names and "power_w" in lines[0]:
            self._integral = Integral()
            self._integrate(lines[0])
        if self._device.mig:
            missing = [name for name in QUANTITIES if name not in OF_SLICES]
            lines += [unread_record(name, _NOT_OF_A_SLICE, gpu=self._number) for name in missing]
        return self._entry(), lines

    def sample(self, leave_out: Collection[str]) -> list[Any]:
        """Return the GPU's line, and a line for each new read error."""
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
        return self._errors.report(name, why(error), gpu=self._number)

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
    """Source for the job's NVIDIA GPUs on this node.

    Args:
        path: the path of pynvml.py; empty: import it from Python's path.
        visible: the value of CUDA_VISIBLE_DEVICES; None: all devices that can be opened.
        load: loads and initializes the module.
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
        """Open NVML. Raises UnreadError if the job has no GPU, and errors of NVML."""
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
        """Return one line per GPU; slow quantities are read from one GPU at a time, in turn."""
        lines: list[Record] = []
        for number, gpu in enumerate(self._gpus):
            lines += gpu.sample(() if number == self._turn else SLOW)
        self._turn = (self._turn + 1) % len(self._gpus)
        return lines
