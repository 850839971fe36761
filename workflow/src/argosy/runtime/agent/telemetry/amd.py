"""Telemetry of AMD GPUs: the job's devices, and their driver's files.

The job's GPUs are those of the kernel's compute list (KFD) that the agent can open, selected by
ROCR_VISIBLE_DEVICES as in ROCm: by their index in that list, or by their unique id.
https://docs.kernel.org/gpu/amdgpu/thermal.html, https://docs.kernel.org/gpu/amdgpu/driver-misc.html
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Mapping, Sequence

from ..kernel_files import numbers_in, read_text
from .gpu import Gpu
from .source import UnreadError

QUANTITIES: Mapping[str, tuple[Sequence[str], Callable[[int], Any]]] = {
    "utilisation": (["gpu_busy_percent"], lambda percent: percent / 100),
    "memory_used_bytes": (["mem_info_vram_used"], int),
    # Newer chips have only the second file.
    "power_w": (
        ["hwmon/hwmon*/power1_average", "hwmon/hwmon*/power1_input"],
        lambda microwatts: microwatts / 1e6,
    ),
    "sm_clock_hz": (["hwmon/hwmon*/freq1_input"], int),
    "memory_clock_hz": (["hwmon/hwmon*/freq2_input"], int),
    "temperature_c": (["hwmon/hwmon*/temp1_input"], lambda millidegrees: millidegrees / 1000),
}
"""Quantities by name: files of the device, and the conversion of their number."""

_UNTOLD = {"throttle_reasons": "AMD's driver does not report it"}
"""Quantities of NVIDIA GPUs that these files lack."""


@dataclass(frozen=True)
class AmdDevice:
    """A GPU of the job: the folder of its files, and its unique id in hexadecimal."""

    folder: str
    unique_id: str


def is_here(sys: str = "/sys") -> bool:
    """Return whether this node has AMD GPUs."""
    return bool(_listed(sys))


def find_gpus(
    visible: str | None, sys: str = "/sys", dev: str = "/dev"
) -> tuple[list[Gpu], str | None]:
    """Return the job's GPUs on this node, and the driver's version.

    `visible` is the value of ROCR_VISIBLE_DEVICES; None: all GPUs that can be opened. The version is
    None for the kernel's own module.
    """
    devices = enumerate(visible_devices(sys, dev, visible))
    gpus = [_gpu(number, device) for number, device in devices]
    return gpus, _text(f"{sys}/module/amdgpu/version") or None


def _gpu(number: int, device: AmdDevice) -> Gpu:
    entry = {
        "uuid": f"GPU-{device.unique_id}" if device.unique_id else None,
        "name": _text(f"{device.folder}/product_name") or "AMD GPU",
        "memory_bytes": _number_or_none(f"{device.folder}/mem_info_vram_total"),
        "mig": False,
    }
    readers = {
        name: partial(_read, device.folder, *quantity) for name, quantity in QUANTITIES.items()
    }
    return Gpu(number, entry, readers, _UNTOLD)


def _read(folder: str, patterns: Sequence[str], meaning: Callable[[int], Any]) -> Any:
    for pattern in patterns:
        found = sorted(glob.glob(f"{glob.escape(folder)}/{pattern}"))
        if found:
            return meaning(int(read_text(found[0])))
    raise UnreadError(f"no such file: {folder}/{patterns[0]}")


def visible_devices(sys: str, dev: str, visible: str | None) -> list[AmdDevice]:
    """Return the GPUs of ROCR_VISIBLE_DEVICES, in its order.

    As in ROCm, an unknown or repeated GPU ends the list.
    """
    devices = [
        AmdDevice(f"{sys}/class/drm/renderD{minor}/device", unique_id)
        for minor, unique_id in _listed(sys)
        if _can_be_opened(f"{dev}/dri/renderD{minor}")
    ]
    if visible is None:
        return devices
    chosen: list[AmdDevice] = []
    for word in visible.split(","):
        device = _named(word.strip(), devices)
        if device is None or device in chosen:
            break
        chosen.append(device)
    return chosen


def _named(word: str, devices: Sequence[AmdDevice]) -> AmdDevice | None:
    if word.isdigit():
        return devices[int(word)] if int(word) < len(devices) else None
    return next(
        (each for each in devices if each.unique_id and word == f"GPU-{each.unique_id}"), None
    )


def _listed(sys: str) -> list[tuple[int, str]]:
    """Return device number and unique id of each GPU, in the kernel's order."""
    folders = glob.glob(f"{sys}/class/kfd/kfd/topology/nodes/*")
    found: list[tuple[int, str]] = []
    for folder in sorted(folders, key=lambda each: int(os.path.basename(each))):
        try:
            rows = numbers_in(f"{folder}/properties")
        except OSError:
            # An unreadable entry is another job's GPU.
            continue
        minor, unique_id = rows.get("drm_render_minor", 0), rows.get("unique_id", 0)
        # Entries of CPUs have none.
        if minor > 0:
            found.append((minor, f"{unique_id:016x}" if unique_id else ""))
    return found


def _can_be_opened(path: str) -> bool:
    """Return whether the job may use a device; the control group decides, not the file's mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _text(path: str) -> str:
    try:
        return read_text(path).strip()
    except OSError:
        return ""


def _number_or_none(path: str) -> int | None:
    try:
        return int(read_text(path))
    except (OSError, ValueError):
        return None
