"""AMD GPUs of a job, from stand-ins of their driver's files."""

from pathlib import Path
from typing import Any

import pytest

from argosy.runtime.agent.telemetry.amd import find_gpus, is_here, visible_devices
from argosy.runtime.agent.telemetry.gpu import GpuSource
from argosy.runtime.agent.telemetry.source import UnreadError


class Node:
    """A node like LUMI's: a processor, and GPUs of which the job may open some."""

    def __init__(self, folder: Path, gpus: int) -> None:
        self.sys, self.dev = folder / "sys", folder / "dev"
        (self.dev / "dri").mkdir(parents=True)
        self.topology(0, "cpu_cores_count 64\nsimd_count 0\ndrm_render_minor 0\n")
        for gpu in range(gpus):
            minor = 128 + gpu
            # The kernel orders them by number: 10 comes after 2.
            text = f"cpu_cores_count 0\nsimd_count 440\ndrm_render_minor {minor}\nunique_id {gpu + 1}\n"
            self.topology(gpu + 1, text)
            (self.dev / f"dri/renderD{minor}").touch()
            self.write(gpu, "gpu_busy_percent", 75)
            self.write(gpu, "mem_info_vram_used", 1 << 30)
            self.write(gpu, "mem_info_vram_total", 64 << 30)
            self.write(gpu, "hwmon/hwmon3/power1_average", 250_000_000)
            self.write(gpu, "hwmon/hwmon3/temp1_input", 41_000)
            self.write(gpu, "hwmon/hwmon3/freq1_input", 1_700_000_000)
            self.write(gpu, "hwmon/hwmon3/freq2_input", 1_600_000_000)

    def topology(self, number: int, text: str) -> None:
        folder = self.sys / f"class/kfd/kfd/topology/nodes/{number}"
        folder.mkdir(parents=True)
        (folder / "properties").write_text(text)

    def write(self, gpu: int, name: str, value: object) -> None:
        path = self.sys / f"class/drm/renderD{128 + gpu}/device" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")

    def hide(self, gpu: int) -> None:
        """The job's control group forbids the device."""
        (self.dev / f"dri/renderD{128 + gpu}").unlink()

    def source(self, visible: str | None = None) -> GpuSource:
        return GpuSource(lambda: find_gpus(visible, str(self.sys), str(self.dev)))

    def seen(self, visible: str | None) -> list[int]:
        """The numbers of the GPUs that a job has."""
        found = visible_devices(str(self.sys), str(self.dev), visible)
        return [int(device.unique_id, 16) - 1 for device in found]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, 12)


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        (None, [*range(12)]),
        ("0,1", [0, 1]),
        ("10, 2", [10, 2]),
        ("GPU-0000000000000003,0", [2, 0]),
        ("1,GPU-ffffffffffffffff,0", [1]),
        ("1,1,0", [1]),
        ("40", []),
        ("", []),
    ],
)
def test_which_gpus_are_the_jobs(node: Node, visible: str | None, gpus: list[int]) -> None:
    assert node.seen(visible) == gpus


def test_places_count_among_those_that_can_be_opened(node: Node) -> None:
    for gpu in range(4):
        node.hide(gpu)
    assert node.seen("0,1") == [4, 5]
    assert node.seen(None) == [*range(4, 12)]


def lines_of(source: GpuSource) -> list[Any]:
    return [dict(line) for line in source.sample()]


def test_what_a_sample_says(node: Node) -> None:
    source = node.source("3")
    assert is_here(str(node.sys))
    header, records = source.open()
    assert header == {
        "driver": None,
        "gpus": [
            {
                "gpu": 0,
                "uuid": "GPU-0000000000000004",
                "name": "AMD GPU",
                "memory_bytes": 64 << 30,
                "mig": False,
                "energy_from_power": True,
            }
        ],
    }
    unread = [line for line in records if line["kind"] == "unread"]
    assert [(line["what"], line["why"]) for line in unread] == [
        ("throttle_reasons", "AMD's driver does not report it")
    ]
    [line] = lines_of(source)
    at, energy = line.pop("at"), line.pop("energy_j")
    assert at > 0
    assert 0 < energy < 250
    assert line == {
        "kind": "gpu",
        "gpu": 0,
        "utilisation": 0.75,
        "memory_used_bytes": 1 << 30,
        "power_w": 250.0,
        "sm_clock_hz": 1_700_000_000,
        "memory_clock_hz": 1_600_000_000,
        "temperature_c": 41.0,
    }


def test_what_cannot_be_read_is_said_once(node: Node) -> None:
    source = node.source("0")
    node.write(0, "product_name", "AMD INSTINCT MI250X")
    node.write(0, "gpu_busy_percent", "no number")
    power = node.sys / "class/drm/renderD128/device/hwmon/hwmon3/power1_average"
    power.rename(power.with_name("power1_input"))
    header, records = source.open()
    assert header["gpus"][0]["name"] == "AMD INSTINCT MI250X"
    assert {line["what"] for line in records if line["kind"] == "unread"} == {
        "utilisation",
        "throttle_reasons",
    }
    [line] = lines_of(source)
    assert "utilisation" not in line
    assert line["power_w"] == 250.0
    power.with_name("power1_input").unlink()
    line, unread = lines_of(source)
    assert unread["what"] == "power_w"
    assert "no such file" in unread["why"]
    assert not {"power_w", "energy_j"} & {*line}
    assert len(lines_of(source)) == 1


def test_where_there_is_none(tmp_path: Path) -> None:
    node = Node(tmp_path, 0)
    assert not is_here(str(node.sys))
    with pytest.raises(UnreadError, match="the job has no GPU on this node"):
        node.source().open()


def test_a_part_of_the_list_that_the_job_may_not_see(node: Node) -> None:
    (node.sys / "class/kfd/kfd/topology/nodes/1/properties").unlink()
    assert node.seen("0") == [1]
