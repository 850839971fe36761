"""Steps' samples distinguish weak and strong scaling, whatever the jobs' times."""

from collections.abc import Iterator, Mapping
from typing import Literal

import duckdb
import numpy as np
import pytest

from argosy.report.runs.measurements import Point
from argosy.report.runs.steady import OTHER
from argosy.report.runs.study_tables import StudyTables
from argosy.report.topics.laws.fits import Refused
from argosy.report.topics.phases import step_times
from argosy.report.topics.prediction.measured import scaling_of_batches
from argosy.results.tables import PHASES, fill

Kind = Literal["strong", "weak"]
STUDIES = 2000
ONE, TWO, FOUR = Point(1, 1, 1), Point(2, 2, 1), Point(4, 4, 1)
Row = tuple[str | int | float, ...]


def batches(kind: Kind, batch: int, ranks: int) -> list[int]:
    """Return each rank's batch: constant, or its share of a batch that may be indivisible."""
    if kind == "weak":
        return [batch] * ranks
    return [batch // ranks + (rank < batch % ranks) for rank in range(ranks)]


def ugly_study(
    name: str, kind: Kind, chance: np.random.Generator
) -> Iterator[tuple[Row, list[Row]]]:
    """Runs and their ranks' sums: a job in five takes twice as long, an epoch's last batch is small."""
    batch, noise = int(chance.integers(6, 200)), float(chance.uniform(0.01, 0.2))
    for point in (ONE, TWO, FOUR):
        for run in range(int(chance.integers(1, 6))):
            run_id = f"{point.nodes}-{run}"
            slow = (2 if chance.random() < 0.2 else 1) * np.exp(noise * chance.standard_normal())
            steps, epochs = int(chance.integers(40, 400)), int(chance.integers(0, 3))
            sums: list[Row] = [
                (
                    name,
                    run_id,
                    rank,
                    steps,
                    steps - 1,
                    steps * size - epochs * (size // 2),
                    0.1 * steps * slow,
                )
                for rank, size in enumerate(batches(kind, batch, point.ranks))
            ]
            yield (name, run_id, point.nodes, 1, point.ranks), sums


def told(kinds: Mapping[str, Kind], chance: np.random.Generator) -> Mapping[str, Kind | Refused]:
    """Return the kind of scaling that the steps of each study show."""
    tables = duckdb.connect()
    tables.execute(
        "CREATE TABLE found (experiment VARCHAR, run_id VARCHAR, nodes INT, ranks_per_node INT, ranks INT)"
    )
    tables.execute(
        "CREATE TABLE sums (experiment VARCHAR, run_id VARCHAR, rank INT, steps INT, last INT, "
        "samples DOUBLE, seconds DOUBLE)"
    )
    both = [each for name, kind in kinds.items() for each in ugly_study(name, kind, chance)]
    fill(tables, "found", [run for run, _ in both])
    fill(tables, "sums", [row for _, rows in both for row in rows])
    tables.execute(
        "CREATE VIEW runs AS SELECT *, 'completed' AS state, []::INT[] AS missing_ranks FROM found"
    )
    none = ", ".join(f"NULL::DOUBLE AS {name}" for name in (*PHASES, OTHER))
    tables.execute(f"CREATE VIEW steady_rank AS SELECT *, {none} FROM sums")
    samples: dict[str, dict[Point, float]] = {}
    for (name, point), step in step_times(StudyTables(tables, {}, {}, {})).items():
        samples.setdefault(name, {})[point] = step.samples
    # The requested kind is the other one, and is ignored.
    return {
        name: scaling_of_batches(samples[name], ONE, "weak" if kind == "strong" else "strong")
        for name, kind in kinds.items()
    }


def test_weak_and_strong_are_never_confused_in_two_thousand_ugly_studies() -> None:
    chance = np.random.default_rng(12)
    kinds: dict[str, Kind] = {
        f"study{number}": "weak" if chance.random() < 0.5 else "strong" for number in range(STUDIES)
    }
    found = told(kinds, chance)
    assert [name for name, kind in kinds.items() if found[name] != kind] == []


@pytest.mark.parametrize(
    ("samples", "asked", "kind"),
    [
        ({ONE: 32, TWO: 32, FOUR: 30.5}, "strong", "weak"),
        ({ONE: 32, TWO: 16, FOUR: 8}, "weak", "strong"),
        # Divided into whole samples.
        ({ONE: 10, TWO: 5, FOUR: 2}, "weak", "strong"),
        ({ONE: 32, TWO: 0, FOUR: 32}, "strong", "weak"),
        ({ONE: 32}, "weak", "weak"),
        ({Point(2, 1, 2): 16, TWO: 16}, "weak", "weak"),
    ],
)
def test_the_samples_decide(samples: dict[Point, float], asked: Kind, kind: Kind) -> None:
    assert scaling_of_batches(samples, min(samples), asked) == kind


def test_what_samples_do_not_tell_is_refused() -> None:
    between = scaling_of_batches({ONE: 32, TWO: 24, FOUR: 20}, ONE, "weak")
    assert isinstance(between, Refused)
    assert "(32 on 1, 24 on 2, 20 on 4)" in between.reason
    alone = scaling_of_batches({ONE: 32}, ONE, "strong")
    assert isinstance(alone, Refused)
    assert "include 2 in the list scale.nodes" in alone.reason
