"""Findings in steps are cached beside the tables, and used only while they are valid."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from reports import reported
from study_files import RunFiles, plan, sample_study

from argosy.report import write_report
from argosy.report.runs.stragglers import Straggler
from argosy.report.runs.study_tables import FILE_NAME, step_findings
from argosy.report.runs.warmup import WarmUp
from argosy.results import collect
from argosy.results.own_tables import mark
from argosy.results.tables import TABLES_VERSION, Run, open_tables, rows_of

REPORT = ("report.html", "summary.json", "summary.csv")


def made(results: Path, repeat: int, warm_up_s: float = 0.3, slow: float = 1.0) -> RunFiles:
    """Forty steps of four ranks, the first five slow; rank 3 takes `slow` times as long as others."""
    run = plan(results, nodes=2, ranks_per_node=2, repeat=repeat)
    run.execute()
    for rank in range(run.ranks):
        own_s = 0.1 * (slow if rank == 3 else 1.0)
        shares = {"backward": own_s / (0.1 * slow), "communication": 1 - own_s / (0.1 * slow)}
        run.steps(step_s=0.1 * slow, warm_up_s=warm_up_s, steps=40, phases=shares, ranks=[rank])
    return run


@dataclass(frozen=True)
class Found:
    """The findings, and the rows of their table."""

    warm_ups: Mapping[Run, WarmUp]
    stragglers: Mapping[Run, Sequence[Straggler]]
    rank_sums: Sequence[Mapping[str, Any]]


def found_in(results: Path) -> Found:
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        found = step_findings(tables, results / "tables")
        return Found(found.warm_ups, found.stragglers, rows_of(found.rank_sums))


def forget_steps_of(results: Path, run: RunFiles) -> None:
    """Remove a run's rows from the table of steps, so that nothing can be found there."""
    path, rest = results / "tables" / "steps.parquet", results / "tables" / "rest.parquet"
    duckdb.connect().execute(
        "COPY (SELECT * FROM read_parquet($path) WHERE run_id <> $run) TO $rest "
        f"(FORMAT parquet, KV_METADATA {{schema_version: '{TABLES_VERSION}'}})",
        {"path": str(path), "run": run.run_id, "rest": str(rest)},
    )
    rest.replace(path)
    mark(path)


def rewrite(results: Path, what: str) -> None:
    """Write the kept findings with columns replaced."""
    path, other = results / "tables" / FILE_NAME, results / "tables" / "other.parquet"
    duckdb.connect().execute(
        f"COPY (SELECT * REPLACE ({what}) FROM read_parquet($path)) TO $other (FORMAT parquet)",
        {"path": str(path), "other": str(other)},
    )
    other.replace(path)
    mark(path)


def test_what_this_version_finds(tmp_path: Path) -> None:
    """Where this fails, the rules changed: FINDINGS_VERSION has to be another one."""
    run = made(tmp_path, 1, slow=1.3)
    found = found_in(tmp_path)
    assert found.warm_ups == {
        ("digits", run.run_id): WarmUp(
            5, True, "the first 5 steps took 2.31 times as long as the rest"
        )
    }
    [straggler] = found.stragglers["digits", run.run_id]
    assert (straggler.rank, straggler.node, straggler.share) == (3, 1, 1.0)
    assert straggler.ratio.mean == pytest.approx(1.2974, abs=1e-4)


@pytest.mark.slow
def test_a_report_of_kept_findings_is_the_same_to_the_byte(tmp_path: Path) -> None:
    sample_study(tmp_path)
    made(tmp_path, 11)
    made(tmp_path, 12, slow=1.4)
    for new in (13, 14):
        reported(tmp_path)
        made(tmp_path, new, slow=1.0 + 0.1 * new)
    reported(tmp_path)
    with_kept = [(tmp_path / name).read_bytes() for name in REPORT]
    (tmp_path / "tables" / FILE_NAME).unlink()
    write_report(tmp_path)
    assert [(tmp_path / name).read_bytes() for name in REPORT] == with_kept


