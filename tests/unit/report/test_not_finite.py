"""A finding names the run, rank and time of a loss that is NaN or infinite."""

import json
from pathlib import Path

from reports import reported
from study_files import STARTED, RunFiles, completed


def told(results: Path) -> tuple[str, list[list[dict[str, object]]]]:
    files = reported(results)
    runs = json.loads(files.json.read_text())["runs"]
    return " ".join(files.html.read_text().split()), [run["not_finite"] for run in runs]


def with_printed_loss(run: RunFiles, rank: int, text: str, after_s: float) -> None:
    path = run.records("100.0") / "node-0.json"
    status = json.loads(path.read_text())
    loss = {"text": text, "at": STARTED + after_s}
    status["ranks"] = [
        {"rank": 0, "local_rank": 0, "not_finite": None},
        {"rank": rank, "local_rank": 1, "not_finite": loss},
    ]
    path.write_text(json.dumps(status))


def test_a_recorded_loss_is_told_with_its_rank_step_and_time(tmp_path: Path) -> None:
    run = completed(
        tmp_path / "site", metrics={"loss": "nan", "test_accuracy": 0.5, "note": "nano"}
    )
    text, [[found]] = told(tmp_path / "site")
    assert (found["name"], found["rank"], found["step"]) == ("loss", 0, 14)
    said = f"{run.run_id}: Loss is nan on rank 0, from step 14 on, 8.0 s after the start."
    assert f"<li>{said}</li>" in text
    assert f"<p>{said.partition(': ')[2]}</p>" in text


def test_a_printed_loss_is_told_with_its_line(tmp_path: Path) -> None:
    run = completed(tmp_path / "site", ranks_per_node=2)
    with_printed_loss(run, 1, "step 12 loss: nan", 65.0)
    text, [[found]] = told(tmp_path / "site")
    assert (found["rank"], found["at_s"], found["is_printed"]) == (1, 65.0, True)
    assert "A loss is not finite (step 12 loss: nan) on rank 1, from step 14 on, 1 min 05 s" in text


def test_runs_whose_metrics_are_finite_have_no_finding(tmp_path: Path) -> None:
    completed(tmp_path / "site", metrics={"loss": 0.1, "note": "informed"})
    text, found = told(tmp_path / "site")
    assert found == [[]]
    assert "not finite" not in text


def test_of_many_runs_some_are_named(tmp_path: Path) -> None:
    for repeat in range(1, 7):
        completed(tmp_path / "site", repeat=repeat, metrics={"loss": "inf"})
    text, found = told(tmp_path / "site")
    assert len(found) == 6
    assert "The same happened in 2 more runs" in text
