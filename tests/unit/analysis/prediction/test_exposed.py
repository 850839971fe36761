"""Many steps at once are those that go one by one, wherever Horovod's cycles begin."""

import random

import numpy as np
import pytest

from argosy.analysis.prediction import Allreduce, Horovod, Layer, Model, simulate
from argosy.analysis.prediction.exposed import PHASES, mean_exposed
from argosy.analysis.prediction.layers import slowed
from argosy.analysis.prediction.networks import Lines
from argosy.analysis.prediction.overlap import gradients_of


def one_by_one(model: Model, line: Allreduce, horovod: Horovod, places: int = PHASES) -> float:
    idle_s = max(horovod.cycle_s, line.negotiation_s)
    begins = [(place + 0.5) / places * idle_s for place in range(places)]
    steps = [simulate(model, line, horovod, begin_s) for begin_s in begins]
    return float(np.mean([step.exposed_s for step in steps]))


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
    found = mean_exposed(
        gradients_of(model), model.backward_s, slower, Lines(latencies, bytes_s), horovod
    )
    for place, exposed_s in enumerate(found.tolist()):
        line = Allreduce(latencies[place], bytes_s[place], latencies[place] / 2)
        alone_s = one_by_one(slowed(model, float(slower[place])), line, horovod)
        assert exposed_s == pytest.approx(alone_s, abs=1e-9)


@pytest.mark.parametrize("cycle_s", [1e-3, 5e-3, 20e-3])
def test_the_step_is_that_of_all_places_of_the_cycle(cycle_s: float) -> None:
    """A cycle that begins with the backward pass finds the last gradients earlier, or later, than most."""
    model, horovod = layers(random.Random(1), 24), Horovod(cycle_s)
    line = Allreduce(1e-3, 1e-10, 5e-4)
    truth = one_by_one(model, line, horovod, places=512)
    lines = Lines(np.array([1e-3]), np.array([1e-10]))
    gradients = gradients_of(model)
    (found,) = mean_exposed(gradients, model.backward_s, np.ones(1), lines, horovod).tolist()
    assert found == pytest.approx(truth, abs=0.04 * cycle_s)


def test_no_gradients_add_nothing() -> None:
    model = Model((Layer("frozen", 0, 1e-3),), 0.01, 0.002, 0.001, samples=32)
    lines = Lines(np.ones(2), np.ones(2))
    found = mean_exposed(gradients_of(model), model.backward_s, np.ones(2), lines, Horovod())
    assert found.tolist() == [0.0, 0.0]
