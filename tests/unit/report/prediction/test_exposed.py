"""Many steps at once are those that go one by one."""

import random

import numpy as np
import pytest
from one_step import Allreduce, simulate

from argosy.report.topics.prediction.network import Lines
from argosy.report.topics.prediction.step import (
    Horovod,
    Layer,
    Model,
    exposed_seconds,
    gradients_of,
    slowed,
)


def layers(chance: random.Random, count: int) -> Model:
    named = [
        Layer(f"layer{n}", chance.choice([0, 4e3, 1e5, 2e6, 8e6]), chance.uniform(0, 2e-3))
        for n in range(count)
    ]
    return Model(tuple(named), 0.01, 0.002, 0.001, samples=32)


@pytest.mark.parametrize("seed", range(12))
def test_many_steps_are_those_that_go_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    model = layers(chance, chance.choice([1, 3, 24]))
    cycle_s = chance.choice([0.0, 1e-4, 1e-3, 5e-3])
    horovod = Horovod(cycle_s, chance.choice([0, 5e6, float("inf")]))
    latencies = np.array([0.0, 1e-5, 2e-3, 5e-3])
    bytes_s = np.array([1e-10, 0.0, 1e-9, 1e-8])
    slower = np.array([1.0, 0.5, 2.0, 1.3])
    found = exposed_seconds(
        gradients_of(model), model.backward_s, slower, Lines(latencies, bytes_s), horovod
    )
    for place, exposed_s in enumerate(found.tolist()):
        line = Allreduce(latencies[place], bytes_s[place], latencies[place] / 2)
        alone_s = simulate(slowed(model, float(slower[place])), line, horovod).exposed_s
        assert exposed_s == pytest.approx(alone_s, abs=1e-9)


def test_no_gradients_add_nothing() -> None:
    model = Model((Layer("frozen", 0, 1e-3),), 0.01, 0.002, 0.001, samples=32)
    lines = Lines(np.ones(2), np.ones(2))
    found = exposed_seconds(gradients_of(model), model.backward_s, np.ones(2), lines, Horovod())
    assert found.tolist() == [0.0, 0.0]
