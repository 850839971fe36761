"""NVIDIA's management library, by its Python module pynvml, and which GPUs the job may use.

https://docs.nvidia.com/deploy/nvml-api
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from typing import Any, Sequence

from .reading import UnreadError


@dataclass(frozen=True)
class Device:
    """A GPU, or a slice of one that is split by MIG; `handle` is NVML's."""

    handle: Any
    mig: bool


def load_nvml(path: str, proc: str = "/proc") -> Any:
    """Return the module, ready to be asked.

    Args:
        path: of pynvml.py; empty: wherever Python finds it.

    Raises:
        UnreadError: the node has no driver, or the module is not there.
        Exception: what the module raises in a Python that is too old for it, or NVMLError.
    """
    # The module takes a tenth of a second to load, which nodes without GPUs shall not spend.
    if not os.path.exists(f"{proc}/driver/nvidia/version"):
        raise UnreadError("there is no NVIDIA driver")
    try:
        nvml = _load_file(path) if path else importlib.import_module("pynvml")
    except ImportError as error:
        raise UnreadError(f"pynvml cannot be loaded: {error}") from None
    nvml.nvmlInit()
    return nvml


def visible_devices(nvml: Any, visible: str | None) -> list[Device]:
    """Return the devices in the order in which CUDA numbers them.

    CUDA passes over what is not there together with all that is named after it, and so is done here:
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars

    Args:
        visible: the value of CUDA_VISIBLE_DEVICES; None: all that can be opened from here.
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


def _load_file(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("pynvml", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    # It looks for itself there while it is loaded.
    sys.modules["pynvml"] = module
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        raise ImportError(f"{path}: {error.strerror}") from None
    return module


def _usable_gpus(nvml: Any) -> list[Any]:
    """Return handles in the order of the PCI bus. GPUs of other jobs are counted but cannot be opened."""
    handles = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handles.append(nvml.nvmlDeviceGetHandleByIndex(index))
        except nvml.NVMLError:
            continue
    return handles


def _parts(nvml: Any, gpu: Any) -> list[Device]:
    """Return the GPU itself, or its slices if it is split."""
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
    """Return what one word of CUDA_VISIBLE_DEVICES stands for: an index, a UUID or the beginning of one."""
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
