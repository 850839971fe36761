"""What is asked of a GPU, and in which units NVML answers."""

from __future__ import annotations

from typing import Any, Callable, Mapping

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
    """Return what programs use, without what the driver keeps for itself: 615 MiB of an idle H200."""
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(gpu, nvml.nvmlMemory_v2).used)
    except (AttributeError, nvml.NVMLError):
        # Drivers before 510, and modules of their time, tell both together alone.
        return int(nvml.nvmlDeviceGetMemoryInfo(gpu).used)


def _pcie_bytes_per_s(nvml: Any, gpu: Any, direction: int) -> int:
    # In KB, over the 20 ms that the call takes.
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
"""From a quantity's name, which has its unit, to what reads it by NVML and a handle."""

SLOW = ("pcie_received_bytes_per_s", "pcie_sent_bytes_per_s")
"""They take 20 ms each, in which others who want something of the driver may have to wait."""

CUMULATIVE = ("energy_j", "nvlink_received_bytes", "nvlink_sent_bytes")
"""They count from the driver's start or longer."""

OF_SLICES = ("memory_used_bytes",)
"""What a slice of a GPU has of its own."""
