"""NVIDIA GPUs, with a stand-in for NVML that returns the same errors."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvml_stand_in import FakeGpu, FakeNvml, full_gpu

from argosy.runtime.agent.telemetry import gpu as gpu_module
from argosy.runtime.agent.telemetry.gpu import SLOW, GpuSource
from argosy.runtime.agent.telemetry.nvidia import find_gpus, load_nvml, visible_devices
from argosy.runtime.agent.telemetry.source import UnreadError


def source(*gpus: FakeGpu, visible: str | None = None) -> GpuSource:
    return GpuSource(lambda: find_gpus("", visible, load=lambda _: FakeNvml(*gpus)))


def of_kind(records: Any, kind: str) -> list[Any]:
    return [record for record in records if record["kind"] == kind]


def uuids(nvml: FakeNvml, visible: str | None) -> list[str]:
    return [device.handle.uuid for device in visible_devices(nvml, visible)]


# ---- what is read


def test_the_header_says_which_gpus_there_are() -> None:
    header, _ = source(full_gpu("GPU-a")).open()
    assert header["driver"] == "999.10.01"
    assert header["gpus"] == [
        {
            "gpu": 0,
            "uuid": "GPU-a",
            "name": "NVIDIA H100 80GB HBM3",
            "memory_bytes": 80 << 30,
            "mig": False,
            "energy_from_power": False,
        }
    ]


def test_values_are_in_the_units_of_their_names() -> None:
    gpu = full_gpu("GPU-a")
    reader = source(gpu)
    reader.open()
    gpu.values["TotalEnergyConsumption"] += 2500
    gpu.values["FieldValues"] = {138: 1003, 139: 2001}
    (line,) = reader.sample()
    assert line.pop("at") > 0
    assert line == {
        "kind": "gpu",
        "gpu": 0,
        "utilisation": 0.42,
        "memory_used_bytes": 3 << 30,
        "power_w": 350.5,
        "energy_j": 2.5,
        "sm_clock_hz": 1_980_000_000,
        "memory_clock_hz": 2_619_000_000,
        "temperature_c": 55,
        "throttle_reasons": ["sw_power_cap", "sw_thermal_slowdown"],
        "pcie_received_bytes_per_s": 500_000,
        "pcie_sent_bytes_per_s": 300_000,
        "nvlink_received_bytes": 1024,
        "nvlink_sent_bytes": 3072,
    }


def test_counters_begin_with_nothing() -> None:
    (line,) = of_kind(source(full_gpu("GPU-a")).open()[1], "gpu")
    assert line["energy_j"] == line["nvlink_received_bytes"] == line["nvlink_sent_bytes"] == 0


def test_what_takes_long_is_asked_of_one_gpu_at_a_time() -> None:
    reader = source(full_gpu("GPU-a"), full_gpu("GPU-b"), full_gpu("GPU-c"))
    first = of_kind(reader.open()[1], "gpu")
    assert not any(line.keys() & {*SLOW} for line in first)
    turns = [[n for n, line in enumerate(reader.sample()) if SLOW[0] in line] for _ in range(4)]
    assert turns == [[0], [1], [2], [0]]


# ---- what is not offered


def test_what_a_gpu_does_not_offer_is_named_once_and_not_asked_again() -> None:
    gpu = full_gpu("GPU-a")
    del gpu.values["FieldValues"], gpu.values["Temperature"]
    reader = source(full_gpu("GPU-b"), gpu)
    named = of_kind(reader.open()[1], "unread")
    assert {(line["gpu"], line["what"], line["why"]) for line in named} == {
        (1, "temperature_c", "Not Supported"),
        (1, "nvlink_received_bytes", "Not Supported"),
        (1, "nvlink_sent_bytes", "Not Supported"),
    }
    lines = reader.sample()
    assert not of_kind(lines, "unread")
    assert "temperature_c" not in lines[1]
    assert "temperature_c" in lines[0]
    assert gpu.asked.count("Temperature") == 1


def test_an_old_driver_tells_memory_with_its_own() -> None:
    gpu = full_gpu("GPU-a")
    del gpu.values["MemoryInfo_v2"]
    _, records = source(gpu).open()
    assert not of_kind(records, "unread")
    assert records[0]["memory_used_bytes"] == 7 << 29


def test_an_error_that_passes_leaves_out_what_it_was_about() -> None:
    gpu = full_gpu("GPU-a")
    reader = source(gpu)
    reader.open()
    gpu.errors["PowerUsage"] = 15
    line, named = reader.sample()
    assert "power_w" not in line and "utilisation" in line
    assert (named["gpu"], named["what"], named["why"]) == (0, "power_w", "GPU is lost")
    assert len(reader.sample()) == 1
    del gpu.errors["PowerUsage"]
    assert reader.sample()[0]["power_w"] == 350.5


def test_energy_comes_from_power_where_nothing_counts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 101.0, 103.0])
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr(gpu_module, "time", clock)
    gpu = full_gpu("GPU-a", PowerUsage=100_000)
    del gpu.values["TotalEnergyConsumption"]
    # Lines about missing values take the time as well.
    monkeypatch.setattr(gpu_module, "unread_record", lambda *_, **__: {"kind": "unread"})
    reader = source(gpu)
    header, records = reader.open()
    assert header["gpus"][0]["energy_from_power"] is True
    assert of_kind(records, "gpu")[0]["energy_j"] == 0
    gpu.values["PowerUsage"] = 300_000
    assert reader.sample()[0]["energy_j"] == pytest.approx(200)
    assert reader.sample()[0]["energy_j"] == pytest.approx(800)


def test_a_slice_has_its_memory_and_says_what_it_has_not() -> None:
    part = FakeGpu("MIG-1", {"MemoryInfo": SimpleNamespace(total=20 << 30, used=1 << 30)})
    reader = source(FakeGpu("GPU-a", slices=[part]))
    header, records = reader.open()
    (entry,) = header["gpus"]
    assert (entry["uuid"], entry["memory_bytes"], entry["mig"]) == ("MIG-1", 20 << 30, True)
    assert entry["name"] is None
    assert not entry["energy_from_power"]
    named = {line["what"]: line["why"] for line in of_kind(records, "unread")}
    assert {"utilisation", "power_w", "energy_j"} <= named.keys()
    assert {*named.values()} == {"a MIG slice has none of its own, only the whole GPU"}
    (line,) = reader.sample()
    assert line.keys() == {"kind", "at", "gpu", "memory_used_bytes"}


# ---- which GPUs


def test_cuda_visible_devices_chooses_and_orders() -> None:
    nvml = FakeNvml(*(full_gpu(f"GPU-{name}") for name in ("aa", "ab", "cc")))
    assert uuids(nvml, None) == ["GPU-aa", "GPU-ab", "GPU-cc"]
    assert uuids(nvml, "2,0") == ["GPU-cc", "GPU-aa"]
    assert uuids(nvml, " GPU-ab , 2") == ["GPU-ab", "GPU-cc"]
    assert uuids(nvml, "GPU-c") == ["GPU-cc"]


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles", "7,0", "GPU-zz", "MIG-zz"])
def test_what_is_not_there_hides_all_that_follows(visible: str) -> None:
    nvml = FakeNvml(full_gpu("GPU-aa"))
    assert uuids(nvml, visible) == []
    assert uuids(nvml, f"0,{visible},0") == ["GPU-aa"]


def test_gpus_of_other_jobs_have_no_number() -> None:
    others = full_gpu("GPU-aa")
    others.usable = False
    assert uuids(FakeNvml(others, full_gpu("GPU-bb")), "0") == ["GPU-bb"]


def test_slices_are_found_by_their_names_and_by_their_gpu() -> None:
    slices = [FakeGpu("MIG-1"), FakeGpu("MIG-2")]
    nvml = FakeNvml(full_gpu("GPU-aa"), FakeGpu("GPU-bb", slices=slices))
    assert uuids(nvml, "MIG-2") == ["MIG-2"]
    assert uuids(nvml, None) == ["GPU-aa", "MIG-1", "MIG-2"]
    assert uuids(nvml, "1") == ["MIG-1", "MIG-2"]


def test_a_job_without_gpus_on_a_node_that_has_some() -> None:
    with pytest.raises(UnreadError, match="the job has no GPU on this node"):
        source(full_gpu("GPU-aa"), visible="").open()


# ---- the module


def driver(tmp_path: Path) -> str:
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    (tmp_path / "driver/nvidia/version").write_text("NVRM version\n")
    return str(tmp_path)


def test_without_a_driver_the_module_is_not_even_loaded(tmp_path: Path) -> None:
    module = tmp_path / "pynvml.py"
    module.write_text("raise AssertionError\n")
    with pytest.raises(UnreadError, match="there is no NVIDIA driver"):
        load_nvml(str(module), str(tmp_path))


def test_the_module_is_the_file_that_the_agent_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    module = tmp_path / "pynvml.py"
    module.write_text(
        "import sys\nbegun = []\nassert sys.modules[__name__].begun is begun\n"
        "def nvmlInit(): begun.append('yes')\n"
    )
    assert load_nvml(str(module), driver(tmp_path)).begun == ["yes"]


@pytest.mark.parametrize("path", ["", "/nowhere/pynvml.py"])
def test_a_module_that_is_not_there_is_a_reason(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(UnreadError, match="pynvml cannot be loaded: "):
        load_nvml(path, driver(tmp_path))


def test_the_real_module_has_what_is_asked_of_it() -> None:
    pynvml: Any = pytest.importorskip("pynvml")
    for name in (each for each in vars(FakeNvml) if each.startswith(("nvml", "NVML_"))):
        ours, real = getattr(FakeNvml, name), getattr(pynvml, name)
        assert callable(real) if callable(ours) else real == ours
    for name in full_gpu("GPU-a").values:
        assert callable(getattr(pynvml, f"nvmlDeviceGet{name.removesuffix('_v2')}"))
    assert str(pynvml.NVMLError(3)) == "Not Supported"
    assert pynvml.NVMLError(3).value == 3