def test_only_new_runs_are_looked_at(tmp_path: Path) -> None:
    old = made(tmp_path, 1, slow=1.5)
    before = found_in(tmp_path)
    new = made(tmp_path, 2, slow=1.2)
    collect(tmp_path, tmp_path / "tables")
    forget_steps_of(tmp_path, old)
    after = found_in(tmp_path)
    assert (
        set(after.warm_ups) == set(after.stragglers) == {("digits", r.run_id) for r in (old, new)}
    )
    assert after.warm_ups["digits", old.run_id] == before.warm_ups["digits", old.run_id]
    assert after.stragglers["digits", old.run_id] == before.stragglers["digits", old.run_id]


def test_a_run_whose_files_changed_is_looked_at_again(tmp_path: Path) -> None:
    run, other = made(tmp_path, 1), made(tmp_path, 2)
    assert {found.steps for found in found_in(tmp_path).warm_ups.values()} == {5}
    for rank in range(run.ranks):
        run.steps_file("100.0", rank).unlink()
    run.steps(step_s=0.1, warm_up_s=0.1, steps=40)
    found = found_in(tmp_path).warm_ups
    assert found["digits", run.run_id].steps == 0
    assert found["digits", other.run_id].steps == 5


def test_what_other_rules_found_is_not_taken(tmp_path: Path) -> None:
    run = made(tmp_path, 1)
    before = found_in(tmp_path)
    rewrite(tmp_path, """replace(findings, '"steps":5', '"steps":7') AS findings""")
    assert found_in(tmp_path).warm_ups["digits", run.run_id].steps == 7, "a kept one is taken"
    (tmp_path / "tables" / FILE_NAME).with_suffix(".mark").write_text("0" * 128)
    assert found_in(tmp_path) == before, "one that somebody else made is not"
    rewrite(tmp_path, "replace(made_from, 'findings', 'older findings') AS made_from")
    assert found_in(tmp_path) == before


def test_a_run_that_is_gone_is_in_no_findings(tmp_path: Path) -> None:
    made(tmp_path, 1)
    gone = made(tmp_path, 2)
    assert len(found_in(tmp_path).warm_ups) == 2
    gone.path.rename(tmp_path.parent / "elsewhere")
    assert set(found_in(tmp_path).warm_ups) == {("digits", "nodes2-ranks2-repeat1")}


def test_damaged_findings_are_found_and_kept_again(tmp_path: Path) -> None:
    made(tmp_path, 1, slow=1.3)
    before = found_in(tmp_path)
    kept = tmp_path / "tables" / FILE_NAME
    whole = kept.read_bytes()
    for damaged in (b"", b"no table", whole[: len(whole) // 2]):
        kept.write_bytes(damaged)
        assert found_in(tmp_path) == before
        assert kept.read_bytes() == whole


@pytest.mark.parametrize("kind", ["a pipe", "a folder", "a link to what has no end"])
def test_what_is_no_file_in_their_place_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    made(tmp_path, 1, slow=1.3)
    expected = found_in(tmp_path)
    path = tmp_path / "tables" / FILE_NAME
    path.unlink()
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    assert found_in(tmp_path) == expected


def test_where_nothing_can_be_kept_the_findings_are_the_same(tmp_path: Path) -> None:
    made(tmp_path, 1, slow=1.3)
    before = found_in(tmp_path)
    kept = tmp_path / "tables" / FILE_NAME
    kept.unlink()
    kept.mkdir()
    assert found_in(tmp_path) == before
    assert not [*tmp_path.glob("tables/.*")], "nothing half written is left"


def test_findings_are_private(tmp_path: Path) -> None:
    made(tmp_path, 1)
    found_in(tmp_path)
    assert (tmp_path / "tables" / FILE_NAME).stat().st_mode & 0o777 == 0o600
