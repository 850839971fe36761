"""Resource usage from synthetic telemetry; a partial sum never counts as total energy."""

from dataclasses import replace
from pathlib import Path

import pytest
from reports import studied
from study_files import completed

from argosy.report.summary.parts import Unread
from argosy.report.topics.usage import BOTH, GPUS, PROCESSORS, Usage, of_widest, unread, usage


def used(results: Path) -> tuple[Usage, list[Unread]]:
    with studied(results) as tables:
        [found] = usage(tables).values()
        return found, unread(tables)


def test_nodes_with_gpus(tmp_path: Path) -> None:
    run = completed(tmp_path, nodes=2)
    for node in range(2):
        run.telemetry(node, gpus=2, interval_s=0.25)
    found, missing = used(tmp_path)
    assert missing == []
    assert found.cpu_busy == pytest.approx(0.5)
    assert found.memory_bytes == 1010
    assert found.network_bytes_per_s == pytest.approx(3e6)
    assert found.gpu_busy == pytest.approx(0.8)
    assert found.gpu_memory_bytes == 5001
    assert (found.cpu_j, found.gpu_j) == (2000, 12000)
    assert (found.power_w, found.power_of) == (pytest.approx(2 * (100 + 2 * 300)), BOTH)
    # Steps of 0.1 s, of 32 samples in each of two ranks.
    assert found.j_per_sample == pytest.approx(1400 / (2 * 32 / 0.1))


def test_what_one_node_cannot_read_is_known_of_none(tmp_path: Path) -> None:
    run = completed(tmp_path, nodes=2)
    run.telemetry(0, interval_s=0.25)
    run.telemetry(1, interval_s=0.25, cpu_energy_j="permission denied")
    found, missing = used(tmp_path)
    assert (found.cpu_j, found.gpu_j, found.power_w, found.j_per_sample) == (None,) * 4
    assert missing == [Unread("cpu_energy_j", "permission denied", 1)]


def test_a_node_without_any_telemetry_leaves_no_energy(tmp_path: Path) -> None:
    run = completed(tmp_path, nodes=2)
    run.telemetry(0)
    found, _ = used(tmp_path)
    assert found.cpu_j is None
    assert found.cpu_busy == pytest.approx(0.5)


def test_a_run_without_telemetry_has_no_usage(tmp_path: Path) -> None:
    completed(tmp_path)
    with studied(tmp_path) as tables:
        assert usage(tables) == {}


def test_the_power_of_the_steady_state_is_not_that_of_the_start(tmp_path: Path) -> None:
    """The steps begin after 2 s and are steady from 7 s to 8 s."""
    run = completed(tmp_path)
    run.telemetry(0, interval_s=0.25, cpu_j=lambda second: min(7.0, second) * 20 + second * 100)
    found, _ = used(tmp_path)
    assert found.cpu_j == pytest.approx(7 * 20 + 10 * 100)
    assert (found.power_w, found.power_of) == (pytest.approx(100), PROCESSORS)
    assert found.j_per_sample == pytest.approx(100 / 320)


def test_readings_farther_apart_than_the_steady_state_tell_no_power(tmp_path: Path) -> None:
    completed(tmp_path).telemetry(0)
    found, _ = used(tmp_path)
    assert found.cpu_j == 1000
    assert (found.power_w, found.power_of, found.j_per_sample) == (None, None, None)


def test_processors_alone_are_no_power_of_a_node_with_gpus(tmp_path: Path) -> None:
    run = completed(tmp_path)
    run.telemetry(0, gpus=2, interval_s=0.25)
    path = run.records("100.0") / "telemetry-0.jsonl"
    lines = [line for line in path.read_text().splitlines() if '"energy_j"' not in line]
    path.write_text("\n".join(lines) + "\n")
    found, _ = used(tmp_path)
    assert found.cpu_j == 1000
    assert (found.gpu_j, found.power_w, found.power_of, found.j_per_sample) == (None,) * 4


def test_gpus_alone_say_so(tmp_path: Path) -> None:
    completed(tmp_path).telemetry(0, gpus=2, interval_s=0.25, cpu_energy_j="permission denied")
    found, _ = used(tmp_path)
    assert (found.power_w, found.power_of) == (pytest.approx(600), GPUS)


def test_one_number_is_of_one_kind_of_thing(tmp_path: Path) -> None:
    completed(tmp_path).telemetry(0, gpus=1, interval_s=0.25)
    whole, _ = used(tmp_path)
    gpus = replace(whole, power_w=300.0, power_of=GPUS)
    none = replace(whole, power_w=None, power_of=None)
    assert of_widest([gpus, whole, none]) == [whole]
    assert of_widest([gpus, none]) == [gpus]
    assert of_widest([none]) == []
