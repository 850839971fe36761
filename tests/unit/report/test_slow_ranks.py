"""Slow ranks and nodes, found from the tables."""

from pathlib import Path

import pytest
from step_files import rows, write_rows
from study_files import RunFiles, plan

from argosy.report.runs import stragglers as module
from argosy.report.runs.stragglers import Straggler
from argosy.report.runs.study_tables import step_findings
from argosy.results import collect
from argosy.results.tables import open_tables


def made(results: Path, slow: dict[int, float], repeat: int = 1) -> RunFiles:
    """Forty steps of four nodes with two ranks, all waiting for the slowest: `slow` ranks by factor."""
    run = plan(results, nodes=4, ranks_per_node=2, repeat=repeat)
    run.execute()
    for rank in range(run.ranks):
        own_s = 0.1 * slow.get(rank, 1.0)
        step_s = 0.1 * max(slow.values(), default=1.0) + 0.01
        shares = {"backward": own_s / step_s, "communication": 1 - own_s / step_s}
        run.steps(step_s=step_s, warm_up_s=step_s, steps=40, phases=shares, ranks=[rank])
    return run


def named(results: Path) -> dict[str, list[Straggler]]:
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        found = step_findings(tables, results / "tables").stragglers
        return {run_id: named for (_, run_id), named in found.items()}


def test_a_slow_rank_and_a_slow_node_in_runs_of_their_own(tmp_path: Path) -> None:
    made(tmp_path, {})
    rank = made(tmp_path, {5: 1.3}, repeat=2)
    node = made(tmp_path, {2: 1.2, 3: 1.2}, repeat=3)
    found = named(tmp_path)
    assert set(found) == {rank.run_id, node.run_id}
    [of_rank], [of_node] = found[rank.run_id], found[node.run_id]
    assert (of_rank.rank, of_rank.node) == (5, 2)
    assert of_rank.ratio.mean == pytest.approx(1.3, rel=0.01)
    assert (of_node.rank, of_node.node) == (None, 1)


def test_steps_that_a_rank_lacks_are_not_looked_at(tmp_path: Path) -> None:
    run = made(tmp_path, {1: 1.5})
    path = run.steps_file("100.0", 3)
    parts = rows(path)
    write_rows(path, parts[:10] + parts[12:])
    [straggler] = named(tmp_path)[run.run_id]
    assert straggler.rank == 1


@pytest.mark.parametrize("most", [50, 300])
def test_long_runs_are_looked_at_by_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(module, "MOST_VALUES", most)
    runs = [made(tmp_path, {4: 1.4}, repeat=repeat) for repeat in (1, 2, 3)]
    found = named(tmp_path)
    if most > 100:
        assert [found[run.run_id][0].rank for run in runs] == [4, 4, 4]
    else:
        # About six steps are too few for a verdict.
        assert len(found) in (0, 3)


def test_a_run_without_communication_phase_hides_them(tmp_path: Path) -> None:
    run = plan(tmp_path, nodes=2, ranks_per_node=2)
    run.execute()
    run.steps(steps=40, phases={})
    assert named(tmp_path) == {}
