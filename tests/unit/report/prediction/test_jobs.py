"""The covariance by jobs, beside its definition with whole matrices, and what large studies cost."""

import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

from argosy.report.topics.prediction.communication import clustered

Matrix = NDArray[np.float64]


def by_definition(slopes: Matrix, residuals: Matrix, jobs: list[str]) -> Matrix:
    """CR2: each job's residuals times (1 - H_jj)^-1/2."""
    bread = np.linalg.inv(slopes.T @ slopes)
    apart = np.eye(len(jobs)) - slopes @ bread @ slopes.T
    scores = []
    for name in dict.fromkeys(jobs):
        one = [place for place, job in enumerate(jobs) if job == name]
        values, vectors = np.linalg.eigh(apart[np.ix_(one, one)])
        adjusted = vectors / np.sqrt(values) @ vectors.T @ residuals[one]
        scores.append(bread @ slopes[one].T @ adjusted)
    return np.asarray(np.array(scores).T @ np.array(scores))


@pytest.mark.parametrize("unknowns", [1, 2, 4])
def test_the_covariance_is_that_of_the_definition(unknowns: int) -> None:
    chance = np.random.default_rng(unknowns)
    slopes = chance.standard_normal((60, unknowns))
    residuals = chance.standard_normal(60) + np.repeat(chance.standard_normal(6), 10)
    jobs = [f"job{place // 10}" for place in range(60)]
    found = clustered(slopes, residuals, jobs)
    assert found.covariance == pytest.approx(by_definition(slopes, residuals, jobs))
    assert (found.freedom > 0.9).all() and (found.freedom < 6).all()


def test_jobs_that_are_alike_in_all_tell_as_many_degrees_as_there_are_but_one() -> None:
    jobs = [f"job{place // 10}" for place in range(60)]
    residuals = np.repeat(np.random.default_rng(1).standard_normal(6), 10)
    found = clustered(np.ones((60, 1)), residuals, jobs)
    assert found.freedom == pytest.approx([5])


def test_memory_grows_with_the_measurements_not_with_their_square() -> None:
    """A hat matrix of so many would be 3 GB."""
    chance = np.random.default_rng(2)
    slopes, residuals = chance.standard_normal((20_000, 4)), chance.standard_normal(20_000)
    tracemalloc.start()
    clustered(slopes, residuals, [f"job{place // 2000}" for place in range(20_000)])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 50e6
