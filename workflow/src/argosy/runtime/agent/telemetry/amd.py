"""Telemetry of AMD GPUs from the files of their driver: one line per GPU and sample.

The job's GPUs are those of the kernel's compute list (KFD) that the agent can open, selected by
ROCR_VISIBLE_DEVICES as in ROCm: by their index in that list, or by their unique id.
https://docs.kernel.org/gpu/amdgpu/thermal.html, https://docs.kernel.org/gpu/amdgpu/driver-misc.html
"""

from __future__ import annotations

import glob
import os
import time
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from .source import Integral, Opened, Record, Unread, UnreadError, read_text, unread_record, why

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

_NOT_TOLD = ("throttle_reasons",)
"""Quantities of NVIDIA GPUs that these files lack."""


@dataclass(frozen=True)
class AmdDevice:
    """A GPU of the job: the folder of its files, and its unique id in hexadecimal."""

    folder: str
    unique_id: str


class AmdGpuSource:
    """Source for the job's AMD GPUs on this node.

    Args:
        visible: the value of ROCR_VISIBLE_DEVICES; None: all GPUs that can be opened.
    """

    name = "gpu"

    def __init__(self, visible: str | None, sys: str = "/sys", dev: str = "/dev") -> None:
        self._visible = visible
        self._sys = sys
        self._dev = dev
        self._gpus: list[_Gpu] = []

    def is_here(self) -> bool:
        return bool(_listed(self._sys))

    def open(self) -> Opened:
        """Find the job's GPUs. Raises UnreadError if there are none."""
        devices = visible_devices(self._sys, self._dev, self._visible)
        if not devices:
            raise UnreadError("the job has no GPU on this node")
        self._gpus = [_Gpu(number, device) for number, device in enumerate(devices)]
        header = {"gpus": [gpu.entry() for gpu in self._gpus], "driver": _driver(self._sys)}
        untold = [
            unread_record(name, "AMD's driver does not report it", gpu=gpu.number)
            for gpu in self._gpus
            for name in _NOT_TOLD
        ]
        return Opened(header, records=[*self.sample(), *untold])

    def sample(self) -> Sequence[Record]:
        return [line for gpu in self._gpus for line in gpu.sample()]


class _Gpu:
    """One GPU; `number` is its index among the job's GPUs."""

    def __init__(self, number: int, device: AmdDevice) -> None:
        self.number = number
        self._device = device
        self._energy = Integral()
        self._unread = Unread()

    def entry(self) -> Record:
        return {
            "gpu": self.number,
            "uuid": f"GPU-{self._device.unique_id}" if self._device.unique_id else None,
            "name": _text(f"{self._device.folder}/product_name") or "AMD GPU",
            "memory_bytes": _number_or_none(f"{self._device.folder}/mem_info_vram_total"),
            "mig": False,
            "energy_from_power": True,
        }

    def sample(self) -> list[Record]:
        """Return the GPU's line, and a line for each new read error."""
        record: dict[str, Any] = {"kind": "gpu", "at": time.monotonic(), "gpu": self.number}
        lines: list[Record] = [record]
        for name, (files, meaning) in QUANTITIES.items():
            try:
                record[name] = meaning(int(read_text(self._file(files))))
            except (OSError, ValueError, UnreadError) as error:
                lines += self._unread.report(name, why(error), gpu=self.number)
        if "power_w" in record:
            record["energy_j"] = self._energy.add(record["at"], record["power_w"])
        return lines

    def _file(self, patterns: Sequence[str]) -> str:
        for pattern in patterns:
            found = sorted(glob.glob(f"{glob.escape(self._device.folder)}/{pattern}"))
            if found:
                return found[0]
        raise UnreadError(f"no such file: {self._device.folder}/{patterns[0]}")


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
            rows = dict(
                line.split(None, 1) for line in read_text(f"{folder}/properties").splitlines()
            )
        except (OSError, ValueError):
            # An unreadable entry is another job's GPU.
            continue
        minor, unique_id = int(rows.get("drm_render_minor", 0)), int(rows.get("unique_id", 0))
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


def _driver(sys: str) -> str | None:
    """Return the version of the kernel module; None for the kernel's own module."""
    return _text(f"{sys}/module/amdgpu/version") or None


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
