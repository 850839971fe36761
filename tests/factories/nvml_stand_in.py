"""A stand-in for the module pynvml and the GPUs behind it: it refuses as the real one does."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

TEXTS = {3: "Not Supported", 4: "Insufficient Permissions", 6: "Not Found", 15: "GPU is lost"}


class NVMLError(Exception):
    """Has its code in `value`, as the real one."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return TEXTS.get(self.value, f"Unknown Error {self.value}")


@dataclass
class FakeGpu:
    """One GPU or slice. `values` are by function; what is not in there is not supported."""

    uuid: str
    values: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    slices: "list[FakeGpu] | None" = None
    usable: bool = True
    asked: list[str] = field(default_factory=list)

    def ask(self, name: str) -> Any:
        self.asked.append(name)
        if name in self.errors:
            raise NVMLError(self.errors[name])
        if name not in self.values:
            raise NVMLError(3)
        return self.values[name]


def full_gpu(uuid: str, **values: Any) -> FakeGpu:
    """One that offers everything, as a data centre's does."""
    offered = {
        "Name": "NVIDIA H100 80GB HBM3",
        # With the half a GiB that the driver keeps, and without it.
        "MemoryInfo": SimpleNamespace(total=80 << 30, used=7 << 29),
        "MemoryInfo_v2": SimpleNamespace(total=80 << 30, used=3 << 30),
        "UtilizationRates": SimpleNamespace(gpu=42),
        "PowerUsage": 350_500,
        "TotalEnergyConsumption": 9_000_000,
        "ClockInfo": {1: 1980, 2: 2619},
        "Temperature": 55,
        "CurrentClocksThrottleReasons": 0x4 | 0x20,
        "PcieThroughput": {0: 300, 1: 500},
        "FieldValues": {138: 1000, 139: 2000},
    }
    return FakeGpu(uuid, {**offered, **values})


class FakeNvml:
    """What the agent uses of the module."""

    NVMLError = NVMLError
    NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION, NVML_ERROR_FUNCTION_NOT_FOUND = 3, 4, 13
    NVML_DEVICE_MIG_ENABLE = 1
    nvmlMemory_v2 = 0x2000028  # noqa: N815
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = 0, 1
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 138, 139

    def __init__(self, *gpus: FakeGpu) -> None:
        self.gpus = gpus

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "999.10.01"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:  # noqa: N802
        if not self.gpus[index].usable:
            raise NVMLError(4)
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu:  # noqa: N802
        known = [part for gpu in self.gpus for part in (gpu, *(gpu.slices or ()))]
        for gpu in known:
            if gpu.uuid == uuid:
                return gpu
        raise NVMLError(6)

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:  # noqa: N802
        return gpu.uuid

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> list[int]:  # noqa: N802
        if gpu.slices is None:
            raise NVMLError(3)
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: FakeGpu) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: FakeGpu, index: int) -> FakeGpu:  # noqa: N802
        if index >= len(gpu.slices or ()):
            raise NVMLError(6)
        assert gpu.slices
        return gpu.slices[index]

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, version: int = 0) -> Any:  # noqa: N802
        if version and "MemoryInfo_v2" not in gpu.values:
            raise NVMLError(self.NVML_ERROR_FUNCTION_NOT_FOUND)
        return gpu.ask("MemoryInfo_v2" if version else "MemoryInfo")

    def nvmlDeviceGetFieldValues(self, gpu: FakeGpu, fields: Any) -> list[Any]:  # noqa: N802
        (number, scope), *_ = fields
        assert scope == 0xFFFFFFFF, "all links together"
        if "FieldValues" not in gpu.values:
            return [SimpleNamespace(nvmlReturn=3)]
        value = SimpleNamespace(ullVal=gpu.values["FieldValues"][number])
        return [SimpleNamespace(nvmlReturn=0, value=value)]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvmlDeviceGet"):
            raise AttributeError(name)

        def ask(gpu: FakeGpu, *which: int) -> Any:
            value = gpu.ask(name[len("nvmlDeviceGet") :])
            return value[which[0]] if isinstance(value, dict) else value

        return ask
