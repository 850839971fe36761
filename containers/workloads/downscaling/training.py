"""What the trainings of both frameworks share: options, data, batches, and the scores they reach."""

import argparse
import math
import secrets
import time
from dataclasses import dataclass

import numpy as np
from fields import WET, Normal, Year, normal_of, read_years, split, years_of
from scores import scores

CHANNELS = (50, 25, 10)
LEAST = 0.01
"""mm: a wet day's amount counts from just below WET, since a gamma distribution begins at 0."""


def parse_arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", required=True, help="folder of years from generate.py")
    parser.add_argument("--held-out", type=int, default=2, help="last years, for validation")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=128, help="samples of all ranks")
    parser.add_argument("--learning-rate", type=float, default=0.001)
    parser.add_argument("--target", type=float, default=0.9, help="ROC area to time")
    parser.add_argument("--seed", type=int, help="default: random")
    return parser.parse_args()


@dataclass(frozen=True)
class Data:
    """This rank's training years and all held-out ones; `steps` of an epoch, `share` of a batch."""

    own: Year
    held_out: Year
    normal: Normal
    steps: int
    share: int
    rank: int
    seed: int

    @property
    def points(self):
        return self.own.rain.shape[1]

    @property
    def fields(self):
        """Shape of a day's predictors: channels, rows, columns."""
        return self.own.predictors.shape[1:]

    def batches(self, epoch):
        """Yield this rank's share of each batch: normalised predictors, and rain in mm."""
        chance = np.random.default_rng([self.seed, epoch, self.rank])
        order = chance.permutation(len(self.own.rain))[: self.steps * self.share]
        for places in order.reshape(self.steps, self.share):
            yield self.normal.of(self.own.predictors[places]), self.own.rain[places]


def read(options, rank, size, sum_of, least_of):
    """Read this rank's years; `sum_of` and `least_of` give an array's sum and least over the ranks."""
    if options.batch_size % size:
        raise SystemExit(f"--batch-size {options.batch_size} cannot be divided among {size} ranks")
    training, validation = split(years_of(options.data), options.held_out, rank, size)
    # What each rank finds wrong with its years it says before it waits for others.
    own, held_out = (read_years(options.data, years) for years in (training, validation))
    share = options.batch_size // size
    steps = int(least_of(np.array([float(len(own.rain) // share)]))[0])
    normal = normal_of(own.predictors, sum_of)
    # That of rank 0 for all of them.
    drawn = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    seed = int(sum_of(np.array([float(drawn if rank == 0 else 0)]))[0])
    return Data(own, held_out, normal, steps, share, rank, seed)


class Progress:
    """Prints how good the network is after each epoch, and records it in the end; of rank 0."""

    def __init__(self, options, data, steps):
        self.options, self.data, self.steps = options, data, steps
        self.began, self.reached, self.found = time.monotonic(), None, {}

    def show(self, epoch, loss, predicted):
        """Take what is predicted of the held-out years: three arrays of shape (days, points)."""
        self.found = scores_of(predicted, self.data.held_out.rain, self.data.seed)
        if self.reached is None and self.found["roc_area"] >= self.options.target:
            self.reached = time.monotonic() - self.began
        said = ", ".join(f"{name} {value:.4f}" for name, value in self.found.items())
        print(f"epoch {epoch + 1}/{self.options.epochs}: loss {loss:.4f}, {said}", flush=True)

    def record(self):
        for name, value in {"seed": str(self.data.seed), **self.found}.items():
            self.steps.metric(name, value)
        if self.reached is not None:
            self.steps.metric("time_to_score_s", self.reached)


def check_loss(loss, epoch):
    if not math.isfinite(loss):
        raise SystemExit(f"epoch {epoch + 1}: the loss is {loss}; lower --learning-rate")


def scores_of(predicted, rain, seed):
    """Return the scores of logits of rain, and of logarithms of the shape and scale of its amount."""
    logit, log_shape, log_scale = (np.asarray(each, np.float64) for each in predicted)
    chance = 1 / (1 + np.exp(-logit))
    shape, scale = np.exp(log_shape), np.exp(log_scale)
    draw = np.random.default_rng(seed)
    sampled = np.where(draw.random(chance.shape) < chance, WET + draw.gamma(shape, scale), 0.0)
    return scores(chance, chance * (shape * scale + WET), sampled, rain)
