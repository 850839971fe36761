"""The report describes only the methods that it used."""

import json
from pathlib import Path

from reports import summarised
from study_files import completed, plan, sample_study

from argosy.report.topics import methods


def test_a_study_of_repeats_and_sizes_has_intervals_and_laws(tmp_path: Path) -> None:
    results = tmp_path / "site"
    sample_study(results)
    said = " ".join(methods(summarised(results)))
    for method in ("slowest rank", "steady", "Student's t", "Welch's", "Their product", "Laws are"):
        assert method in said, method
    assert "Base of digits-mlp, its size with the fewest ranks: 1 node, 2 ranks." in said


def test_a_single_run_has_neither(tmp_path: Path) -> None:
    results = tmp_path / "site"
    completed(results)
    said = " ".join(methods(summarised(results)))
    assert "1 size had a single run" in said
    for method in ("Student's t", "Welch", "growth in ranks", "Laws are", "printed", "missing"):
        assert method not in said, method


def test_printed_throughputs_and_missing_ranks_are_told(tmp_path: Path) -> None:
    results = tmp_path / "site"
    run = plan(results, nodes=2)
    run.execute()
    run.printed([100.0, 110.0])
    without = plan(results, nodes=2, repeat=2)
    without.execute()
    without.steps(ranks=[0])
    said = " ".join(methods(summarised(results)))
    assert "The programs of 1 run recorded no steps" in said
    assert "records of their ranks are missing: 1 run." in said


def test_independent_ranks_are_told(tmp_path: Path) -> None:
    results = tmp_path / "site"
    run = completed(results, nodes=2)
    asked = run.path / "run.json"
    asked.write_text(json.dumps({**json.loads(asked.read_text()), "independent": True}))
    said = " ".join(methods(summarised(results)))
    assert "The ranks of digits are independent of each other, as configured" in said


def test_the_order_of_submission_is_told_with_its_seed(tmp_path: Path) -> None:
    results = tmp_path / "site"
    for repeat in (1, 2):
        run = completed(results, repeat=repeat)
        path = run.path / "provenance.json"
        told = json.loads(path.read_text()) | {"submission": {"order": "random", "seed": 77}}
        path.write_text(json.dumps(told))
    said = " ".join(methods(summarised(results)))
    assert "of a repeat in random order (seed 77)" in said


def test_jobs_are_shared_by_runs_that_asked_for_it_and_by_no_others(tmp_path: Path) -> None:
    """Equal job numbers alone prove nothing, since each site counts from 1."""
    results = tmp_path / "site"
    runs = [completed(results, nodes=nodes) for nodes in (1, 2)]
    said = " ".join(methods(summarised(results)))
    assert "number of independent jobs" in said and "contained several runs" not in said
    for run in runs:
        path = run.path / "provenance.json"
        told = json.loads(path.read_text()) | {
            "experiment": {"resources": {"same_allocation": True}}
        }
        path.write_text(json.dumps(told))
    said = " ".join(methods(summarised(results)))
    assert "1 job contained several runs each" in said and "independent jobs" not in said


def blocks(results: Path, repeats: int, apart_s: float) -> str:
    """Return the methods for two sizes whose repeats start `apart_s` seconds after each other."""
    for repeat in range(1, repeats + 1):
        for nodes in (1, 2):
            run = completed(results, 0.1 / nodes + 0.001 * repeat, nodes=nodes, repeat=repeat)
            run.execute(started=1e9 + apart_s * repeat + nodes)
            path = run.path / "provenance.json"
            told = json.loads(path.read_text()) | {"submission": {"order": "random", "seed": 7}}
            path.write_text(json.dumps(told))
    return " ".join(methods(summarised(results)))


def test_pairs_are_told_where_repeats_were_blocks_by_their_starts(tmp_path: Path) -> None:
    said = blocks(tmp_path / "site", 6, apart_s=100)
    assert "started in that order." in said and "pairs the runs" in said and "Welch" not in said
    said = blocks(tmp_path / "few", 3, apart_s=100)
    assert "started in that order." in said and "pairs the runs" not in said and "Welch" in said
    said = blocks(tmp_path / "mixed", 6, apart_s=0)
    assert (
        "They did not start in that order" in said
        and "pairs the runs" not in said
        and "Welch" in said
    )


def test_where_nothing_was_measured_nothing_was_made(tmp_path: Path) -> None:
    results = tmp_path / "site"
    plan(results)
    assert methods(summarised(results)) == []


def test_a_program_that_nobody_watches_is_named(tmp_path: Path) -> None:
    results = tmp_path / "site"
    run = plan(results, "own", command="mytool", native=True)
    run.execute()
    run.steps()
    contained = plan(results, "contained", command="mytool")
    contained.execute()
    contained.steps()
    said = " ".join(methods(summarised(results)))
    assert "Argosy watches no program file of own" in said
