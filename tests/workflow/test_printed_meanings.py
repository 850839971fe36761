"""A study of programs that print seconds, rates of one rank, or numbers of another rank."""

import csv
import json
from typing import Any

import pytest
from workspace import BIN, Workspace


def printing(script: str, **throughput: Any) -> dict[str, Any]:
    return {
        "command": f"bash -c '{script}'",
        "runtime": "native",
        "launcher": "plain",
        "independent": True,
        "throughput": {"pattern": r"([0-9.]+) ?(?:tokens/s|s/it|img/s)", **throughput},
        "scale": {"nodes": [1, 2], "repeats": 1},
        "resources": {"memory_per_rank": "100M", "time": "1m"},
    }


def test_speed_ups_of_what_programs_print(workspace: Workspace) -> None:
    last = "[ $RANK = $((WORLD_SIZE - 1)) ] && echo 64 tokens/s; true"
    # Unequal numbers of unequal ranks: rank 0 prints one more.
    each = "echo $((10 + 20 * RANK)) img/s; [ $RANK = 0 ] && echo 10 img/s; true"
    workspace.configure(
        {
            "seconds": printing("echo $((8 / WORLD_SIZE))s/it", **{"is": "seconds", "times": 64}),
            "last": printing(last, of="rank", rank="last", per="token"),
            "each": printing(each, of="rank", rank="all", per="image"),
            "mean": printing(each, rank="all", per="image"),
        }
    )
    status, output = workspace.snakemake()
    assert status == 0, output
    summary = json.loads((workspace.path / "results/local/summary.json").read_text())
    found = {one["experiment"]: one for one in summary["experiments"]}
    rates = {
        name: [point["throughput_samples_per_s"]["mean"] for point in one["points"]]
        for name, one in found.items()
    }
    assert rates["seconds"] == pytest.approx([8.0, 16.0])
    assert rates["last"] == pytest.approx([64.0, 128.0])
    assert rates["each"] == pytest.approx([10.0, 40.0])
    assert rates["mean"] == pytest.approx([10.0, 20.0])
    for name in ("seconds", "last"):
        point = found[name]["points"][-1]
        assert point["speed_up"]["mean"] == pytest.approx(2.0)
        assert point["efficiency"]["mean"] == pytest.approx(1.0)
    units = {"seconds": "samples", "last": "tokens", "each": "images", "mean": "images"}
    assert {name: one["unit"] for name, one in found.items()} == units
    with (workspace.path / "results/local/summary.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["quantity"] == "throughput"]
    assert {row["experiment"]: row["unit"] for row in rows} == {
        name: f"{unit}/s" for name, unit in units.items()
    }
    page = (workspace.path / "results/local/report.html").read_text()
    assert "1 node gives 64.0 tokens per second" in page and "Tokens/s" in page
    status, output = workspace.run(BIN / "argosy", "status", "--json")
    assert status == 0, output
    told = {
        run["experiment"]: (run["samples_per_s"], run["unit"]) for run in json.loads(output)["runs"]
    }
    assert told["each"][1] == "images/s"
