"""Tables of the agents' samples; unreadable counters are listed, and are not zero."""

import json
from pathlib import Path

import pytest
from study_files import STARTED, RunFiles, completed, plan

from argosy.results import collect
from argosy.results.tables import fetch, open_tables

HEADER = {
    "kind": "header",
    "schema_version": 2,
    "node": 0,
    "host": "host0",
    "unix": STARTED + 1,
    "monotonic": 500.0,
    "interval_s": 1.0,
    "gpus": [
        {"gpu": 0, "uuid": "GPU-1", "name": "H200", "memory_bytes": 1 << 37, "mig": False,
         "energy_from_power": False}
    ],
    "driver": "570.1",
    "unread": {"cpu_energy_j": "permission denied: /sys/class/powercap/intel-rapl:0/energy_uj"},
}  # fmt: skip


def write(run: RunFiles, node: int, *lines: object, attempt: str = "100.0") -> Path:
    path = run.records(attempt) / f"telemetry-{node}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def node_sample(at: float, **values: float) -> dict[str, object]:
    return {"kind": "node", "at": at, "cpus": 8, **values}


def test_samples_of_a_node_and_its_gpu(tmp_path: Path) -> None:
    results = tmp_path / "site"
    run = completed(results)
    gpu = {"kind": "gpu", "at": 501.5, "gpu": 0, "power_w": 310.5, "throttle_reasons": ["sw_power"]}
    lost = {"kind": "unread", "at": 502.0, "gpu": 0, "what": "energy_j", "why": "not supported"}
    samples = node_sample(501.0, cpu_s=0.0), node_sample(502.0, cpu_s=3.5, memory_used_bytes=77)
    path = write(run, 0, HEADER, *samples, gpu, lost)
    with path.open("a") as file:
        file.write('{"kind": "node", "at": 503.0, "cpu')
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        rows = fetch(
            tables,
            "SELECT node, gpu, at_s, cpu_s, memory_used_bytes, cpu_energy_j, power_w, throttle_reasons "
            "FROM telemetry",
        )
        counted = fetch(tables, "SELECT unreadable_records FROM runs")
        unread = fetch(tables, "SELECT node, gpu, what, why FROM unread")
        gpus = fetch(tables, "SELECT gpu, uuid, name, memory_bytes, mig, driver FROM gpus")
    assert [tuple(row.values()) for row in rows] == [
        (0, None, 2.0, 0.0, None, None, None, None),
        (0, None, 3.0, 3.5, 77, None, None, None),
        (0, 0, 2.5, None, None, None, 310.5, ["sw_power"]),
    ]
    # The truncated sample.
    assert counted == [{"unreadable_records": 1}]
    assert [tuple(row.values()) for row in unread] == [
        (0, 0, "energy_j", "not supported"),
        (0, None, "cpu_energy_j", HEADER["unread"]["cpu_energy_j"]),  # type: ignore[index]
    ]
    assert gpus == [
        {"gpu": 0, "uuid": "GPU-1", "name": "H200", "memory_bytes": 1 << 37, "mig": False,
         "driver": "570.1"}
    ]  # fmt: skip


def test_all_jobs_that_a_run_is_made_of_have_their_samples(tmp_path: Path) -> None:
    results = tmp_path / "site"
    run = plan(results)
    run.claim("7.0")
    run.execute("7.0", state="interrupted")
    run.steps("7.0", steps=12)
    run.claim("7.1", continues=("7.0", 10))
    run.execute("7.1")
    run.steps("7.1", first_step=10)
    for attempt, driver in (("7.0", "570.1"), ("7.1", "571.0")):
        header = {**HEADER, "driver": driver}
        write(run, 0, header, node_sample(501.0, cpu_s=0.0), attempt=attempt)
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        rows = fetch(tables, "SELECT attempt, cpu_s FROM telemetry ORDER BY ALL")
        gpus = fetch(tables, "SELECT node, gpu, driver FROM gpus")
    assert [row["attempt"] for row in rows] == ["7.0", "7.1"]
    assert gpus == [{"node": 0, "gpu": 0, "driver": "571.0"}]


@pytest.mark.parametrize(
    "first", ["", "garbage", "[1]", '{"kind": "node", "at": 501.0, "cpus": 4}']
)
def test_a_file_without_its_header(tmp_path: Path, first: str) -> None:
    results = tmp_path / "site"
    run = completed(results)
    path = run.records("100.0") / "telemetry-0.jsonl"
    path.write_text(f"{first}\n{json.dumps(node_sample(502.0, cpu_s=1.0))}\n")
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        rows = fetch(tables, "SELECT at_s, cpu_s FROM telemetry WHERE cpu_s IS NOT NULL")
        assert fetch(tables, "FROM gpus") == []
    assert rows == [{"at_s": None, "cpu_s": 1.0}]
