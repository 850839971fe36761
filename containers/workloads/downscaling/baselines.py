"""What a method has to beat: `baselines.py FOLDER` prints scores of climatology and regression."""

import argparse
import json

import numpy as np
from fields import WET, normal_of, read_years, split, years_of
from scores import scores

RIDGE = 100.0
"""By how much the regression is held back: of neighbouring cells each tells little that others do not."""


def climatology(training, validation):
    """Return the scores of days that are what days of their month were."""
    wet, amount = (
        np.array([values[training.months == month].mean(axis=0) for month in range(12)])
        for values in (training.rain >= WET, training.rain)
    )
    chance = np.random.default_rng(1)
    days = [chance.choice(np.flatnonzero(training.months == month)) for month in validation.months]
    months = validation.months
    return scores(wet[months], amount[months], training.rain[days], validation.rain)


def regression(training, validation):
    """Return the scores of a ridge regression of each point's rain on all fields."""
    normal = normal_of(training.predictors, lambda each: each)
    ours, theirs = (
        normal.of(each.predictors).reshape(len(each.predictors), -1)
        for each in (training, validation)
    )
    mean = training.rain.mean(axis=0)
    square = ours.T @ ours + RIDGE * np.eye(ours.shape[1], dtype=np.float32)
    weights = np.linalg.solve(square, ours.T @ (training.rain - mean))
    amount = np.maximum(theirs @ weights + mean, 0.0)
    return scores(amount, amount, amount, validation.rain)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--held-out", type=int, default=2, help="last years")
    options = parser.parse_args()
    training, validation = split(years_of(options.folder), options.held_out, 0, 1)
    read = [read_years(options.folder, years) for years in (training, validation)]
    print(json.dumps({"climatology": climatology(*read), "regression": regression(*read)}))


if __name__ == "__main__":
    main()
