"""What runs used, by hand-made telemetry; a part of an energy is never taken for all of it."""

from pathlib import Path

import pytest
from study_files import completed

from argosy.analysis.usage import Unread, Usage, unread, usage
from argosy.results import collect
from argosy.results.tables import open_tables


def used(results: Path) -> tuple[Usage, list[Unread]]:
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        [found] = usage(tables).values()
        return found, unread(tables)


def test_nodes_with_gpus(tmp_path: Path) -> None:
    run = completed(tmp_path, nodes=2)
    for node in range(2):
        run.telemetry(node, gpus=2)
    found, missing = used(tmp_path)
    assert missing == []
    assert found.cpu_busy == pytest.approx(0.5)
    assert found.memory_bytes == 1010
    assert found.network_bytes_per_s == pytest.approx(3e6)
    assert found.gpu_busy == pytest.approx(0.8)
    assert found.gpu_memory_bytes == 5001
    assert (found.cpu_j, found.gpu_j) == (2000, 12000)
    assert found.energy_j == 14000
    # 15 steps of 32 samples in each of two ranks.
    assert found.j_per_sample == pytest.approx(14000 / (2 * 15 * 32))


def test_what_one_node_cannot_read_is_known_of_none(tmp_path: Path) -> None:
    run = completed(tmp_path, nodes=2)
    run.telemetry(0)
    run.telemetry(1, cpu_energy_j="permission denied")
    found, missing = used(tmp_path)
    assert (found.cpu_j, found.gpu_j, found.energy_j, found.j_per_sample) == (None,) * 4
    assert missing == [Unread("cpu_energy_j", "permission denied", 1)]


def test_a_node_without_any_telemetry_leaves_no_energy(tmp_path: Path) -> None:
    run = completed(tmp_path, nodes=2)
    run.telemetry(0)
    found, _ = used(tmp_path)
    assert found.cpu_j is None
    assert found.cpu_busy == pytest.approx(0.5)


def test_a_run_without_telemetry_has_no_usage(tmp_path: Path) -> None:
    completed(tmp_path)
    collect(tmp_path, tmp_path / "tables")
    with open_tables(tmp_path / "tables") as tables:
        assert usage(tables) == {}
