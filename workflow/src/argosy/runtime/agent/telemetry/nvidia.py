"""Telemetry of NVIDIA GPUs: the job's devices, and the functions that read them.

Values come from NVIDIA's management library (NVML) through its Python module pynvml:
https://docs.nvidia.com/deploy/nvml-api
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Mapping, Sequence

from .gpu import Gpu
from .source import UnreadError


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
    numbers = range(nvml.nvmlDeviceGetCount())
    found = (_told(nvml, nvml.nvmlDeviceGetHandleByIndex, number) for number in numbers)
    return [each for each in found if each is not None]


def _told(nvml: Any, ask: Callable[..., Any], *arguments: Any) -> Any:
    """Return an answer of NVML; None if it is an error."""
    try:
        return ask(*arguments)
    except nvml.NVMLError:
        return None


def _parts(nvml: Any, gpu: Any) -> list[Device]:
    """Return the GPU, or its slices if it is split."""
    mode = _told(nvml, nvml.nvmlDeviceGetMigMode, gpu)
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return [Device(gpu, mig=False)]
    numbers = range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu))
    slices = (_told(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, n) for n in numbers)
    return [Device(each, mig=True) for each in slices if each is not None]


def _named(nvml: Any, gpus: Sequence[Any], word: str) -> list[Device]:
    """Resolve a word of CUDA_VISIBLE_DEVICES: an index, a UUID or a prefix of one."""
    if word.startswith("MIG-"):
        part = _told(nvml, nvml.nvmlDeviceGetHandleByUUID, word)
        return [] if part is None else [Device(part, mig=True)]
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

OF_SLICES = ("memory_used_bytes",)
"""Quantities of MIG slices."""

_NOT_OF_A_SLICE = "a MIG slice has none of its own, only the whole GPU"


def find_gpus(
    path: str, visible: str | None, load: Callable[[str], Any] = load_nvml
) -> tuple[list[Gpu], str]:
    """Return the job's GPUs on this node, and the driver's version. Raises errors of NVML.

    Args:
        path: the path of pynvml.py; empty: import it from Python's path.
        visible: the value of CUDA_VISIBLE_DEVICES; None: all devices that can be opened.
        load: loads and initializes the module.
    """
    nvml = load(path)
    devices = enumerate(visible_devices(nvml, visible))
    gpus = [_gpu(nvml, number, device) for number, device in devices]
    return gpus, nvml.nvmlSystemGetDriverVersion()


def _gpu(nvml: Any, number: int, device: Device) -> Gpu:
    names = OF_SLICES if device.mig else (*QUANTITIES,)
    lasting = (
        nvml.NVML_ERROR_NOT_SUPPORTED,
        nvml.NVML_ERROR_NO_PERMISSION,
        nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    )
    return Gpu(
        number,
        {**_facts(nvml, device.handle), "mig": device.mig},
        {name: partial(QUANTITIES[name], nvml, device.handle) for name in names},
        {name: _NOT_OF_A_SLICE for name in QUANTITIES if name not in names},
        lambda error: getattr(error, "value", None) in lasting,
    )


def _facts(nvml: Any, handle: Any) -> dict[str, Any]:
    memory = _told(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    return {
        "uuid": _told(nvml, nvml.nvmlDeviceGetUUID, handle),
        "name": _told(nvml, nvml.nvmlDeviceGetName, handle),
        "memory_bytes": memory and int(memory.total),
    }
